import type { Logger } from '../../core/kit/base/logger.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { isPresent, takesJobs } from '../../core/policy/fleet/presence.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'

export type PresenceEvent =
  /** The device has published a state, or is lost. */
  | {
      readonly kind: 'state'
      readonly device: string
      readonly state: DeviceState
      /** A broker had retained it, and the device has sent nothing since. */
      readonly isUnproven?: boolean
    }
  /** The bridge receives no messages: every device counts as absent until its next state. */
  | { readonly kind: 'broker lost' }

type PresenceSubscriber = (event: PresenceEvent) => void

/**
 * Which devices are there, for all parts of the bridge: each subscriber gets the same events in the same order, and whatever it asks
 * meanwhile is answered as of that event. What a subscriber publishes comes after the event that all are getting. Mutable.
 */
export class PresenceFeed {
  readonly #logger: Logger
  readonly #subscribers = new Set<PresenceSubscriber>()
  readonly #waiting: PresenceEvent[] = []
  readonly #present = new Set<string>()
  readonly #takers = new Map<string, readonly string[]>()
  #isPublishing = false

  constructor(logger: Logger) {
    this.#logger = logger
  }

  /** @returns a function that ends the subscription */
  subscribe(notify: PresenceSubscriber): () => void {
    this.#subscribers.add(notify)
    return () => this.#subscribers.delete(notify)
  }

  publish(event: PresenceEvent): void {
    this.#waiting.push(event)
    if (this.#isPublishing) return
    this.#isPublishing = true
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      this.#apply(next)
      const subscribers = [...this.#subscribers]
      for (const notify of subscribers) tryOrLog(this.#logger, 'presence of devices not handled', () => notify(next))
    }
    this.#isPublishing = false
  }

  /** Whether the device receives messages. */
  isPresent(device: string): boolean {
    return this.#present.has(device)
  }

  /** The kinds of jobs of each device that takes jobs. A device whose disk is full announces none. */
  get takers(): ReadonlyMap<string, readonly string[]> {
    return this.#takers
  }

  #apply(event: PresenceEvent): void {
    if (event.kind === 'broker lost') {
      this.#present.clear()
      this.#takers.clear()
      return
    }
    const { device, state } = event
    const { state: word, jobs = [] } = state
    if (isPresent(word)) this.#present.add(device)
    else this.#present.delete(device)
    if (takesJobs(word) && jobs.length > 0) this.#takers.set(device, jobs)
    else this.#takers.delete(device)
  }
}
