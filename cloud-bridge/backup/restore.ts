import { createHash } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import Database from 'better-sqlite3'
import { nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { openPlainFile, renamePrivate, syncToDisk } from '../../core/kit/base/private-file.ts'
import { asOwner } from '../../core/kit/store/as-owner.ts'
import { skipBirths } from '../../core/kit/store/births.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { unfollow } from '../../core/kit/store/row-journal.ts'
import { bridgeDatabases } from '../databases.ts'
import { type BridgeIdentity, identityOf } from '../identity/bridge-identity.ts'
import { localKeyName } from '../identity/local-access.ts'
import { openIdentityStore } from '../identity/store.ts'
import { renameNewJobs } from '../queue/job-names.ts'
import { forgetSteadyTime } from '../queue/steady-time.ts'
import { requireNoReplica } from '../replica-marker.ts'
import { diskError } from './backup.ts'
import { type Backup, configFile, readBackup } from './backup-file.ts'

/** In the state folder while a restore replaces its databases. */
const unfinished = 'restoring'
/** More starts than a bridge makes between two backups: its number of this start stays above those that the broker has seen. */
const skippedBirths = 1_000

export interface RestoreOptions {
  readonly from: string
  readonly stateDir: string
  /** Digest of the backup that is expected; undefined: any. */
  readonly expect?: string | undefined
  /** Replace the databases of another bridge. */
  readonly replaceIdentity: boolean
  /** As the audit log names it. */
  readonly actor: string
}

export interface Restored {
  readonly backup: Backup
  readonly digest: string
  /** Folder with what was replaced; undefined: there was nothing. */
  readonly replaced: string | undefined
}

/**
 * Replaces the databases of a bridge that does not run by those of a backup. What it replaces is kept. New jobs get another name
 * in their ids: devices have finished jobs of which the backup knows nothing. All of it is on disk on return.
 * @throws BrimError BACKUP_INVALID, STATE_IN_USE, IDENTITY_INVALID, STORE_FAILED also for a backup of a newer release, DISK_FULL
 */
export async function restore({ from, stateDir, expect, replaceIdentity, actor }: RestoreOptions): Promise<Restored> {
  const { backup, digest } = readBackup(from)
  if (expect !== undefined && expect.toLowerCase() !== digest)
    throw new BrimError('BACKUP_INVALID', `${from} is another backup than the expected one: its digest is ${digest}`, {
      hint: 'compare it with the digest that "brim bridge backup" printed: the backup may have been altered',
    })
  // Before the change of users: only this one may be able to read the backup.
  const sources = openSources(from, backup)
  try {
    return {
      backup,
      digest,
      replaced: await asOwner(stateDir, () => putBack({ stateDir, replaceIdentity, actor, backup, sources })),
    }
  } finally {
    for (const { fd } of sources) closeSync(fd)
  }
}

interface PutBack extends Pick<RestoreOptions, 'stateDir' | 'replaceIdentity' | 'actor'> {
  readonly backup: Backup
  readonly sources: readonly Source[]
}

/** @returns folder with what was replaced */
function putBack({ stateDir, replaceIdentity, actor, backup, sources }: PutBack): string | undefined {
  const unlock = lockFolder(stateDir)
  const staging = join(stateDir, unfinished)
  try {
    requireNoReplica(stateDir)
    if (!replaceIdentity) requireSameBridge(stateDir, backup)
    rmSync(`${staging}.new`, { recursive: true, force: true })
    mkdirSync(`${staging}.new`, { mode: 0o700 })
    for (const source of sources) copyVerified(source, join(`${staging}.new`, source.name))
    // It stays in the backup: the operator installs it.
    rmSync(join(`${staging}.new`, configFile), { force: true })
    prepare(`${staging}.new`, backup, actor)
    for (const name of ['.', ...readdirSync(`${staging}.new`)]) syncToDisk(join(`${staging}.new`, name))
    // From here on the bridge refuses to start until it is done; the same command begins anew.
    rmSync(staging, { recursive: true, force: true })
    renamePrivate(`${staging}.new`, staging)
    const replaced = setAside(stateDir)
    for (const name of readdirSync(staging)) renameSync(join(staging, name), join(stateDir, name))
    // What marks it as interrupted goes after all else is on disk.
    syncToDisk(stateDir)
    rmSync(staging, { recursive: true })
    syncToDisk(stateDir)
    return replaced
  } catch (cause) {
    // It may have filled the disk.
    rmSync(`${staging}.new`, { recursive: true, force: true })
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

type Source = Backup['files'][number] & { readonly path: string; readonly fd: number }

/** The files of a backup, open. @throws BrimError BACKUP_INVALID */
function openSources(from: string, { files }: Backup): Source[] {
  if (!files.some(({ name }) => name === 'bridge.sqlite'))
    throw new BrimError('BACKUP_INVALID', `${from} holds no bridge.sqlite`, { hint: 'use another backup' })
  const sources: Source[] = []
  try {
    for (const file of files) {
      const path = join(from, file.name)
      // A backup holds its files itself, no links to them.
      sources.push({ ...file, path, fd: openPlainFile(path) })
    }
    return sources
  } catch (cause) {
    for (const { fd } of sources) closeSync(fd)
    throw damaged(join(from, files[sources.length]!.name), 'is missing or cannot be read', cause)
  }
}

/** Copies a file of a backup. @throws BrimError BACKUP_INVALID if it is not as it was written */
function copyVerified({ path, fd, bytes, sha256 }: Source, to: string): void {
  const hash = createHash('sha256')
  const target = openSync(to, 'wx', 0o600)
  try {
    const buffer = Buffer.allocUnsafe(2 ** 20)
    for (let at = 0; ; ) {
      const length = readSync(fd, buffer, 0, buffer.length, at)
      at += length
      if (at > bytes || (length === 0 && (at < bytes || hash.digest('hex') !== sha256)))
        throw damaged(path, 'is not as it was written')
      if (length === 0) return
      const chunk = buffer.subarray(0, length)
      hash.update(chunk)
      writeFileSync(target, chunk)
    }
  } finally {
    closeSync(target)
  }
}

const damaged = (path: string, how: string, cause?: unknown) =>
  new BrimError('BACKUP_INVALID', `${path} ${how}`, {
    cause,
    hint: 'the copy of the backup is damaged: copy it again, or use another one',
  })

/** @throws BrimError IDENTITY_INVALID, STORE_FAILED */
function requireSameBridge(stateDir: string, { bridge }: Backup): void {
  const path = join(stateDir, 'bridge.sqlite')
  if (!existsSync(path)) return
  const own = readIdentity(path)
  // The installation of a new machine has started it.
  if (own?.instance === bridge.instance || (own && isUnused(stateDir))) return
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

/**
 * Whether no device, key, token or job depends on the bridge in a folder, other than the key that a command on this machine has
 * created. @throws BrimError STORE_FAILED, STORE_DAMAGED
 */
function isUnused(stateDir: string): boolean {
  const isEmpty = (file: string, rows: readonly string[]) => {
    const path = join(stateDir, file)
    if (!existsSync(path)) return true
    return withDatabase(path, (store) => rows.every((each) => !store.prepare(`SELECT 1 FROM ${each}`).get()))
  }
  const identities = ['identities', `keys WHERE name <> '${localKeyName}'`, 'enrol_tokens']
  return isEmpty('identity.sqlite', identities) && isEmpty('jobs.sqlite', ['jobs'])
}

/** Migrates the copies, and marks them as restored. @throws BrimError STORE_FAILED */
function prepare(folder: string, { at, version, files }: Backup, actor: string): void {
  const holds = (file: string) => files.some(({ name }) => name === file)
  for (const { file } of bridgeDatabases)
    if (holds(file))
      withDatabase(join(folder, file), (store) => {
        checkIntegrity(store)
        // Of one of several bridges: what it noted of changes.
        unfollow(store)
      })
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
  for (const name of names) renameSync(join(stateDir, name), join(folder, name))
  syncToDisk(folder)
  return folder
}
