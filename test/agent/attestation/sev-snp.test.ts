import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ExpectedEvidence } from '../../../agent/attestation/attestation-verifier.ts'
import { sevSnpVerifier } from '../../../agent/attestation/sev-snp.ts'
import { amdRoots } from '../../../agent/attestation/snp-certificates.ts'
import { evidenceOf, snpMachine, testMeasurement, testPolicy, testTcb } from '../../support/snp-machine.ts'

const machine = snpMachine()
const data = randomBytes(64)
const expected: ExpectedEvidence = { data, policy: testPolicy(), nowMs: Date.parse('2026-11-28T12:00:00Z') }
const verifier = sevSnpVerifier(machine.roots)
const refusedAs = (reason: string) => expect.objectContaining({ kind: 'refused', reason })

describe('a report of a machine that the policy trusts is accepted', () => {
  it.each([
    ['milan', 2],
    ['milan', 3],
    ['genoa', 3],
    ['genoa', 5],
    ['turin', 5],
  ] as const)('of %s, version %i', (product, version) => {
    const one = snpMachine({ product })
    const verdict = sevSnpVerifier(one.roots).verify(one.evidence(data, { version }), {
      ...expected,
      policy: testPolicy(product),
    })
    const measurement = testMeasurement.toString('hex')
    expect(verdict).toMatchObject({ kind: 'accepted', claims: { product, measurement, tcb: testTcb } })
  })

  it('signed by the key of a cloud operator, which is of no chip', () => {
    const one = snpMachine({ key: 'VLEK' })
    expect(sevSnpVerifier(one.roots).verify(one.evidence(data), expected).kind).toBe('accepted')
  })

  it('with its certificates in any order, and others among them', () => {
    const foreign = snpMachine().certificates[1]!
    const cloud = snpMachine({ key: 'VLEK' }).certificates[0]!
    const certificates = [cloud, foreign, ...[...machine.certificates].reverse(), randomBytes(100)]
    expect(verifier.verify(evidenceOf(machine.report(data), certificates), expected).kind).toBe('accepted')
  })

  it('on a device whose clock is not set, also with an expired certificate', () => {
    const one = snpMachine({ validTo: '2025-01-01T00:00:00' })
    const verify = (nowMs: number | undefined) => sevSnpVerifier(one.roots).verify(one.evidence(data), { ...expected, nowMs })
    expect(verify(undefined).kind).toBe('accepted')
    expect(verify(expected.nowMs)).toEqual(refusedAs('expired'))
  })
})

describe('a report is refused', () => {
  const report = machine.report(data)

  it('if any bit of it is flipped', () => {
    const flipped = (bit: number) => {
      const altered = Buffer.from(report)
      altered[bit >> 3]! ^= 1 << (bit & 7)
      return verifier.verify(evidenceOf(altered, machine.certificates), expected).kind
    }
    // Each byte of the report, and then bits at random.
    for (let at = 0; at < report.length; at++) expect(flipped(8 * at + (at % 8))).toBe('refused')
    fc.assert(fc.property(fc.nat(8 * report.length - 1), (bit) => flipped(bit) === 'refused'))
  })

  it('if any bit of a certificate is flipped', () => {
    const bits = machine.certificates.flatMap((one, which) => [...one.keys()].map((at) => ({ which, at })))
    fc.assert(
      fc.property(fc.constantFrom(...bits), fc.nat(7), ({ which, at }, bit) => {
        const certificates = machine.certificates.map((one) => Buffer.from(one))
        certificates[which]![at]! ^= 1 << bit
        return verifier.verify(evidenceOf(report, certificates), expected).kind === 'refused'
      }),
      { numRuns: 300 },
    )
  })

  it('if it is cut, too long, or anything else', () => {
    const verify = (bytes: Uint8Array) => verifier.verify(evidenceOf(Buffer.from(bytes), machine.certificates), expected)
    for (const length of [0, 1, 0x2a0, report.length - 1])
      expect(verify(report.subarray(0, length))).toEqual(refusedAs('malformed'))
    expect(verify(Buffer.concat([report, Buffer.alloc(1)]))).toEqual(refusedAs('malformed'))
    fc.assert(fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => verify(bytes).kind === 'refused'))
  })

  it('if certificates are missing, of another root, or whatever bytes', () => {
    const verify = (certificates: readonly Buffer[]) => verifier.verify(evidenceOf(report, certificates), expected)
    const [leaf, ask, ark] = machine.certificates as [Buffer, Buffer, Buffer]
    for (const some of [[], [leaf], [leaf, ask], [leaf, ark], [ask, ark]]) expect(verify(some)).toEqual(refusedAs('certificates'))
    const other = snpMachine()
    expect(verify([leaf, ...other.certificates.slice(1)])).toEqual(refusedAs('certificates'))
    expect(verify([leaf, ask, other.certificates[2]!])).toEqual(refusedAs('certificates'))
    // A whole chain, of a root that is not AMD's: as any attacker can make one.
    expect(verifier.verify(other.evidence(data), expected)).toEqual(refusedAs('certificates'))
    expect(sevSnpVerifier(amdRoots).verify(machine.evidence(data), expected)).toEqual(refusedAs('certificates'))
    // A name is no key: these have those of the trusted machine's certificates.
    expect(verify([other.certificates[0]!, ask, ark])).toEqual(refusedAs('certificates'))
    fc.assert(
      fc.property(
        fc.array(fc.uint8Array({ maxLength: 600 }), { maxLength: 8 }),
        (list) => verify(list.map((one) => Buffer.from(one))).kind === 'refused',
      ),
    )
  })

  it.each([
    ['another chip than its certificate', { chipId: randomBytes(64) }, 'certificates'],
    ['other firmware than its certificate', { tcb: { ...testTcb, microcode: 214 } }, 'certificates'],
    ['an unknown version', { version: 6 }, 'unsupported'],
    ['a virtual machine that may be debugged', { policy: 0xb0000n }, 'unsafe guest'],
    ['one that a migration agent may move', { policy: 0x70000n }, 'unsafe guest'],
    ['a lower privilege level', { vmpl: 1 }, 'unsafe guest'],
    ['another virtual machine', { measurement: randomBytes(48) }, 'unknown measurement'],
  ] as const)('of %s', (_, fields, reason) => {
    expect(verifier.verify(machine.evidence(data, fields), expected)).toEqual(refusedAs(reason))
  })

  it('of firmware that is older than the policy allows, part by part', () => {
    const parts = ['bootloader', 'tee', 'snp', 'microcode'] as const
    for (const part of parts) {
      const old = snpMachine({ tcb: { ...testTcb, [part]: testTcb[part] - 1 } })
      const verdict = sevSnpVerifier(old.roots).verify(old.evidence(data), expected)
      expect(verdict).toMatchObject({ reason: 'old firmware', detail: expect.stringContaining(part) })
    }
    const turin = snpMachine({ product: 'turin' })
    expect(sevSnpVerifier(turin.roots).verify(turin.evidence(data), expected)).toEqual(refusedAs('old firmware'))
  })

  it('about other data: of another connection, another key, or yesterday', () => {
    expect(verifier.verify(machine.evidence(randomBytes(64)), expected)).toEqual(refusedAs('not this connection'))
  })

  it('of a kind of key that its certificate is not of', () => {
    const cloud = snpMachine({ key: 'VLEK' })
    const mixed = evidenceOf(machine.report(data), cloud.certificates)
    expect(sevSnpVerifier(cloud.roots).verify(mixed, expected)).toEqual(refusedAs('certificates'))
  })
})
