import { z } from 'zod'
import { Id } from '../../core/wire/protocol/id.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'

/** A bridge that learns that the device uses its own topics may have messages under way on those of all bridges. */
const transitionMs = 10_000
/** As many bridges as a broker may have for a device. */
const maxBridges = 64

/**
 * The bridges with which the device exchanges messages on topics of their own only. Brokers with access rules let no other bridge
 * use these, so that a message there comes from the bridge that it names.
 */
export class OwnTopics {
  readonly #enrolledAt: string | undefined
  /** Bridge → until when its messages on the topics of all bridges count. */
  readonly #until = new Map<string, number>()

  /** @param enrolledAt the only bridge whose messages count; undefined: the device has not enrolled */
  constructor(enrolledAt: string | undefined) {
    this.#enrolledAt = enrolledAt
  }

  get bridges(): string[] {
    return [...this.#until.keys()]
  }

  has(bridge: string): boolean {
    return this.#until.has(bridge)
  }

  add(bridge: string, nowMs: number): void {
    if (this.#until.size < maxBridges) this.#until.set(bridge, nowMs + transitionMs)
  }

  delete(bridge: string): void {
    this.#until.delete(bridge)
  }

  /** @param of bridge of the topic that the message came on; undefined: that of all bridges */
  accepts(of: string | undefined, payload: Uint8Array, nowMs: number): boolean {
    const named = namedBridge(payload)
    // Nothing can be done in the name of a bridge.
    if (named === undefined) return true
    if (this.#enrolledAt !== undefined && named !== this.#enrolledAt) return false
    return of === undefined ? nowMs < (this.#until.get(named) ?? Number.POSITIVE_INFINITY) : of === named
  }
}

const Named = z.object({ bridge: Id })

/** The bridge in whose name the message is, also where the rest of it is unreadable. */
function namedBridge(payload: Uint8Array): string | undefined {
  const read = readMessage(Named, payload)
  return read.kind === 'message' ? read.message.bridge : Named.safeParse(read.json).data?.bridge
}
