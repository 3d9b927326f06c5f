import { link, mkdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BrimError } from '../../core/kit/base/errors.ts'
import { makeFolder, renamePrivate, syncNames } from '../../core/kit/base/private-file.ts'
import type { SignatureFile, SignedKind } from '../../core/wire/signing/signature.ts'
import { signersOf } from '../../core/wire/signing/signature-file.ts'

/** A new folder with these files, instead of what an interrupted request has left of it. */
export async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, { flush: true })
}

/** Gives a file another name: no byte is copied. */
export async function linkFile(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  await link(from, to)
}

/** Renames a complete folder, whose files are on disk, durably. */
export function publishFolder(folder: string, to: string): void {
  syncNames(folder)
  makeFolder(dirname(to))
  renamePrivate(folder, to)
}

/** Refuses signatures of something else, before they reach a device. @throws BrimError SIGNATURE_INVALID */
export function requireFitting(kind: SignedKind, sha256: string, signatures: SignatureFile): void {
  if (signersOf(kind, sha256, signatures).length < signatures.signatures.length)
    throw new BrimError('SIGNATURE_INVALID', `a signature does not fit the ${kind}`, {
      hint: 'sign it again with "brim bundle sign"',
    })
}
