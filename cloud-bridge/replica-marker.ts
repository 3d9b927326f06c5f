import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { BrimError } from '../core/kit/base/errors.ts'
import { writePrivate } from '../core/kit/base/private-file.ts'
import { sharedDatabases } from './databases.ts'

/** In a state folder whose databases are copies of those in PostgreSQL. */
const marker = 'replica'

/** @throws BrimError CONFIG_INVALID where a folder holds the databases of a bridge of its own */
export function requireReplica(stateDir: string): void {
  if (existsSync(join(stateDir, marker)) || !sharedDatabases.some(({ file }) => existsSync(join(stateDir, file)))) return
  throw new BrimError('CONFIG_INVALID', `${stateDir} holds the databases of a bridge without --database`, {
    hint: 'copy them there with "brim bridge migrate --to postgres://…", or choose another --state-dir',
  })
}

/** @throws BrimError CONFIG_INVALID where a folder holds copies: alone, this bridge would go on with what others have done since */
export function requireNoReplica(stateDir: string): void {
  if (!existsSync(join(stateDir, marker))) return
  throw new BrimError('CONFIG_INVALID', `the databases in ${stateDir} are copies of those in PostgreSQL`, {
    hint: 'give --database; or get them back with "brim bridge migrate --from postgres://… --state-dir NEW"',
  })
}

/** From now on the databases of a folder are copies, or no longer. */
export function markReplica(stateDir: string, isReplica = true): void {
  const path = join(stateDir, marker)
  if (isReplica) writePrivate(path, '')
  else rmSync(path, { force: true })
}

/**
 * A command on this machine may change the databases of a folder: not where they are copies, unless the primary runs there.
 * @param address of the bridge of this folder; a standby has none
 * @throws BrimError NO_PRIMARY
 */
export function requirePrimary(stateDir: string, address: object | undefined): void {
  if (!existsSync(join(stateDir, marker)) || address !== undefined) return
  throw new BrimError('NO_PRIMARY', `the databases in ${stateDir} are copies, and the primary runs elsewhere`, {
    hint: 'run the command on the machine of the primary ("brim fleet status" names it), or with --bridge-url and --key-file',
  })
}
