import type { Clock } from '../../core/kit/base/clock.ts'
import { createClosers } from '../../core/kit/base/closers.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import type { BridgeConfig } from '../config.ts'
import { openCertificate } from '../http/certificate.ts'
import { openBase } from '../parts/base.ts'
import { openMiddle } from '../parts/middle.ts'
import { openStandbyAnswers } from '../parts/standby-answers.ts'
import { requireReplica } from '../replica-marker.ts'
import type { Bridge } from '../running-bridge.ts'
import type { BridgeVariant } from '../variant.ts'
import { FleetDatabase } from './fleet-database.ts'
import { LinkGate } from './link-gate.ts'
import { mayPass, type NodeContext, ownNode, requireFleetServed } from './node-context.ts'
import { NodeLinks } from './node-links.ts'
import { OtherNodes } from './other-nodes.ts'
import { ownVersions } from './replica-files.ts'
import { type OpenPrimary, ServedPrimary } from './served-primary.ts'
import { Standby } from './standby.ts'

/**
 * Starts one of several processes that are one bridge together. The one with the lease is the primary, which does everything. The
 * others are standbys: they keep a copy of what it stores, forward requests to it, and take over when its lease ends.
 * @returns once it is one or the other
 * @throws BrimError DATABASE_UNAVAILABLE, STORE_FAILED, CONFIG_INVALID, LISTEN_*
 */
export async function startNode(
  config: BridgeConfig,
  clock: Clock,
  variant: BridgeVariant,
  openPrimary: OpenPrimary,
): Promise<Bridge> {
  const closers = createClosers()
  const stopping = new AbortController()
  try {
    const { id, fleet, stateDir, broker, database: settings, tls } = config
    if (broker === undefined)
      throw new BrimError('CONFIG_INVALID', 'bridges with --database share a broker, which none of them can be', {
        hint: 'give --broker: docs/brokers.md',
      })
    requireReplica(stateDir)
    closers.push(lockFolder(stateDir))
    const base = await openBase(config, clock, closers)
    const { logger } = base
    const certificate = tls && openCertificate(tls, clock, logger.child({ component: 'tls' }))
    if (certificate) closers.push(certificate.close)
    const database = new FleetDatabase(settings!.url, fleet)
    closers.push(() => database.close())
    await database.open()
    await database.create(id, ownVersions)
    const record = await database.read()
    if (record!.bridge !== id)
      throw new BrimError('CONFIG_INVALID', `the fleet "${fleet}" in the database has bridge "${record!.bridge}", not "${id}"`, {
        hint: `give --id ${record!.bridge}, or another --fleet or database`,
      })
    requireFleetServed(record!, fleet)
    const own = () => ownNode(config, certificate)
    const gate = new LinkGate(own().auth)
    const middle = await openMiddle(base, gate, variant)
    const others = new OtherNodes(config.host)
    const drainMs = config.drainS * 1_000
    const links = new NodeLinks({ middle, gate, others, own, drainMs, clock, logger: logger.child({ component: 'link' }) })
    const answers = await openStandbyAnswers(base, gate, middle)
    const context = { ...base, database, certificate, others, gate, middle, links, answers, stopping: stopping.signal }
    const node = new Node(context, openPrimary)
    closers.push(() => node.ended)
    closers.push(() => stopping.abort(new BrimError('CANCELED', 'the bridge is shutting down')))
    // Before the listener: the devices connect elsewhere at once.
    closers.push(() => links.close())
    await node.ready
    return node.asBridge(closers.closeAll)
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

/** Longer than standbys take to notice that a lease was given back: one that can be the primary takes it first. */
const retryMs = 1_500

/** A standby, then perhaps the primary, then perhaps a standby again. */
class Node {
  readonly #context: NodeContext
  readonly #openPrimary: OpenPrimary
  #standby: Standby | undefined
  #primary: ServedPrimary | undefined
  /** Why its latest role has ended; undefined: it has one. */
  #failure: Error | undefined
  /** The first role is taken. */
  readonly ready: Promise<void>
  readonly ended: Promise<void>

  constructor(context: NodeContext, openPrimary: OpenPrimary) {
    this.#context = context
    this.#openPrimary = openPrimary
    let isReady = () => {}
    const ready = new Promise<void>((resolve) => {
      isReady = resolve
    })
    this.ended = this.#run(() => isReady())
    this.ready = Promise.race([ready, this.ended])
    // Awaited by `ready`, by `failed` and at the end.
    this.ended.catch(() => {})
  }

  async #run(isReady: () => void): Promise<void> {
    let context = this.#context
    const { stopping, clock, logger } = context
    let hasRole = false
    const takeRole = () => {
      hasRole = true
      isReady()
    }
    while (!stopping.aborted) {
      try {
        const standby = await Standby.open(context)
        // Port 0 is chosen once.
        context = { ...context, config: { ...context.config, httpPort: standby.port } }
        this.#standby = standby
        this.#failure = undefined
        const taken = await standby.untilLease(takeRole)
        this.#standby = undefined
        if (!taken) return
        logger.info({ lease: taken.lease.number }, 'this bridge is the primary')
        this.#primary = await ServedPrimary.open(context, taken, this.#openPrimary)
        takeRole()
        await this.#primary.untilLost()
        if (!stopping.aborted) logger.warn('another bridge has become the primary: this one is a standby')
      } catch (err) {
        // What is wrong at the start is wrong in the configuration.
        if (!hasRole || !mayPass(err)) throw err
        this.#failure = err
        logger.error({ err }, 'this bridge takes no role now, and tries again')
        await clock.sleep(retryMs, stopping).catch(() => {})
      } finally {
        this.#standby = undefined
        this.#primary = undefined
      }
    }
  }

  get #current(): Bridge | undefined {
    return this.#primary?.bridge
  }

  asBridge(close: () => Promise<void>): Bridge {
    const node = this
    const { middle, gate, links, answers, progress } = this.#context
    const urls = () =>
      node.#current ?? { mqttUrl: node.#context.config.broker!.url, httpUrl: node.#standby?.self.url ?? '', dataUrl: '' }
    return {
      get mqttUrl() {
        return urls().mqttUrl
      },
      get httpUrl() {
        return urls().httpUrl
      },
      get dataUrl() {
        return urls().dataUrl
      },
      modelIds: middle.opened.map(({ manifest }) => manifest.modelId),
      get computing() {
        return middle.opened.map((model) => model.computing)
      },
      get pin() {
        return node.#current?.pin ?? node.#standby?.self.pin ?? undefined
      },
      auth: gate.authRequired,
      logger: this.#context.logger,
      get stalled() {
        return progress.stalled
      },
      wallMs: () => node.#current?.wallMs() ?? Date.now(),
      get status() {
        if (node.#failure) return `no role now: ${node.#failure.message}`
        const primary = node.#standby?.primary?.node ?? 'unknown'
        return (
          node.#current?.status ??
          `standby, primary ${primary}, ${links.load.sessions} sessions, ${answers.inProgress.count} answers in progress`
        )
      },
      failed: node.ended,
      async drain() {
        links.leave()
        await Promise.all([answers.inProgress.drain(), node.#current ? node.#current.drain() : links.untilMoved()])
      },
      close,
    }
  }
}
