import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BrimError, orThrow } from '../../core/kit/base/errors.ts'

/** Of an entry: a GUID, then offset and length of its content as little-endian 32-bit numbers. */
const entryBytes = 24
const guidBytes = 16

/**
 * The certificates that a host gives its guest with a report: the table of "GHCB Protocol" (AMD 56421), "SNP Extended Guest
 * Request". The device finds out which is which.
 * @returns DER; empty where the host gives none
 */
export function certificatesInTable(table: Buffer): Buffer[] {
  const found: Buffer[] = []
  for (let at = 0; at + entryBytes <= table.length; at += entryBytes) {
    if (table.subarray(at, at + guidBytes).every((byte) => byte === 0)) break
    const start = table.readUInt32LE(at + guidBytes)
    const content = table.subarray(start, start + table.readUInt32LE(at + guidBytes + 4))
    // Not all entries are certificates.
    if (isCertificate(content)) found.push(content)
  }
  return found
}

function isCertificate(der: Buffer): boolean {
  try {
    return new X509Certificate(der).raw.equals(der)
  } catch {
    return false
  }
}

/** @param path PEM. @returns DER; @throws BrimError CONFIG_INVALID */
export function readCertificates(path: string): Buffer[] {
  const what = `the certificates ${path} of --attestation-certificates`
  return orThrow(
    () => {
      const pems = readFileSync(path, 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)
      if (!pems) throw new BrimError('CONFIG_INVALID', `${what} has none`, { hint: 'it must be a PEM file' })
      return pems.map((pem) => new X509Certificate(pem).raw)
    },
    'CONFIG_INVALID',
    `${what} cannot be read`,
    'it must be a PEM file with the certificates of VCEK or VLEK, ASK and ARK',
  )
}
