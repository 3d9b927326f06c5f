import type { Product, Tcb } from './attestation-policy.ts'

/**
 * An attestation report of AMD SEV-SNP: table "ATTESTATION_REPORT" of "SEV Secure Nested Paging Firmware ABI Specification"
 * (AMD 56860). Versions 3 to 5 added fields to the reserved ones of version 2; those that are read here did not move, but for
 * the parts of a TCB, whose places depend on the product.
 */
export interface SnpReport {
  readonly isDebuggable: boolean
  /** A migration agent may move the virtual machine to another host. */
  readonly isMigratable: boolean
  /** Privilege level that has asked for the report; 0 is the highest. */
  readonly vmpl: number
  /** VCEK: of the chip. VLEK: of the cloud's operator, who gets it from AMD. */
  readonly signingKey: 'VCEK' | 'VLEK' | 'none'
  readonly reportData: Buffer
  readonly measurement: Buffer
  /** Of the firmware that the report's key stands for, 8 bytes. */
  readonly reportedTcb: Buffer
  readonly chipId: Buffer
  /** What is signed. */
  readonly signed: Buffer
  /** R and S, 48 bytes each, big-endian. */
  readonly signature: Buffer
}

const reportBytes = 0x4a0
const signedBytes = 0x2a0
const numberBytes = 48
const fieldBytes = 72
const ecdsaP384Sha384 = 1

/** @returns 'unsupported': another version or algorithm; 'malformed': no report */
export function parseSnpReport(bytes: Buffer): SnpReport | 'unsupported' | 'malformed' {
  if (bytes.length !== reportBytes) return 'malformed'
  const version = bytes.readUInt32LE(0)
  if (version < 2 || version > 5 || bytes.readUInt32LE(0x34) !== ecdsaP384Sha384) return 'unsupported'
  const [r, s] = [signedBytes, signedBytes + fieldBytes].map((at) => bytes.subarray(at, at + fieldBytes)) as [Buffer, Buffer]
  // The rest of the signature's 512 bytes: were it ignored, a report could be altered there.
  const rest = [r.subarray(numberBytes), s.subarray(numberBytes), bytes.subarray(signedBytes + 2 * fieldBytes)]
  if (rest.some((part) => part.some((byte) => byte !== 0))) return 'malformed'
  const policy = bytes.readBigUInt64LE(0x08)
  return {
    isDebuggable: (policy & (1n << 19n)) !== 0n,
    isMigratable: (policy & (1n << 18n)) !== 0n,
    vmpl: bytes.readUInt32LE(0x30),
    signingKey: (['VCEK', 'VLEK'] as const)[(bytes.readUInt32LE(0x48) >> 2) & 7] ?? 'none',
    reportData: bytes.subarray(0x50, 0x90),
    measurement: bytes.subarray(0x90, 0xc0),
    reportedTcb: bytes.subarray(0x180, 0x188),
    chipId: bytes.subarray(0x1a0, 0x1e0),
    signed: bytes.subarray(0, signedBytes),
    signature: Buffer.concat([r, s].map((number) => Buffer.from(number.subarray(0, numberBytes)).reverse())),
  }
}

/** @param bytes TCB_VERSION, 8 bytes */
export function tcbOf(bytes: Uint8Array, product: Product): Tcb {
  const [first = 0, second = 0, third = 0, fourth = 0, , , seventh = 0, microcode = 0] = bytes
  return product === 'turin'
    ? { fmc: first, bootloader: second, tee: third, snp: fourth, microcode }
    : { bootloader: first, tee: second, snp: seventh, microcode }
}
