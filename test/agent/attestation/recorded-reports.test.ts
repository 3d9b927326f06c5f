import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { ExpectedEvidence } from '../../../agent/attestation/attestation-verifier.ts'
import { extensionsOf } from '../../../agent/attestation/certificate-extensions.ts'
import { sevSnpVerifier } from '../../../agent/attestation/sev-snp.ts'
import { amdRoots, snpChainOf } from '../../../agent/attestation/snp-certificates.ts'
import { pinOf as pinOfKey } from '../../../core/kit/base/tls-pin.ts'
import { evidenceOf } from '../../support/snp-machine.ts'

const folder = fileURLToPath(new URL('../../../.cache/recorded-reports', import.meta.url))
// No failure under CI=true: the registries of Go modules and crates may be out of reach.
const isMissing = !existsSync(folder)
if (isMissing) console.log('skipped, missing: recorded attestation reports (test/install-recorded-reports says why)')

const file = (name: string) => readFileSync(`${folder}/${name}`)
const pems = (name: string) =>
  file(name)
    .toString()
    .split(/(?=-----BEGIN)/)
    .filter((text) => text.startsWith('-----BEGIN'))
    .map((pem) => new X509Certificate(pem).raw)

/** Of real processors: of the Rust crate sev, and of the Go module go-sev-guest. Both are EPYC of the third generation (Milan). */
const recordings = () => ({
  sev: {
    report: Buffer.from(file('report_milan.hex').toString().trim(), 'hex'),
    certificates: [file('vcek_milan.der'), ...pems('ask_ark_milan.pem')],
    tcb: { bootloader: 3, tee: 0, snp: 8, microcode: 0x73 },
  },
  google: {
    report: file('attestation.bin'),
    certificates: [file('vcek.testcer'), ...pems('ask_ark_milan.pem')],
    tcb: { bootloader: 2, tee: 0, snp: 5, microcode: 0x44 },
  },
})

const pinOf = ({ publicKey }: X509Certificate) => pinOfKey(publicKey)
const verifier = sevSnpVerifier()
const fieldOf = (report: Buffer, at: number, bytes: number) => report.subarray(at, at + bytes)

/** What the recorded report says, with AMD's root pinned and at a date of its time. */
function expectedOf({ report, tcb }: { report: Buffer; tcb: object }, changes: Partial<ExpectedEvidence> = {}): ExpectedEvidence {
  const measurements = [fieldOf(report, 0x90, 48).toString('hex')]
  const policy = { measurements, tcb: { milan: tcb } } as ExpectedEvidence['policy']
  return { data: fieldOf(report, 0x50, 64), policy, nowMs: Date.parse('2026-11-28T00:00:00Z'), ...changes }
}

describe.skipIf(isMissing)('a report of a real processor', () => {
  it('is accepted with the policy that names its measurement and firmware', () => {
    const { sev } = recordings()
    const verdict = verifier.verify(evidenceOf(sev.report, sev.certificates), expectedOf(sev))
    const measurement = fieldOf(sev.report, 0x90, 48).toString('hex')
    expect(verdict).toEqual({ kind: 'accepted', claims: { product: 'milan', measurement, tcb: sev.tcb } })
  })

  it('is refused for what it says: a guest that may be debugged, old firmware, another measurement, another connection', () => {
    const { google, sev } = recordings()
    const reasonFor = (one: typeof sev, changes?: Partial<ExpectedEvidence>) => {
      const verdict = verifier.verify(evidenceOf(one.report, one.certificates), expectedOf(one, changes))
      return verdict.kind === 'refused' ? verdict.reason : verdict.kind
    }
    // Genuine in all else, or its signature would be the reason.
    expect(reasonFor(google)).toBe('unsafe guest')
    const { policy } = expectedOf(sev)
    expect(reasonFor(sev, { policy: { ...policy, tcb: { milan: { ...sev.tcb, microcode: 0x74 } } } })).toBe('old firmware')
    expect(reasonFor(sev, { policy: { ...policy, measurements: ['ab'.repeat(48)] } })).toBe('unknown measurement')
    expect(reasonFor(sev, { data: new Uint8Array(64) })).toBe('not this connection')
    expect(reasonFor(sev, { nowMs: Date.parse('2031-01-01T00:00:00Z') })).toBe('expired')
  })

  it('is refused with the certificates of the other one, and with altered bytes', () => {
    const { google, sev } = recordings()
    const swapped = verifier.verify(evidenceOf(sev.report, google.certificates), expectedOf(sev))
    expect(swapped).toMatchObject({ kind: 'refused', reason: 'signature' })
    for (let at = 0; at < sev.report.length; at += 7) {
      const altered = Buffer.from(sev.report)
      altered[at]! ^= 0x10
      expect(verifier.verify(evidenceOf(altered, sev.certificates), expectedOf(sev)).kind).toBe('refused')
    }
  })
})

describe.skipIf(isMissing)("AMD's certificates", () => {
  it('of each product end at the pinned root, for the keys of chips and of cloud operators', () => {
    const keys: [string, string][] = [
      ['milan', 'ask_ark_milan.pem'],
      ['milan', 'ask_ark_milan_vlek.pem'],
      ['genoa', 'ask_ark_genoa.pem'],
      ['genoa', 'ask_ark_genoa_vlek.pem'],
      ['turin', 'ask_ark_turin_vcek.pem'],
      ['turin', 'ask_ark_turin_vlek.pem'],
    ]
    for (const [product, name] of keys) {
      const [signer, root] = pems(name).map((der) => new X509Certificate(der)) as [X509Certificate, X509Certificate]
      expect(signer.verify(root.publicKey)).toBe(true)
      expect(
        snpChainOf(
          [signer, root].map(({ raw }) => raw.toString('base64')),
          'VCEK',
          amdRoots,
        ),
      ).toContain('shows no certificate')
      expect(amdRoots[product as 'milan']).toBe(pinOf(root))
    }
  })

  it('of Turin have the shorter id of a chip, and the version of its first part', () => {
    const [vcek, ask, ark] = [file('vcek_turin.der'), ...pems('ask_ark_turin_vcek.pem')] as [Buffer, Buffer, Buffer]
    const chain = snpChainOf(
      [vcek, ask, ark].map((one) => one.toString('base64')),
      'VCEK',
      amdRoots,
    )
    expect(chain).toMatchObject({ product: 'turin' })
    const extensions = extensionsOf(vcek)
    expect(extensions.get('2b060104019c780104')).toHaveLength(8)
    expect(extensions.get('2b060104019c78010309')).toEqual(Buffer.from([2, 1, 0]))
  })
})
