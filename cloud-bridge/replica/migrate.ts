import { createHash } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { systemClock } from '../../core/kit/base/clock.ts'
import { type Closers, createClosers } from '../../core/kit/base/closers.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { syncToDisk } from '../../core/kit/base/private-file.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { backUp, readIdentity, requireBridge } from '../backup/backup.ts'
import { sharedDatabases } from '../databases.ts'
import { isCompleteReplica, markReplica, requireReplica, unmarkReplica } from '../replica-marker.ts'
import { type FileRow, FleetDatabase, firstPlace, type Lease } from './fleet-database.ts'
import { requireFleetServed } from './node-context.ts'
import { ownVersions, pagesOf, ReplicaFiles } from './replica-files.ts'

/** Of the lease that no other node can take during a migration. */
const leaseMs = 10_000
const renewMs = 1_000
const pollMs = 100
/** Attempts after which a bridge is asked to end again: its service manager may have started it meanwhile. */
const askEvery = 20
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

interface MoveToOptions extends MoveOptions {
  /** Asks the bridge of the folder to end. @returns false: none runs there */
  end(): Promise<boolean>
}

/**
 * Copies the databases of a bridge to PostgreSQL, and compares what has arrived. From then on the folder is one node's copy. A bridge
 * that runs is asked to end first, once all else is ready. A migration that was interrupted begins anew; until its last step the bridge
 * can be started again as it was.
 * @throws BrimError STATE_IN_USE, CONFIG_INVALID where the database knows the fleet already, STORE_FAILED, DATABASE_UNAVAILABLE
 */
export async function moveToPostgres({ stateDir, url, end, signal, progress }: MoveToOptions): Promise<Moved> {
  requireBridge(stateDir)
  const { bridge, fleet } = readIdentity(stateDir)
  if (bridge === null || fleet === null)
    throw new BrimError('STORE_FAILED', 'the bridge has not been started since it records its name', { hint: 'start it once' })
  const out = join(stateDir, 'migrating')
  const closers = createClosers()
  try {
    const database = new FleetDatabase(url, fleet)
    closers.push(() => database.close())
    await database.open()
    const lease = await holdLease(database, closers, () => leaseOfNew(database, { bridge, fleet }, signal))
    closers.push(await lockOnceEnded({ stateDir, end, signal, progress }))
    closers.push(() => rmSync(out, { recursive: true, force: true }))
    rmSync(out, { recursive: true, force: true })
    await backUp({ stateDir, out, telemetry: false, clock: systemClock, signal })
    const files = new ReplicaFiles(out)
    closers.push(() => files.close())
    files.follow({})
    const sent = new Digest()
    function* pages() {
      for (const page of pagesOf(files)) {
        signal.throwIfAborted()
        sent.add(page)
        yield page
        progress(`${sent.rows} rows copied`)
      }
    }
    requireLease(await database.shipAll(lease.number, pages(), {}, leaseMs))
    requireSame(sent, await digestOf(database))
    markReplica(stateDir)
    requireLease(await database.ship(lease.number, [], ownVersions))
    return { fleet, bridge, rows: sent.rows, digest: sent.text }
  } finally {
    await closers.closeAll()
  }
}

/**
 * Makes a new state folder of what PostgreSQL holds of a fleet, for a bridge without --database. Bridges that serve the fleet store
 * nothing from then on, and end. A migration that was interrupted begins anew; until its last step they go on, 10 s later.
 * @throws BrimError CONFIG_INVALID where the folder is in use, STORE_FAILED, DATABASE_UNAVAILABLE
 */
export async function moveFromPostgres({
  stateDir,
  url,
  fleet,
  progress,
}: MoveOptions & { readonly fleet: string }): Promise<Moved> {
  requireReplica(stateDir)
  const closers = createClosers()
  try {
    closers.push(lockFolder(stateDir))
    const database = new FleetDatabase(url, fleet)
    closers.push(() => database.close())
    await database.open()
    const record = await database.read()
    if (!record)
      throw new BrimError('CONFIG_INVALID', `the database does not know the fleet "${fleet}"`, { hint: 'name it with --fleet' })
    const { bridge, primary } = record
    if (isCompleteReplica(stateDir) && Object.keys(record.versions).length === 0) {
      const { rows, text } = await digestOf(database)
      unmarkReplica(stateDir)
      return { fleet, bridge, rows, digest: text }
    }
    requireFleetServed(record, fleet)
    if (primary) progress(`the processes of bridge ${bridge} end: ${primary.node} is the primary no longer`)
    const lease = await holdLease(database, closers, () => database.takeLease(migrating, record.lease, leaseMs, true))
    const files = new ReplicaFiles(stateDir)
    closers.push(() => files.close())
    files.create(record.versions)
    const copied = await digestOf(database, (rows, count) => {
      files.apply(rows)
      progress(`${count} rows copied`)
    })
    const arrived = new Digest()
    for (const page of files.all()) {
      arrived.add(page)
      // The lease is renewed meanwhile.
      await systemClock.sleep(0)
    }
    requireSame(copied, arrived)
    files.close()
    for (const { file, migrations } of sharedDatabases) {
      openDatabase(join(stateDir, file), migrations).close()
      syncToDisk(join(stateDir, file))
    }
    markReplica(stateDir, true)
    requireLease(await database.ship(lease.number, [], {}))
    unmarkReplica(stateDir)
    return { fleet, bridge, rows: copied.rows, digest: copied.text }
  } finally {
    await closers.closeAll()
  }
}

/** @returns the lease, which is renewed until `closers` release it. @throws BrimError CONFIG_INVALID where `take` gets none */
async function holdLease(database: FleetDatabase, closers: Closers, take: () => Promise<Lease | undefined>): Promise<Lease> {
  const lease = await take()
  if (!lease) throw new BrimError('CONFIG_INVALID', 'another bridge or migration was faster', { hint: 'run the command again' })
  const { number } = lease
  closers.push(() => database.release(number).catch(() => {}))
  const renew = async () => void (await database.renew(number, leaseMs, migrating, undefined).catch(() => {}))
  closers.push(repeatEvery(systemClock, renewMs, renew))
  return lease
}

/** Of a fleet that the database does not know. A migration that was interrupted has it for a while. @throws BrimError CONFIG_INVALID */
async function leaseOfNew(database: FleetDatabase, { bridge, fleet }: Pick<Moved, 'bridge' | 'fleet'>, signal: AbortSignal) {
  await database.create(bridge, {})
  for (const startedMs = systemClock.nowMs(); ; await systemClock.sleep(renewMs, signal)) {
    const record = (await database.read())!
    if (Object.keys(record.versions).length > 0)
      throw new BrimError('CONFIG_INVALID', `the database knows the fleet "${fleet}" already`, {
        hint: 'give another database, or let this bridge join with --database and an empty --state-dir',
      })
    const lease = await database.takeLease(migrating, record.lease, leaseMs)
    if (lease) return lease
    if (systemClock.nowMs() - startedMs > leaseMs + renewMs)
      throw new BrimError('CONFIG_INVALID', `another migration of the fleet "${fleet}" is under way`, { hint: 'run one' })
  }
}

/** @returns unlocks the folder. @throws BrimError STATE_IN_USE where another program than a bridge uses it */
async function lockOnceEnded({ stateDir, end, signal, progress }: Omit<MoveToOptions, 'url'>): Promise<() => void> {
  for (let attempt = 0; ; attempt++) {
    try {
      return lockFolder(stateDir)
    } catch (error) {
      if (!(error instanceof BrimError) || error.code !== 'STATE_IN_USE') throw error
      if (attempt === 0) {
        if (!(await end())) throw error
        progress('the bridge ends, once its answers have ended')
      } else if (attempt % askEvery === 0) {
        // It may answer no longer.
        await end().catch(() => {})
      }
      await systemClock.sleep(pollMs, signal)
    }
  }
}

/** @throws BrimError STORE_FAILED */
function requireSame(sent: Digest, arrived: Digest): void {
  if (arrived.text === sent.text) return
  throw new BrimError('STORE_FAILED', `${sent.rows} rows were sent, and ${arrived.rows} others have arrived`, {
    hint: 'run the command again',
  })
}

function requireLease(isHeld: boolean): void {
  if (!isHeld) throw new BrimError('CONFIG_INVALID', 'another migration of this fleet has begun meanwhile', { hint: 'run one' })
}

async function digestOf(
  database: FleetDatabase,
  onPage: (rows: readonly FileRow[], count: number) => void = () => {},
): Promise<Digest> {
  const digest = new Digest()
  for (let page = await database.rowsAfter(firstPlace); page; page = await database.rowsAfter(page.after)) {
    const kept = page.rows.filter(({ row }) => row !== null)
    digest.add(kept)
    onPage(kept, digest.rows)
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
