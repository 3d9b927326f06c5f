import { constants, createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Product } from '../../agent/attestation/attestation-policy.ts'
import type { SnpRoots } from '../../agent/attestation/snp-certificates.ts'
import type { Evidence } from '../../core/wire/protocol/attestation.ts'

/** DER of one value. */
const der = (tag: number, ...parts: Uint8Array[]): Buffer => {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: Uint8Array[]) => der(0x30, ...parts)
const integer = (...bytes: number[]) => der(0x02, Buffer.from(bytes[0]! < 0x80 ? bytes : [0, ...bytes]))
const id = (hex: string) => der(0x06, Buffer.from(hex, 'hex'))
const sha384 = sequence(id('608648016503040202'), der(0x05))
const pssSha384 = sequence(
  id('2a864886f70d01010a'),
  sequence(der(0xa0, sha384), der(0xa1, sequence(id('2a864886f70d010108'), sha384)), der(0xa2, integer(48))),
)
const commonName = (name: string) => sequence(der(0x31, sequence(id('550403'), der(0x0c, Buffer.from(name)))))
/** Of a date as in ISO 8601. */
const time = (iso: string) => der(0x18, Buffer.from(`${iso.replace(/\D/g, '').slice(0, 14)}Z`))
const extension = (hex: string, value: Uint8Array) => sequence(id(hex), der(0x04, value))
const amd = (hex: string, value: Uint8Array) => extension(`2b060104019c7801${hex}`, value)

interface Signer {
  readonly name: string
  readonly privateKey: KeyObject
}

function certificate(subject: string, publicKey: KeyObject, issuer: Signer, validTo: string, extensions: Buffer[]): Buffer {
  const body = sequence(
    der(0xa0, integer(2)),
    integer(...randomBytes(8)),
    pssSha384,
    commonName(issuer.name),
    sequence(time('2020-01-01T00:00:00'), time(validTo)),
    commonName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...extensions)),
  )
  const signature = sign('sha384', body, { key: issuer.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 48 })
  return sequence(body, pssSha384, der(0x03, Buffer.from([0]), signature))
}

const isAuthority = extension('551d13', sequence(der(0x01, Buffer.from([0xff]))))

export const testTcb = { bootloader: 4, tee: 1, snp: 22, microcode: 213 }
export const testMeasurement = createHash('sha384').update('a bridge').digest()

export interface ReportFields {
  readonly version?: number
  readonly policy?: bigint
  readonly vmpl?: number
  readonly chipId?: Buffer
  readonly tcb?: typeof testTcb & { fmc?: number }
  readonly measurement?: Buffer
}

/** A processor with keys and certificates like those of AMD, whose root is its own. */
export interface SnpMachine {
  readonly roots: SnpRoots
  /** DER: VCEK (or VLEK), ASK, ARK. */
  readonly certificates: readonly Buffer[]
  /** A signed report. */
  report(data: Uint8Array, fields?: ReportFields): Buffer
  evidence(data: Uint8Array, fields?: ReportFields): Evidence
}

const cpuids: Record<Product, [number, number]> = { milan: [0x19, 0x01], genoa: [0x19, 0x11], turin: [0x1a, 0x02] }

/** @param validTo of the key of its reports */
export function snpMachine(
  options: { product?: Product; key?: 'VCEK' | 'VLEK'; validTo?: string; tcb?: typeof testTcb } = {},
): SnpMachine {
  const { product = 'milan', key = 'VCEK', validTo = '2049-01-01T00:00:00', tcb = testTcb } = options
  // Made in milliseconds.
  const rsa = () => generateKeyPairSync('rsa', { modulusLength: 1_024 })
  const [root, signer] = [rsa(), rsa()]
  const leaf = generateKeyPairSync('ec', { namedCurve: 'P-384' })
  const ark = { name: 'ARK-Test', privateKey: root.privateKey }
  const ask = { name: 'SEV-Test', privateKey: signer.privateKey }
  const id = Buffer.alloc(64)
  randomBytes(product === 'turin' ? 8 : 64).copy(id)
  const versions = { '0301': tcb.bootloader, '0302': tcb.tee, '0303': tcb.snp, '0308': tcb.microcode, '0309': 7 }
  const certificates = [
    certificate(`SEV-${key}`, leaf.publicKey, ask, validTo, [
      ...Object.entries(versions).map(([part, version]) => amd(part, integer(version))),
      ...(key === 'VCEK' ? [amd('04', product === 'turin' ? id.subarray(0, 8) : id)] : []),
    ]),
    certificate(ask.name, signer.publicKey, ark, '2049-01-01T00:00:00', [isAuthority]),
    certificate(ark.name, root.publicKey, ark, '2049-01-01T00:00:00', [isAuthority]),
  ]
  const pin = createHash('sha256')
    .update(root.publicKey.export({ type: 'spki', format: 'der' }))
    .digest('base64url')

  function report(data: Uint8Array, fields: ReportFields = {}): Buffer {
    const bytes = Buffer.alloc(0x4a0)
    const versions = { fmc: 7, ...(fields.tcb ?? tcb) }
    bytes.writeUInt32LE(fields.version ?? 3, 0)
    bytes.writeBigUInt64LE(fields.policy ?? 0x30000n, 0x08)
    bytes.writeUInt32LE(fields.vmpl ?? 0, 0x30)
    bytes.writeUInt32LE(1, 0x34)
    bytes.writeUInt32LE(key === 'VLEK' ? 1 << 2 : 0, 0x48)
    bytes.set(data, 0x50)
    bytes.set(fields.measurement ?? testMeasurement, 0x90)
    const { fmc, bootloader, tee, snp, microcode } = versions
    bytes.set(
      product === 'turin' ? [fmc, bootloader, tee, snp, 0, 0, 0, microcode] : [bootloader, tee, 0, 0, 0, 0, snp, microcode],
      0x180,
    )
    if (bytes.readUInt32LE(0) > 2) bytes.set(cpuids[product], 0x188)
    bytes.set(fields.chipId ?? id, 0x1a0)
    const signature = sign('sha384', bytes.subarray(0, 0x2a0), { key: leaf.privateKey, dsaEncoding: 'ieee-p1363' })
    bytes.set(Buffer.from(signature.subarray(0, 48)).reverse(), 0x2a0)
    bytes.set(Buffer.from(signature.subarray(48)).reverse(), 0x2a0 + 72)
    return bytes
  }
  return {
    roots: { milan: 'none', genoa: 'none', turin: 'none', [product]: pin },
    certificates,
    report,
    evidence: (data, fields) => evidenceOf(report(data, fields), certificates),
  }
}

export const evidenceOf = (report: Buffer, certificates: readonly Buffer[]): Evidence => ({
  kind: 'sev-snp',
  report: report.toString('base64'),
  certificates: certificates.map((one) => one.toString('base64')),
})

/** A policy that accepts the machine's reports. */
export const testPolicy = (product: Product = 'milan') => ({
  measurements: [testMeasurement.toString('hex')],
  tcb: { [product]: product === 'turin' ? { fmc: 7, ...testTcb } : testTcb },
})
