import { type Closers, createClosers } from '../../core/kit/base/closers.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { type Base, openBase } from '../parts/base.ts'
import type { PrimaryNode } from '../parts/primary-node.ts'
import { moveDeadlines } from '../queue/job-clock.ts'
import { forgetSteadyTime } from '../queue/steady-time.ts'
import type { Bridge } from '../running-bridge.ts'
import { HeldLease, leaseMs } from './held-lease.ts'
import type { NodeContext } from './node-context.ts'
import { ownVersions, pagesOf } from './replica-files.ts'
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
  static async open(context: NodeContext, taken: Taken, openPrimary: OpenPrimary): Promise<ServedPrimary> {
    const { config, clock, logger, database, stopping } = context
    const { self, lease, files } = taken
    const { number } = lease
    const closers = createClosers()
    let onLost = () => {}
    const lost = new Promise<void>((resolve) => {
      onLost = resolve
    })
    if (stopping.aborted) onLost()
    else stopping.addEventListener('abort', onLost, { once: true })
    closers.push(() => database.release(number).catch((err: unknown) => logger.warn({ err }, 'lease not released')))
    try {
      let bridge: Bridge | undefined
      let nodes: readonly string[] = [self.node]
      const held = new HeldLease(clock, () => database.renew(number, leaseMs, self, bridge?.wallMs()))
      const renew = async () => {
        try {
          if (!(await held.renew())) onLost()
          await database.announce(self)
          nodes = await database.nodes(leaseMs)
        } catch (err) {
          logger.debug({ err }, 'lease not renewed')
        }
      }
      closers.push(repeatEvery(clock, renewMs, renew))
      closers.push(repeatEvery(clock, purgeEveryMs, () => database.purge(keepDeletedMs).catch(() => {})))
      closers.push(() => files.close())
      await takeOver(context, taken)
      const ship = (rows: Parameters<typeof database.ship>[1]) => database.ship(number, rows, ownVersions)
      const confirmLease = () => held.confirm()
      const shipper = new Shipper({ files, ship, confirmLease, onLost, clock, logger })
      closers.push(() => shipper.close())
      bridge = await openPrimary(await openBase(config, clock, closers), {
        after: shipper.after,
        stored: shipper.stored,
        onNewerPrimary: onLost,
        describe: () => ({ primary: self.node, nodes: [...nodes], failure: shipper.failure ?? null }),
      })
      return new ServedPrimary(bridge, closers, lost)
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

/** Brings the files to this release, and the deadlines in them to the clock of this machine. @throws BrimError NO_PRIMARY */
async function takeOver({ database }: NodeContext, { lease, files, versions }: Taken): Promise<void> {
  const isMigrated = files.follow(versions)
  const jobs = files.store('jobs.sqlite')
  // The time since the start of another machine says nothing here.
  forgetSteadyTime(jobs)
  if (Math.abs(lease.gapMs) > sameClockMs) moveDeadlines(jobs, lease.gapMs)
  const isHeld = isMigrated ? await database.shipAll(lease.number, pagesOf(files), ownVersions, leaseMs) : await shipOnce()
  if (!isHeld) throw new BrimError('NO_PRIMARY', 'another bridge has become the primary meanwhile')

  async function shipOnce(): Promise<boolean> {
    const changes = files.read()
    if (!(await database.ship(lease.number, changes.rows, ownVersions))) return false
    changes.forget()
    return true
  }
}
