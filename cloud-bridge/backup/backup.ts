import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import type Database from 'better-sqlite3'
import { type Clock, nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { writePrivate } from '../../core/base/private-file.ts'
import { sha256OfFile } from '../../core/base/sha256-of-file.ts'
import { version } from '../../core/base/version.ts'
import { bridgeDatabases } from '../databases.ts'
import { type BridgeIdentity, identityOf } from '../identity/bridge-identity.ts'
import { type Backup, backupFile } from './backup-file.ts'
import { openSnapshots } from './snapshots.ts'

export const tlsFiles = { cert: 'tls-cert.pem', key: 'tls-key.pem' } as const
/** What the bridge has learned about requests. */
const learnedFile = 'suitability.json'
/** Between these, other work of the process runs. */
const pagesPerStep = 1_000

export interface BackupOptions {
  readonly stateDir: string
  /** A new folder. */
  readonly out: string
  /** Telemetry is most of the bytes. */
  readonly telemetry: boolean
  readonly clock: Clock
  readonly signal: AbortSignal
}

export interface WrittenBackup extends Backup {
  /** Files of the bridge that could not be read. */
  readonly missing: readonly string[]
}

/**
 * Copies the databases of a bridge, all as of one moment, with the TLS key that its devices know it by. The bridge may run.
 * @throws BrimError TARGET_UNWRITABLE, STORE_FAILED, DISK_FULL
 */
export async function backUp({ stateDir, out, telemetry, clock, signal }: BackupOptions): Promise<WrittenBackup> {
  if (!existsSync(join(stateDir, 'bridge.sqlite')))
    throw new BrimError('STORE_FAILED', `${stateDir} is not the state folder of a bridge`, {
      hint: 'name it with --state-dir',
    })
  if (existsSync(out)) throw new BrimError('TARGET_UNWRITABLE', `${out} exists`, { hint: 'give the path of a new folder' })
  const folder = `${resolve(out)}.${process.pid}.partial`
  try {
    mkdirSync(dirname(folder), { recursive: true })
    mkdirSync(folder, { mode: 0o700 })
    const written = await writeBackup({ stateDir, folder, telemetry, clock, signal })
    renameSync(folder, out)
    return written
  } catch (cause) {
    rmSync(folder, { recursive: true, force: true })
    if (cause instanceof BrimError || signal.aborted) throw cause
    throw diskError(cause, out)
  }
}

async function writeBackup({ stateDir, folder, telemetry, clock, signal }: Omit<BackupOptions, 'out'> & { folder: string }) {
  const files = bridgeDatabases
    .filter(({ file, isBackedUp }) => isBackedUp && (telemetry || file !== 'telemetry.sqlite'))
    .map(({ file }) => file)
    .filter((file) => existsSync(join(stateDir, file)))
  const at = nowIso()
  const snapshots = await openSnapshots(
    files.map((file) => join(stateDir, file)),
    clock,
    signal,
  )
  let bridge: BridgeIdentity
  try {
    bridge = identityIn(snapshots[files.indexOf('bridge.sqlite')]!, stateDir)
    for (const [i, file] of files.entries()) await copyDatabase(snapshots[i]!, join(folder, file), signal)
  } finally {
    for (const snapshot of snapshots) snapshot.close()
  }
  const others = [
    [join(stateDir, learnedFile), learnedFile],
    [bridge.tlsCert, tlsFiles.cert],
    [bridge.tlsKey, tlsFiles.key],
  ] as const
  const copied = others.filter(([path, name]) => path !== null && copyPrivate(path, join(folder, name)))
  const names = [...files, ...copied.map(([, name]) => name)]
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
  writePrivate(join(folder, backupFile), `${JSON.stringify(backup, null, 2)}\n`)
  const missing = others.flatMap(([path, name]) => (path === null || name === learnedFile || names.includes(name) ? [] : [path]))
  return { ...backup, missing }
}

/** @throws BrimError STORE_FAILED */
function identityIn(database: Database.Database, stateDir: string): BridgeIdentity {
  try {
    return identityOf(database)
  } catch (cause) {
    throw new BrimError('STORE_FAILED', `${stateDir} is of an earlier release, which records no identity`, {
      cause,
      hint: 'start this release of the bridge there once',
    })
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
}

/** @returns whether the file could be read */
function copyPrivate(from: string, to: string): boolean {
  try {
    readFileSync(from)
  } catch {
    return false
  }
  copyFileSync(from, to)
  chmodSync(to, 0o600)
  return true
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
