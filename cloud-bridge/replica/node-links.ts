import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { linksToMove, type NodeLoad, placeLink } from '../../core/policy/link/place-link.ts'
import { refuseUpgrade } from '../http/refuse-upgrade.ts'
import type { UpgradeClient } from '../http/server.ts'
import { bearerOf } from '../identity/gate.ts'
import type { Middle } from '../parts/middle.ts'
import type { AnnouncedNode, Primary } from './fleet-database.ts'
import type { LinkGate } from './link-gate.ts'
import { isForwarded, type OtherNodes } from './other-nodes.ts'

/** Interval at which a node that stops looks whether its last session has ended. */
const pollMs = 100

export interface NodeLinksOptions {
  readonly middle: Middle
  readonly gate: LinkGate
  readonly others: OtherNodes
  /** This node, as it is now. The others show the same key, and require the same of their callers. */
  readonly own: () => Omit<Primary, 'url'>
  /** Time for sessions to end before their links are closed, in ms. */
  readonly drainMs: number
  readonly clock: Clock
  readonly logger: Logger
}

/**
 * The devices' links of one node, through all its roles: each is served here, or passed to a node with less to do. So sessions are
 * divided among the nodes, and those of a node that lives go on when another one becomes the primary.
 */
export class NodeLinks {
  readonly #options: NodeLinksOptions
  readonly #closing = new AbortController()
  readonly #node: string
  #nodes: readonly AnnouncedNode[] = []
  /** Name of the node with the lease. */
  #primary: string | undefined
  /** Links that were passed to a node since its last announcement. */
  readonly #passed = new Map<string, number>()
  /** Since when it drains. */
  #drainingMs: number | undefined
  #isStopping = false

  constructor(options: NodeLinksOptions) {
    this.#options = options
    this.#node = options.own().node
  }

  /** What this node announces. */
  get load(): Pick<NodeLoad, 'links' | 'sessions'> {
    const { plane, sessions } = this.#options.middle
    return { links: plane.count, sessions: sessions.count }
  }

  /** The process ends soon. */
  get isStopping(): boolean {
    return this.#isStopping
  }

  /** It takes no lease while another node can. */
  get isLeaving(): boolean {
    return this.#drainingMs !== undefined && this.#loads.some(({ node, isDraining }) => node !== this.#node && !isDraining)
  }

  /** Of all nodes that serve devices, this one included, as it knows them. */
  get #loads(): NodeLoad[] {
    const own = this.#node
    const isDraining = this.#drainingMs !== undefined
    return [
      { node: own, ...this.load, isDraining },
      ...this.#nodes.flatMap((each) => {
        const { node, links, sessions } = each
        if (links === null || node === own) return []
        return [{ node, links: links + (this.#passed.get(node) ?? 0), sessions, isDraining: each.isDraining }]
      }),
    ]
  }

  /** As the database has them now. @param isDraining whether this one drains @param primary name of the node with the lease */
  update(nodes: readonly AnnouncedNode[], isDraining: boolean, primary: string | undefined): void {
    this.#nodes = nodes
    this.#primary = primary
    this.#passed.clear()
    const { clock, logger, middle, drainMs } = this.#options
    const isDrained = isDraining || this.#isStopping
    if (isDrained !== (this.#drainingMs !== undefined)) {
      this.#drainingMs = isDrained ? clock.nowMs() : undefined
      logger.info(this.load, isDrained ? 'this bridge sends its devices away' : 'this bridge serves devices again')
    }
    const isUrgent = this.#drainingMs !== undefined && clock.nowMs() - this.#drainingMs >= drainMs
    const moved = linksToMove(this.#node, this.#loads)
    if (moved > 0) middle.plane.moveAway(moved, isUrgent)
  }

  /** The identities have changed: links of devices that may no longer connect are closed. */
  learn(keys: ReadonlyMap<string, string>): void {
    const { gate, middle } = this.#options
    gate.learn(keys)
    for (const device of middle.plane.dropUnproven()) middle.serving.purge(device)
  }

  /** The process ends soon: its devices are sent away. */
  leave(): void {
    this.#isStopping = true
    this.update(this.#nodes, true, this.#primary)
  }

  /** @returns resolves once no session is open here; undefined: no other node would serve the devices */
  untilMoved(): Promise<void> | undefined {
    return this.isLeaving ? this.#untilIdle() : undefined
  }

  /** A device's WebSocket. */
  readonly upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer, client: UpgradeClient): void => {
    void this.#upgrade(request, socket, head, client).catch((err: unknown) => {
      this.#options.logger.debug({ err }, 'link of a device not served')
      refuseUpgrade(socket, '503 Service Unavailable')
    })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#options.middle.close()
  }

  async #untilIdle(): Promise<void> {
    const { clock, middle } = this.#options
    while (middle.sessions.count > 0 && !this.#closing.signal.aborted) {
      await clock.sleep(pollMs, this.#closing.signal).catch(() => {})
      if (this.isLeaving) middle.plane.moveAway(Number.POSITIVE_INFINITY, false)
    }
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, client: UpgradeClient): Promise<void> {
    const { middle, gate } = this.#options
    // No page may, as at a bridge that is alone.
    if (request.headers.origin !== undefined) return refuseUpgrade(socket, '403 Forbidden')
    if (!isForwarded(request) && (await this.#pass(request, socket, head, client))) return
    const forget = await gate.admit(bearerOf(request.headers.authorization) ?? '')
    if (!forget) return refuseUpgrade(socket, '401 Unauthorized')
    if (socket.destroyed) return forget()
    socket.once('close', forget)
    middle.plane.upgrade(request, socket, head, client)
  }

  /** @returns false: this node is to serve it */
  async #pass(request: IncomingMessage, socket: Duplex, head: Buffer, client: UpgradeClient): Promise<boolean> {
    const { own, others, logger } = this.#options
    const primary = this.#nodes.find(({ node }) => node === this.#primary)
    // One of an earlier release does not tell what tokens prove.
    const node = primary?.links === null ? primary.node : placeLink(this.#node, this.#loads)
    const to = this.#nodes.find((each) => each.node === node)
    if (node === this.#node || !to) return false
    this.#passed.set(node, (this.#passed.get(node) ?? 0) + 1)
    try {
      await others.pass(request, socket, head, { ...own(), url: to.url }, this.#closing.signal)
      client.onAccepted()
      return true
    } catch (err) {
      logger.debug({ err, node }, 'link of a device not passed on')
      return false
    }
  }
}
