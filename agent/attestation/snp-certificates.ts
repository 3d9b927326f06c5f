import { X509Certificate } from 'node:crypto'
import { pinOf } from '../../core/kit/base/tls-pin.ts'
import type { Product } from './attestation-policy.ts'
import { extensionsOf } from './certificate-extensions.ts'
import { type SnpReport, tcbOf } from './snp-report.ts'

/** Pins of the roots of AMD's key hierarchy, by product. */
export type SnpRoots = Readonly<Record<Product, string>>

/**
 * The keys ARK-Milan, ARK-Genoa and ARK-Turin, in the files cert_chain of AMD's key distribution service, for VCEK and VLEK alike
 * (AMD 57230, "VCEK Certificate and KDS Interface Specification"). Each certificate has the same key for the life of its product.
 */
export const amdRoots: SnpRoots = {
  milan: 'nwVr7kQ3fikwjLX_qJW9-2LRiIH6a-2NbwdbAgQInLk',
  genoa: 'QpppyUIqoljuTY21_NqcZHDvFfjNWpzr1svH2QuGODE',
  turin: 'TxJUEFY6KrmlA1b5JD9v4Lb3PemGA_U_kDOccOnXrQg',
}

/** The certificates from the key of reports to its root, each of which the next has signed. */
export interface SnpChain {
  readonly leaf: X509Certificate
  readonly all: readonly X509Certificate[]
  readonly product: Product
}

/** @param certificates DER, base64, in any order. @returns what is wrong, if they are no chain from such a key to one of the roots */
export function snpChainOf(certificates: readonly string[], key: SnpReport['signingKey'], roots: SnpRoots): SnpChain | string {
  const read = certificates.flatMap((base64) => readCertificate(Buffer.from(base64, 'base64')) ?? [])
  const leaf = read.find(({ subject }) => subject.endsWith(`CN=SEV-${key}`))
  if (!leaf) return `its report is signed by a ${key}, of which it shows no certificate`
  const issuerOf = (one: X509Certificate) =>
    read.find((other) => other.ca && one.checkIssued(other) && one.verify(other.publicKey))
  const signer = issuerOf(leaf)
  const root = signer && issuerOf(signer)
  if (!root) return 'the certificates are no chain: one is missing, or its signature is wrong'
  const product = (Object.keys(roots) as Product[]).find((name) => roots[name] === pinOf(root.publicKey))
  if (product === undefined || issuerOf(root) !== root) return "the chain does not end at a root of AMD's"
  return { leaf, all: [leaf, signer, root], product }
}

function readCertificate(der: Buffer): X509Certificate | undefined {
  try {
    const certificate = new X509Certificate(der)
    // It is read when it is asked for.
    return certificate.publicKey && certificate
  } catch {
    return undefined
  }
}

/** Of 1.3.6.1.4.1.3704.1, below which AMD 57230 has the extensions of these certificates, in hex. */
const amdId = '2b060104019c7801'
const tcbIds = { bootloader: '0301', tee: '0302', snp: '0303', microcode: '0308', fmc: '0309' } as const
/** Of Turin: a chip's id has fewer bytes than a report has for it. */
const turinIdBytes = 8

/** Whether the certificate is that of the report's key: of its firmware and chip. @returns what is wrong */
export function certificateProblem({ leaf, product }: SnpChain, report: SnpReport): string | undefined {
  const extensions = extensionsOf(leaf.raw)
  const says = (id: string, value: Uint8Array) => extensions.get(`${amdId}${id}`)?.equals(value) === true
  const tcb = Object.entries(tcbOf(report.reportedTcb, product)) as [keyof typeof tcbIds, number][]
  const other = tcb.find(([part, version]) => !says(tcbIds[part], derInteger(version)))
  if (other) return `its report has another version of ${other[0]} than its certificate`
  // A VLEK is not of one chip.
  const chip = product === 'turin' ? report.chipId.subarray(0, turinIdBytes) : report.chipId
  if (report.signingKey === 'VCEK' && !says('04', chip)) return 'its report is of another chip than its certificate'
  return undefined
}

const derInteger = (byte: number) => Uint8Array.from(byte < 0x80 ? [2, 1, byte] : [2, 2, 0, byte])
