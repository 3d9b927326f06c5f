import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'

/** Written last: a folder without it is no backup. */
export const backupFile = 'backup.json'
export const configFile = 'bridge.yaml'

export const Backup = z.object({
  v: z.literal(1),
  at: z.iso.datetime(),
  /** Release that has written it. */
  version: z.string(),
  bridge: z.object({
    instance: z.string(),
    bridge: z.string().nullable(),
    fleet: z.string().nullable(),
    tlsCert: z.string().nullable(),
    tlsKey: z.string().nullable(),
  }),
  files: z.array(
    z.object({
      /** A plain file name: no backup writes outside the state folder. */
      name: z.string().regex(/^[a-z][a-z0-9-]*\.(?:sqlite|json|pem|yaml)$/),
      bytes: z.int().min(0),
      sha256: z.string().regex(/^[0-9a-f]{64}$/),
    }),
  ),
})
export type Backup = z.infer<typeof Backup>

/** Of the text of `backupFile`, which has the SHA-256 of every other file: an operator who knows it recognizes the backup. */
export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** @throws BrimError BACKUP_INVALID */
export function readBackup(folder: string): { readonly backup: Backup; readonly digest: string } {
  const path = join(folder, backupFile)
  if (!existsSync(path))
    throw new BrimError('BACKUP_INVALID', `${folder} holds no backup of a bridge: it has no ${backupFile}`, {
      hint: 'give the folder that "brim bridge backup --out" has written',
    })
  try {
    const text = readFileSync(path, 'utf8')
    return { backup: Backup.parse(JSON.parse(text)), digest: digestOf(text) }
  } catch (cause) {
    throw new BrimError('BACKUP_INVALID', `${path} cannot be read`, {
      cause,
      hint: 'a newer release may have written it: update this one; else use another backup',
    })
  }
}
