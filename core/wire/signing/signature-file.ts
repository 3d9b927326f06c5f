import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import {
  maxSignatureBytes,
  type PublicKey,
  requireSigned,
  type Signature,
  SignatureFile,
  type SignedKind,
  signatureFile,
} from './signature.ts'

/** @param bytes of a file of signatures. @throws BrimError SIGNATURE_INVALID */
export function parseSignatures(bytes: Uint8Array): SignatureFile {
  const text = Buffer.from(bytes).toString('utf8')
  try {
    if (bytes.byteLength > maxSignatureBytes) throw new Error(`it has more than ${maxSignatureBytes} bytes`)
    return SignatureFile.parse(JSON.parse(text))
  } catch (cause) {
    throw new BrimError('SIGNATURE_INVALID', 'the file of signatures cannot be read', {
      cause,
      hint: 'sign the bundle or archive again with "brim bundle sign"',
    })
  }
}

/** The signatures of a bundle in a folder; undefined: it has none. @throws BrimError SIGNATURE_INVALID */
export const readSignatures = (folder: string): Promise<SignatureFile | undefined> =>
  readSignaturesAt(join(folder, signatureFile))

/** @throws BrimError SIGNATURE_INVALID */
export async function readSignaturesAt(path: string): Promise<SignatureFile | undefined> {
  const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  return bytes && parseSignatures(bytes)
}

/** Adds a signature to a file, in place of an earlier one of the same key; atomically. */
export async function addSignature(path: string, signature: Signature): Promise<void> {
  const before = await readSignaturesAt(path)
  const others = (before?.signatures ?? []).filter(({ publicKey }) => publicKey !== signature.publicKey)
  const unfinished = `${path}.${process.pid}`
  await writeFile(unfinished, signaturesText({ v: 1, signatures: [...others, signature] }), { flush: true })
  await rename(unfinished, path)
}

export const signaturesText = (file: SignatureFile): string => `${JSON.stringify(file, null, 2)}\n`

/** Public keys whose signatures fit what they sign. Whether they are trusted is for each device to decide. */
export function signersOf(kind: SignedKind, sha256: string, { signatures }: SignatureFile): PublicKey[] {
  return signatures.flatMap((signature) => (fits(kind, sha256, signature) ? [signature.publicKey] : []))
}

function fits(kind: SignedKind, sha256: string, signature: Signature): boolean {
  try {
    requireSigned(kind, sha256, { v: 1, signatures: [signature] }, [signature.publicKey])
    return true
  } catch {
    return false
  }
}
