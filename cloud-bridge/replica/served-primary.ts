import { type Closers, createClosers } from '../../core/kit/base/closers.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { type Base, openBase } from '../parts/base.ts'
import type { PrimaryNode } from '../parts/primary-node.ts'
import { moveDeadlines } from '../queue/job-clock.ts'
import { forgetSteadyTime } from '../queue/steady-time.ts'
import type { Bridge } from '../running-bridge.ts'
import { leaseMs, type NodeContext } from './node-context.ts'
import { ownVersions, type ReplicaFiles, type UncopiedRows } from './replica-files.ts'
import { Shipper } from './shipper.ts'
import type { Taken } from './standby.ts'

const renewMs = 1_000
/** What remains of deleted rows is kept for standbys that are late. */
const keepDeletedMs = 60 * 60_000
const purgeEveryMs = 10 * 60_000
/** Deadlines of jobs move where the clocks of two primaries differ by more. */
const sameClockMs = 1_000

/** Opens all parts of a bridge. */
export type OpenPrimary = (base: Base, node: PrimaryNode) => Promise<Bridge>

/** The node with the lease, while it has it. */
export class ServedPrimary {
  readonly bridge: Bridge
  readonly #closers: Closers
  readonly #lost: Promise<void>

  private constructor(bridge: Bridge, closers: Closers, lost: Promise<void>) {
    this.bridge = bridge
    this.#closers = closers
    this.#lost = lost
  }

  /** @throws BrimError as the opening of a bridge; the lease is released then */
  static async open(
    context: NodeContext,
    { self, lease, files, versions }: Taken,
    openPrimary: OpenPrimary,
  ): Promise<ServedPrimary> {
    const { config, clock, logger, database, stopping } = context
    const closers = createClosers()
    let onLost = () => {}
    const lost = new Promise<void>((resolve) => {
      onLost = resolve
    })
    if (stopping.aborted) onLost()
    else stopping.addEventListener('abort', onLost, { once: true })
    closers.push(() => database.release(lease.number).catch((err: unknown) => logger.warn({ err }, 'lease not released')))
    try {
      let nodes: readonly string[] = [self.node]
      const renew = async () => {
        try {
          if (!(await database.renew(lease.number, leaseMs, Date.now()))) onLost()
          await database.announce(self)
          nodes = await database.nodes(leaseMs)
        } catch (err) {
          logger.debug({ err }, 'lease not renewed')
        }
      }
      closers.push(repeatEvery(clock, renewMs, renew))
      closers.push(repeatEvery(clock, purgeEveryMs, () => database.purge(keepDeletedMs).catch(() => {})))
      await takeOver(files, versions, lease.wallMs, async (rows) => {
        if (!(await database.ship(lease.number, rows, ownVersions))) onLost()
      })
      closers.push(() => files.close())
      const shipper = new Shipper({ files, database, lease: lease.number, onLost, clock, logger })
      closers.push(() => shipper.close())
      const base = openBase(config, clock, closers)
      const describe = () => ({ primary: self.node, nodes: [...nodes], failure: shipper.failure ?? null })
      return new ServedPrimary(await openPrimary(base, { after: shipper.after, stored: shipper.stored, describe }), closers, lost)
    } catch (error) {
      await closers.closeAll()
      throw error
    }
  }

  /** @returns once another node has the lease, or this one stops; everything is closed by then, and the lease released */
  async untilLost(): Promise<void> {
    await this.#lost
    await this.#closers.closeAll()
  }
}

/** Brings the files to this release, and their deadlines to the clock of this machine. */
async function takeOver(
  files: ReplicaFiles,
  versions: Taken['versions'],
  wallMs: number | undefined,
  ship: (rows: UncopiedRows['rows']) => Promise<void>,
): Promise<void> {
  files.follow(versions)
  const jobs = files.store('jobs.sqlite')
  const gapMs = wallMs === undefined ? 0 : Date.now() - wallMs
  // The time since the start of another machine says nothing here.
  forgetSteadyTime(jobs)
  if (Math.abs(gapMs) > sameClockMs) moveDeadlines(jobs, gapMs)
  for (let changes = files.read(firstRows); changes.rows.length > 0; changes = files.read(firstRows)) {
    await ship(changes.rows)
    changes.forget()
  }
}

/** Rows that are written at once, as long as nothing else stores any. */
const firstRows = 5_000
