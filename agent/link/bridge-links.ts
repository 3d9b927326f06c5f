import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { duplicateLinks, type LinkStatus, rankLinks } from '../../core/policy/link/choose-link.ts'
import { DeviceTelemetry } from '../../core/wire/protocol/messages.ts'
import type { DeviceTopic } from '../../core/wire/protocol/topics.ts'
import type { BridgeLink } from './bridge-link.ts'
import type { LinkSession, LinkSessionOptions } from './link-session.ts'
import type { ControlService } from './ports.ts'

/** The device's links to several bridges of one fleet, each through a separate broker. */
export class BridgeLinks {
  /** As configured. */
  readonly all: readonly BridgeLink[]
  readonly #logger: Logger
  /** Without duplicates, as far as they are known. */
  #links: readonly BridgeLink[]
  /** Duplicates that are being closed. */
  readonly #closing: Promise<void>[] = []

  /** Resolves when a bridge has refused this device, because another one uses its id. */
  readonly idTaken: Promise<BrimError>

  constructor(links: readonly BridgeLink[], logger: Logger) {
    this.idTaken = Promise.race(links.map((link) => link.idTaken))
    this.all = links
    this.#links = links
    this.#logger = logger
  }

  /** @param servicesAt the services for the broker at this URL */
  start(servicesAt: (url: string) => readonly ControlService[]): void {
    for (const link of this.#links) link.start(servicesAt(link.url))
  }

  /** The device answers with another model from now on, or supports other jobs. */
  setModel(modelId: string | undefined): void {
    for (const link of this.#links) link.setModel(modelId)
  }

  /** The link that the next session would be opened on. */
  get best(): BridgeLink {
    return this.#ranked()[0]!
  }

  get status(): LinkStatus {
    return this.best.status
  }

  /** Why no session could be opened now: of each link, or none if a bridge responds. */
  get problems(): readonly BrimError[] {
    const problems = this.#ranked().map(({ problem }) => problem)
    return problems.includes(undefined) ? [] : problems.filter((problem) => problem !== undefined)
  }

  /** Whether any bridge receives what the device publishes. */
  get hasBridge(): boolean {
    return this.#links.some(({ hasBridge }) => hasBridge)
  }

  /** Publishes on every link that is connected. */
  publishToAll(leaf: DeviceTopic, message: string): void {
    for (const link of this.#links) void link.publish(leaf, message)
  }

  /** Publishes a spooled message on one link whose bridge receives it. @returns whether its broker has acknowledged it */
  async replay(leaf: 'telemetry' | 'log', message: string): Promise<boolean> {
    const link = this.#links.find(({ hasBridge }) => hasBridge)
    if (!link) return false
    // Bridges that know no deltas reject samples without their unknown figures.
    const isComplete = leaf !== 'telemetry' || link.deltaReceivers !== undefined
    return link.publish(leaf, isComplete ? message : JSON.stringify(DeviceTelemetry.parse(JSON.parse(message))))
  }

  /**
   * Opens a session at the best bridge, or at the next one if that fails.
   * @throws BrimError what the best bridge threw
   */
  async open(signal: AbortSignal, options?: LinkSessionOptions): Promise<LinkSession> {
    let first: unknown
    for (const link of this.#ranked(options)) {
      try {
        return await link.open(signal, options)
      } catch (error) {
        if (signal.aborted || !(error instanceof BrimError)) throw error
        first ??= error
      }
    }
    throw first
  }

  async close(): Promise<void> {
    await Promise.all([...this.#links.map((link) => link.close()), ...this.#closing])
  }

  #ranked({ resume, avoid }: LinkSessionOptions = {}): BridgeLink[] {
    this.#closeDuplicates()
    const order = rankLinks(
      this.#links.map(({ status }) => status),
      { cachedAt: resume?.bridge, avoid },
    )
    return order.map((index) => this.#links[index]!)
  }

  #closeDuplicates(): void {
    const duplicates = duplicateLinks(this.#links.map(({ status }) => status)).map((index) => this.#links[index]!)
    for (const link of duplicates) {
      this.#logger.error({ broker: link.url, dataUrl: link.status.dataUrl }, 'duplicate bridge: its second address is ignored')
      this.#closing.push(link.close())
    }
    this.#links = this.#links.filter((link) => !duplicates.includes(link))
  }
}
