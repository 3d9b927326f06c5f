import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { isLateWill } from '../../core/policy/link/retained-state.ts'
import { BridgeState } from '../../core/protocol/messages.ts'
import { readMessage } from '../../core/protocol/read-message.ts'

/** The retained states of the bridges on one broker. */
export class AnnouncedBridges {
  readonly #logger: Logger
  readonly #states = new Map<string, BridgeState>()
  /** Bridges whose unreadable state has been logged. */
  readonly #unreadable = new Set<string>()

  constructor(logger: Logger) {
    this.#logger = logger
  }

  get states(): ReadonlyMap<string, BridgeState> {
    return this.#states
  }

  /** Whether any bridge receives what the device publishes. */
  get hasReceiver(): boolean {
    return [...this.#states.values()].some(({ state }) => state === 'ready' || state === 'draining')
  }

  /** For a new connection: the broker delivers every retained state again. */
  clear(): void {
    this.#states.clear()
  }

  /** @returns whether the states have changed */
  onMessage(bridge: string, payload: Uint8Array): boolean {
    const read = readMessage(BridgeState, payload)
    if (read.kind === 'unreadable') {
      // An empty payload clears the retained state: the bridge was removed.
      if (payload.byteLength > 0)
        this.#warnOnce(bridge, new BrimError(read.code, `unreadable state of bridge "${bridge}": ${read.reason}`))
      return this.#states.delete(bridge)
    }
    if (isLateWill(read.message, this.#states.get(bridge)?.birth)) return false
    this.#states.set(bridge, read.message)
    this.#unreadable.delete(bridge)
    return true
  }

  #warnOnce(bridge: string, err: BrimError): void {
    if (this.#unreadable.has(bridge)) return
    this.#unreadable.add(bridge)
    this.#logger.warn({ err }, 'state of a bridge ignored')
  }
}
