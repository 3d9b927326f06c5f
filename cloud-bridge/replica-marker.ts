import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { BrimError } from '../core/kit/base/errors.ts'
import { syncToDisk, writePrivate } from '../core/kit/base/private-file.ts'
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

const complete = 'complete'

/** From now on the databases of a folder are copies. @param isComplete with all that PostgreSQL has of a fleet that no bridge serves */
export const markReplica = (stateDir: string, isComplete = false): void =>
  writePrivate(join(stateDir, marker), isComplete ? complete : '')

export function isCompleteReplica(stateDir: string): boolean {
  const path = join(stateDir, marker)
  return existsSync(path) && readFileSync(path, 'utf8') === complete
}

/** The databases of a folder are those of a bridge that is alone. */
export function unmarkReplica(stateDir: string): void {
  rmSync(join(stateDir, marker), { force: true })
  syncToDisk(stateDir)
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
