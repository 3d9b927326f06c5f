import { chmodSync, copyFileSync, existsSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'
import Database from 'better-sqlite3'
import { nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { matchOwner } from '../../core/base/match-owner.ts'
import { sha256OfFile } from '../../core/base/sha256-of-file.ts'
import { skipBirths } from '../../core/store/births.ts'
import { lockFolder } from '../../core/store/lock-folder.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'
import { forgetSteadyTime } from '../../core/store/steady-time.ts'
import { bridgeDatabases } from '../databases.ts'
import { type BridgeIdentity, identityOf } from '../identity/bridge-identity.ts'
import { openIdentityStore } from '../identity/store.ts'
import { renameNewJobs } from '../queue/job-names.ts'
import { diskError } from './backup.ts'
import { type Backup, readBackup } from './backup-file.ts'

/** In the state folder while a restore replaces its databases. */
const unfinished = 'restoring'
/** More starts than a bridge makes between two backups: its number of this start stays above those that the broker has seen. */
const skippedBirths = 1_000

export interface RestoreOptions {
  /** Folder of the backup. */
  readonly from: string
  readonly stateDir: string
  /** Replace the databases of another bridge. */
  readonly replaceIdentity: boolean
  /** As the audit log names it. */
  readonly actor: string
}

export interface Restored {
  readonly backup: Backup
  /** Folder with what was replaced; undefined: there was nothing. */
  readonly replaced: string | undefined
}

/**
 * Replaces the databases of a bridge that does not run by those of a backup. What it replaces is kept. New jobs get another name
 * in their ids: devices have finished jobs of which the backup knows nothing.
 * @throws BrimError BACKUP_INVALID, STATE_IN_USE, IDENTITY_INVALID, STORE_FAILED also for a backup of a newer release, DISK_FULL
 */
export async function restore({ from, stateDir, replaceIdentity, actor }: RestoreOptions): Promise<Restored> {
  const backup = readBackup(from)
  await verify(from, backup)
  const unlock = lockFolder(stateDir)
  try {
    if (!replaceIdentity) requireSameBridge(stateDir, backup)
    const staging = join(stateDir, unfinished)
    rmSync(`${staging}.new`, { recursive: true, force: true })
    mkdirSync(`${staging}.new`, { mode: 0o700 })
    matchOwner(`${staging}.new`)
    for (const { name } of backup.files) copyPrivate(join(from, name), join(`${staging}.new`, name))
    prepare(`${staging}.new`, backup, actor)
    // From here on the bridge refuses to start until it is done; the same command begins anew.
    rmSync(staging, { recursive: true, force: true })
    renameSync(`${staging}.new`, staging)
    const replaced = setAside(stateDir)
    for (const name of readdirSync(staging)) renameSync(join(staging, name), join(stateDir, name))
    rmSync(staging, { recursive: true })
    return { backup, replaced }
  } catch (cause) {
    // It may have filled the disk.
    rmSync(join(stateDir, `${unfinished}.new`), { recursive: true, force: true })
    if (cause instanceof BrimError) throw cause
    throw diskError(cause, stateDir)
  } finally {
    unlock()
  }
}

/** @throws BrimError STORE_FAILED where a restore was interrupted */
export function requireRestored(stateDir: string): void {
  if (!existsSync(join(stateDir, unfinished))) return
  throw new BrimError('STORE_FAILED', `a restore of ${stateDir} was interrupted`, {
    hint: 'run "brim bridge restore" with the same backup again',
  })
}

/** @throws BrimError BACKUP_INVALID */
async function verify(from: string, { files }: Backup): Promise<void> {
  for (const { name, bytes, sha256 } of files) {
    const path = join(from, name)
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (found?.isFile() && found.size === bytes && (await sha256OfFile(path)) === sha256) continue
    throw new BrimError('BACKUP_INVALID', `${path} is ${found ? 'not as it was written' : 'missing'}`, {
      hint: 'the copy of the backup is damaged: copy it again, or use another one',
    })
  }
  if (!files.some(({ name }) => name === 'bridge.sqlite'))
    throw new BrimError('BACKUP_INVALID', `${from} holds no bridge.sqlite`, { hint: 'use another backup' })
}

/** @throws BrimError IDENTITY_INVALID, STORE_FAILED */
function requireSameBridge(stateDir: string, { bridge }: Backup): void {
  const path = join(stateDir, 'bridge.sqlite')
  if (!existsSync(path)) return
  const own = readIdentity(path)
  if (own?.instance === bridge.instance) return
  const [ours, theirs] = [own, bridge].map((one) => (one ? `"${one.bridge}" of fleet "${one.fleet}"` : 'of an earlier release'))
  throw new BrimError('IDENTITY_INVALID', `the backup is of bridge ${theirs}, but ${stateDir} belongs to bridge ${ours}`, {
    hint: 'choose another --state-dir, or make this bridge the other one with --replace-identity: its devices must enrol again',
  })
}

/** @returns undefined: an earlier release has written it, which records no identity */
function readIdentity(path: string): BridgeIdentity | undefined {
  const store = new Database(path, { readonly: true })
  try {
    return identityOf(store)
  } catch {
    return undefined
  } finally {
    store.close()
  }
}

/** Migrates the copies, and marks them as restored. @throws BrimError STORE_FAILED */
function prepare(folder: string, { at, version, files }: Backup, actor: string): void {
  const holds = (file: string) => files.some(({ name }) => name === file)
  for (const { file } of bridgeDatabases) if (holds(file)) withDatabase(join(folder, file), checkIntegrity)
  withDatabase(join(folder, 'bridge.sqlite'), (store) => skipBirths(store, skippedBirths))
  if (holds('jobs.sqlite'))
    withDatabase(join(folder, 'jobs.sqlite'), (store) => {
      renameNewJobs(store)
      forgetSteadyTime(store)
    })
  const identities = openIdentityStore(folder)
  identities.addChange(actor, 'bridge.restore', at, { version })
  identities.close()
}

/** @throws BrimError BACKUP_INVALID */
function checkIntegrity(store: Store): void {
  const result = store.pragma('quick_check(1)', { simple: true })
  if (result !== 'ok')
    throw new BrimError('BACKUP_INVALID', `the database ${store.name} is damaged: ${String(result)}`, {
      hint: 'use another backup',
    })
}

function withDatabase<T>(path: string, use: (store: Store) => T): T {
  const { migrations } = bridgeDatabases.find(({ file }) => basename(path) === file)!
  const store = openDatabase(path, migrations)
  try {
    return use(store)
  } finally {
    store.close()
  }
}

/** Moves databases away, so that a restore from the wrong backup can be undone. */
function setAside(stateDir: string): string | undefined {
  const isDatabase = (name: string) => bridgeDatabases.some(({ file }) => name.startsWith(file))
  const names = readdirSync(stateDir).filter(isDatabase)
  if (names.length === 0) return undefined
  const folder = join(stateDir, `replaced-${nowIso().replace(/[:.]/g, '-')}`)
  mkdirSync(folder, { mode: 0o700 })
  matchOwner(folder)
  for (const name of names) renameSync(join(stateDir, name), join(folder, name))
  return folder
}

function copyPrivate(from: string, to: string): void {
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  matchOwner(to)
}
