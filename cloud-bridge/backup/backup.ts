import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import Database from 'better-sqlite3'
import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import { BrimError, orThrow } from '../../core/kit/base/errors.ts'
import { makeFolder, renamePrivate, syncToDisk, writePrivate } from '../../core/kit/base/private-file.ts'
import { sha256OfFile } from '../../core/kit/base/sha256-of-file.ts'
import { version } from '../../core/kit/base/version.ts'
import { asOwner } from '../../core/kit/store/as-owner.ts'
import { lockFile, lockFolder } from '../../core/kit/store/lock-folder.ts'
import { requireStores } from '../../core/kit/store/require-stores.ts'
import { bridgeDatabases } from '../databases.ts'
import { type BridgeIdentity, identityOf } from '../identity/bridge-identity.ts'
import { type Backup, backupFile, configFile, digestOf } from './backup-file.ts'
import { openSnapshots } from './snapshots.ts'

export const tlsFiles = { cert: 'tls-cert.pem', key: 'tls-key.pem' } as const
/** What the bridge has learned about requests. */
const learnedFile = 'suitability.json'
/** Between these, other work of the process runs. */
const pagesPerStep = 1_000
/** Ends the name of a folder that is being written. */
const partial = '.partial'

export interface BackupOptions {
  readonly stateDir: string
  /** A new folder. */
  readonly out: string
  /** The bridge's configuration file; undefined: it has none. */
  readonly config?: string | undefined
  /** Telemetry is most of the bytes. */
  readonly telemetry: boolean
  readonly clock: Clock
  readonly signal: AbortSignal
}

export interface WrittenBackup extends Backup {
  /** Recognizes this backup. */
  readonly digest: string
  /** Files of the bridge that could not be read. */
  readonly missing: readonly string[]
}

/**
 * Copies the databases of a bridge, all as of one moment, with the TLS key that its devices know it by, and its configuration. The
 * bridge may run. The copy is on disk on return.
 * @throws BrimError TARGET_UNWRITABLE, STORE_FAILED, STORE_DAMAGED, STATE_IN_USE for another backup to the same folder, DISK_FULL
 */
export async function backUp({ out, ...source }: BackupOptions): Promise<WrittenBackup> {
  const { stateDir, signal } = source
  requireBridge(stateDir)
  if (existsSync(out)) throw new BrimError('TARGET_UNWRITABLE', `${out} exists`, { hint: 'give the path of a new folder' })
  const folder = `${resolve(out)}${partial}`
  let unlock: (() => void) | undefined
  try {
    makeFolder(dirname(folder))
    removeUnfinished(dirname(folder))
    unlock = lockFolder(folder)
    const written = await writeBackup({ ...source, folder })
    unlock()
    // The next backup recognizes an unfinished one by its lock, so that goes last.
    renamePrivate(folder, out)
    rmSync(join(out, lockFile))
    return written
  } catch (cause) {
    if (unlock) rmSync(folder, { recursive: true, force: true })
    unlock?.()
    if (cause instanceof BrimError || signal.aborted) throw cause
    throw diskError(cause, out)
  }
}

/** @throws BrimError STORE_FAILED where a folder is none of a bridge, STORE_DAMAGED */
export function requireBridge(stateDir: string): void {
  if (!existsSync(join(stateDir, 'bridge.sqlite')))
    throw new BrimError('STORE_FAILED', `${stateDir} is not the state folder of a bridge`, {
      hint: 'name it with --state-dir',
    })
  requireStores(stateDir, bridgeDatabases)
}

/** Removes what killed backups have left in a folder: private copies of databases and keys. */
function removeUnfinished(folder: string): void {
  for (const { name } of readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())) {
    const path = join(folder, name)
    if (!name.endsWith(partial) || !existsSync(join(path, lockFile))) continue
    try {
      const unlock = lockFolder(path)
      rmSync(path, { recursive: true, force: true })
      unlock()
    } catch {
      // Another backup writes it, or another user has.
    }
  }
}

type Source = Omit<BackupOptions, 'out'> & { readonly folder: string }

async function writeBackup({ stateDir, folder, telemetry, config, clock, signal }: Source): Promise<WrittenBackup> {
  const files = bridgeDatabases
    .filter(({ file, isBackedUp }) => isBackedUp && (telemetry || file !== 'telemetry.sqlite'))
    .map(({ file }) => file)
    .filter((file) => existsSync(join(stateDir, file)))
  const at = nowIso()
  const paths = files.map((file) => join(stateDir, file))
  const snapshots = await asOwner(stateDir, () => openSnapshots(paths, clock, signal))
  let bridge: BridgeIdentity
  let others: readonly OtherFile[]
  try {
    const read = await asOwner(stateDir, () => {
      const identity = identityIn(snapshots[files.indexOf('bridge.sqlite')]!, stateDir)
      return { identity, own: ownFiles(stateDir, identity) }
    })
    bridge = read.identity
    others = [...read.own, ...(config === undefined ? [] : [{ path: config, name: configFile, bytes: readIfReadable(config) }])]
    for (const [i, file] of files.entries()) await copyDatabase(snapshots[i]!, join(folder, file), signal)
  } finally {
    await asOwner(stateDir, () => {
      for (const snapshot of snapshots) snapshot.close()
    })
  }
  const copied = others.flatMap(({ name, bytes }) => (bytes === undefined ? [] : [{ name, bytes }]))
  for (const { name, bytes } of copied) writeFileSync(join(folder, name), bytes, { mode: 0o600, flush: true })
  const names = [...files, ...copied.map(({ name }) => name)]
  const backup: Backup = {
    v: 1,
    at,
    version,
    bridge,
    files: await Promise.all(
      names.map(async (name) => {
        const path = join(folder, name)
        return { name, bytes: statSync(path).size, sha256: await sha256OfFile(path) }
      }),
    ),
  }
  const text = `${JSON.stringify(backup, null, 2)}\n`
  writePrivate(join(folder, backupFile), text)
  const missing = others.flatMap(({ path, name, bytes }) => (bytes === undefined && name !== learnedFile ? [path] : []))
  return { ...backup, digest: digestOf(text), missing }
}

/** Of a folder whose bridge may run. @throws BrimError STORE_FAILED */
export function readIdentity(stateDir: string): BridgeIdentity {
  const database = new Database(join(stateDir, 'bridge.sqlite'), { readonly: true })
  try {
    return identityIn(database, stateDir)
  } finally {
    database.close()
  }
}

/** @throws BrimError STORE_FAILED */
function identityIn(database: Database.Database, stateDir: string): BridgeIdentity {
  return orThrow(
    () => identityOf(database),
    'STORE_FAILED',
    `${stateDir} is of an earlier release, which records no identity`,
    'start this release of the bridge there once',
  )
}

interface OtherFile {
  readonly path: string
  /** In the backup. */
  readonly name: string
  /** Undefined: it cannot be read. */
  readonly bytes: Buffer | undefined
}

/** What the user of the bridge can read: its database names the files, and that user writes the database. */
function ownFiles(stateDir: string, { tlsCert, tlsKey }: BridgeIdentity): OtherFile[] {
  const file = (path: string | null, name: string) => (path === null ? [] : [{ path, name, bytes: readIfReadable(path) }])
  return [...file(join(stateDir, learnedFile), learnedFile), ...file(tlsCert, tlsFiles.cert), ...file(tlsKey, tlsFiles.key)]
}

function readIfReadable(path: string): Buffer | undefined {
  try {
    return readFileSync(path)
  } catch {
    return undefined
  }
}

/** @param snapshot in a read transaction, which the copy shows */
async function copyDatabase(snapshot: Database.Database, to: string, signal: AbortSignal): Promise<void> {
  await snapshot.backup(to, {
    progress() {
      signal.throwIfAborted()
      return pagesPerStep
    },
  })
  chmodSync(to, 0o600)
  syncToDisk(to)
}

/** What failed while a folder was written. */
export function diskError(cause: unknown, path: string): BrimError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (/ENOSPC|EDQUOT|SQLITE_FULL/.test(code))
    return new BrimError('DISK_FULL', `no space left while writing ${basename(path)}`, {
      cause,
      hint: `free space on the disk of ${dirname(resolve(path))}`,
    })
  return new BrimError('TARGET_UNWRITABLE', `${path} cannot be written`, { cause, hint: 'can this user write its folder?' })
}
