import { type Closers, createClosers } from '../../core/kit/base/closers.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { withTimeout } from '../../core/kit/base/with-timeout.ts'
import type { Base } from '../parts/base.ts'
import type { PrimaryNode } from '../parts/primary-node.ts'
import { moveDeadlines } from '../queue/job-clock.ts'
import { forgetSteadyTime } from '../queue/steady-time.ts'
import type { Bridge } from '../running-bridge.ts'
import type { AnnouncedNode, FleetDatabase } from './fleet-database.ts'
import { HeldLease, leaseMs } from './held-lease.ts'
import { announce, type NodeContext } from './node-context.ts'
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
    const { config, clock, logger, database, gate, links, stopping } = context
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
      let nodes: readonly AnnouncedNode[] = [{ ...self, ...links.load, isDraining: false }]
      let checkIdentities = () => {}
      const held = new HeldLease(clock, () => database.renew(number, leaseMs, self, bridge?.wallMs()))
      const renew = async () => {
        try {
          if (!(await held.renew())) onLost()
          nodes = await announce(context, self, self.node)
          checkIdentities()
          if (links.isLeaving && !links.isStopping) handOver()
        } catch (err) {
          logger.debug({ err }, 'lease not renewed')
        }
      }
      let isHandingOver = false
      const handOver = () => {
        if (isHandingOver || !bridge) return
        isHandingOver = true
        withTimeout(config.drainS * 1_000, bridge.drain(), clock).then(onLost, onLost)
      }
      closers.push(repeatEvery(clock, renewMs, renew))
      closers.push(repeatEvery(clock, purgeEveryMs, () => database.purge(keepDeletedMs).catch(() => {})))
      closers.push(() => files.close())
      await takeOver(context, taken)
      const ship = (rows: Parameters<typeof database.ship>[1]) => database.ship(number, rows, ownVersions)
      const confirmLease = () => held.confirm()
      const shipper = new Shipper({ files, ship, confirmLease, onLost, clock, logger })
      closers.push(() => shipper.close())
      const load = ({ node, links, sessions, isDraining }: AnnouncedNode) => ({ node, links: links ?? 0, sessions, isDraining })
      bridge = await openPrimary(
        { ...context, closers },
        {
          after: shipper.after,
          stored: shipper.stored,
          onNewerPrimary: onLost,
          describe: () => ({
            primary: self.node,
            nodes: nodes.map(({ node }) => node),
            loads: nodes.map(load),
            failure: shipper.failure ?? null,
          }),
          setDraining: (node, isDraining) => setDraining(database, node, isDraining),
          links: {
            middle: context.middle,
            upgrade: links.upgrade,
            untilMoved: () => links.untilMoved(),
            proveBy(grants, identities) {
              gate.proveBy((token) => grants.subjectOf(token))
              context.answers.know(identities)
              closers.push(() => context.answers.freeze())
              let checked: string | undefined
              checkIdentities = () => {
                const version = identities.version()
                if (version !== checked) links.learn(identities.approvedKeys())
                checked = version
              }
              checkIdentities()
            },
          },
        },
      )
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

/** @throws BrimError REQUEST_INVALID */
async function setDraining(database: FleetDatabase, node: string, isDraining: boolean): Promise<void> {
  const nodes = await database.nodes(leaseMs)
  if (!nodes.some((each) => each.node === node))
    throw new BrimError('REQUEST_INVALID', `no process "${node}" is a part of this bridge now`, {
      hint: `these are: ${nodes.map((each) => each.node).join(', ')}`,
    })
  if (isDraining && nodes.every((each) => each.node === node || each.isDraining))
    throw new BrimError('REQUEST_INVALID', `no other process would serve the devices of "${node}"`, {
      hint: 'start another, or "brim bridge drain --undo" one',
    })
  await database.setDraining(node, isDraining)
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
