import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { backUp } from '../backup/backup.ts'
import { bridgeDatabases, sharedDatabases } from '../databases.ts'
import { identityOf } from '../identity/bridge-identity.ts'
import { markReplica, requireReplica } from '../replica-marker.ts'
import { type FileRow, FleetDatabase, firstPlace, type Lease } from './fleet-database.ts'
import { ownVersions, pagesOf, ReplicaFiles } from './replica-files.ts'

/** Of the lease that no other node can take during a migration. */
const leaseMs = 60_000
/** In place of a node. */
const migrating = { node: 'migration', url: '', pin: null, auth: true }

export interface Moved {
  readonly fleet: string
  readonly bridge: string
  readonly rows: number
  /** SHA-256 over all rows, the same on both sides. */
  readonly digest: string
}

interface MoveOptions {
  readonly stateDir: string
  /** Of PostgreSQL. */
  readonly url: string
  readonly signal: AbortSignal
  progress(line: string): void
}

/**
 * Copies the databases of a bridge that does not run to PostgreSQL, and compares what has arrived. From then on the folder is one
 * node's copy. A migration that was interrupted begins anew.
 * @throws BrimError STATE_IN_USE, CONFIG_INVALID where the database knows the fleet already, STORE_FAILED, DATABASE_UNAVAILABLE
 */
export async function moveToPostgres({ stateDir, url, signal, progress }: MoveOptions): Promise<Moved> {
  const unlock = lockFolder(stateDir)
  const out = join(stateDir, 'migrating')
  let database: FleetDatabase | undefined
  let files: ReplicaFiles | undefined
  let lease: Lease | undefined
  try {
    rmSync(out, { recursive: true, force: true })
    await backUp({ stateDir, out, telemetry: false, clock: systemClock, signal })
    const { bridge, fleet } = startedAs(join(out, 'bridge.sqlite'))
    database = new FleetDatabase(url, fleet)
    await database.open()
    lease = await takeLease(database, bridge, fleet)
    files = new ReplicaFiles(out)
    files.follow({})
    const sent = new Digest()
    function* pages(all: ReplicaFiles) {
      for (const page of pagesOf(all)) {
        signal.throwIfAborted()
        sent.add(page)
        yield page
        progress(`${sent.rows} rows copied`)
      }
    }
    requireLease(await database.shipAll(lease.number, pages(files), {}, leaseMs))
    const arrived = await digestOf(database)
    if (arrived.text !== sent.text)
      throw new BrimError('STORE_FAILED', `${sent.rows} rows were sent, and ${arrived.rows} others are in the database`, {
        hint: 'run the command again',
      })
    markReplica(stateDir)
    requireLease(await database.ship(lease.number, [], ownVersions))
    return { fleet, bridge, rows: sent.rows, digest: sent.text }
  } finally {
    files?.close()
    if (lease) await database?.release(lease.number).catch(() => {})
    await database?.close()
    rmSync(out, { recursive: true, force: true })
    unlock()
  }
}

/**
 * Makes a new state folder of what PostgreSQL holds of a fleet, for a bridge without --database.
 * @throws BrimError CONFIG_INVALID where a bridge of the fleet runs or the folder is in use, STORE_FAILED, DATABASE_UNAVAILABLE
 */
export async function moveFromPostgres({
  stateDir,
  url,
  fleet,
  progress,
}: MoveOptions & { readonly fleet: string }): Promise<Moved> {
  requireReplica(stateDir)
  const unlock = lockFolder(stateDir)
  const database = new FleetDatabase(url, fleet)
  const files = new ReplicaFiles(stateDir)
  let lease: Lease | undefined
  try {
    await database.open()
    const record = await database.read()
    if (!record)
      throw new BrimError('CONFIG_INVALID', `the database does not know the fleet "${fleet}"`, { hint: 'name it with --fleet' })
    if (record.primary)
      throw new BrimError('CONFIG_INVALID', `the bridge ${record.primary.node} serves the fleet "${fleet}" from that database`, {
        hint: 'stop its bridges first: what they store later would be missing here',
      })
    // No bridge of the fleet starts meanwhile, nor afterwards: this folder is the fleet's then.
    lease = await database.takeLease(migrating, record.lease, leaseMs)
    if (!lease)
      throw new BrimError('CONFIG_INVALID', 'a bridge of the fleet has just started', { hint: 'stop its bridges first' })
    files.create(record.versions)
    const copied = await digestOf(database, async (rows, count) => {
      files.apply(rows)
      progress(`${count} rows copied`)
      requireLease(await database.renew(lease!.number, leaseMs, migrating, undefined))
    })
    files.close()
    for (const { file, migrations } of sharedDatabases) openDatabase(join(stateDir, file), migrations).close()
    markReplica(stateDir, false)
    requireLease(await database.ship(lease.number, [], {}))
    return { fleet, bridge: record.bridge, rows: copied.rows, digest: copied.text }
  } finally {
    files.close()
    if (lease) await database.release(lease.number).catch(() => {})
    await database.close()
    unlock()
  }
}

async function takeLease(database: FleetDatabase, bridge: string, fleet: string): Promise<Lease> {
  await database.create(bridge, {})
  const record = (await database.read())!
  const isUnfinished = Object.keys(record.versions).length === 0
  const lease = isUnfinished ? await database.takeLease(migrating, record.lease, leaseMs) : undefined
  if (lease) return lease
  throw isUnfinished
    ? new BrimError('CONFIG_INVALID', `another migration of the fleet "${fleet}" is under way`, {
        hint: `one that was interrupted ends after ${leaseMs / 1_000} s`,
      })
    : new BrimError('CONFIG_INVALID', `the database knows the fleet "${fleet}" already`, {
        hint: 'give another database, or let this bridge join with --database and an empty --state-dir',
      })
}

function requireLease(isHeld: boolean): void {
  if (!isHeld) throw new BrimError('CONFIG_INVALID', 'another migration of this fleet has begun meanwhile', { hint: 'run one' })
}

/** As the bridge was started last. @throws BrimError STORE_FAILED */
function startedAs(path: string): { bridge: string; fleet: string } {
  const store = openDatabase(path, bridgeDatabases.find(({ file }) => path.endsWith(file))!.migrations)
  try {
    const { bridge, fleet } = identityOf(store)
    if (bridge === null || fleet === null)
      throw new BrimError('STORE_FAILED', 'the bridge has not been started since it records its name', { hint: 'start it once' })
    return { bridge, fleet }
  } finally {
    store.close()
  }
}

async function digestOf(
  database: FleetDatabase,
  onPage: (rows: readonly FileRow[], count: number) => Promise<void> = async () => {},
): Promise<Digest> {
  const digest = new Digest()
  for (let page = await database.rowsAfter(firstPlace); page; page = await database.rowsAfter(page.after)) {
    const kept = page.rows.filter(({ row }) => row !== null)
    digest.add(kept)
    await onPage(kept, digest.rows)
  }
  return digest
}

/** Of rows in any order: the sum of their SHA-256. */
class Digest {
  rows = 0
  #sum = 0n

  add(rows: readonly FileRow[]): void {
    for (const { file, table, key, row } of rows) {
      this.rows += 1
      const hash = createHash('sha256')
        .update(JSON.stringify([file, table, key, row]))
        .digest('hex')
      this.#sum = BigInt.asUintN(256, this.#sum + BigInt(`0x${hash}`))
    }
  }

  get text(): string {
    return this.#sum.toString(16).padStart(64, '0')
  }
}
