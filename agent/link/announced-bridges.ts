import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { isLateWill } from '../../core/policy/link/retained-state.ts'
import { BridgeState } from '../../core/wire/protocol/messages.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'

/** More bridges on one broker are ignored: any client of a broker without access rules could fill the memory. */
const maxBridges = 64

/** The retained states of the bridges on one broker: of all, or of the one where the device has enrolled. */
export class AnnouncedBridges {
  readonly #logger: Logger
  readonly #enrolledAt: string | undefined
  readonly #states = new Map<string, BridgeState>()
  #fleetSize: number | undefined
  /** Bridges whose unreadable state has been logged. */
  readonly #unreadable = new Set<string>()
  /** One line is enough: a broker that carries many strange bridges must not fill the log. */
  #hasWarned = false

  /** @param enrolledAt id of the only bridge that the device accepts; undefined: it has not enrolled */
  constructor(logger: Logger, enrolledAt?: string) {
    this.#logger = logger
    this.#enrolledAt = enrolledAt
  }

  get states(): ReadonlyMap<string, BridgeState> {
    return this.#states
  }

  /** Whether any bridge receives what the device publishes. */
  get hasReceiver(): boolean {
    return this.#receivers.length > 0
  }

  /** The bridges that receive it, with their starts, if all of them rebuild samples from deltas. */
  get deltaReceivers(): string | undefined {
    const receivers = this.#receivers
    if (receivers.length === 0 || !receivers.every(([, { telemetryDeltas }]) => telemetryDeltas === true)) return undefined
    return receivers
      .map(([bridge, { birth }]) => `${bridge}:${birth}`)
      .sort()
      .join(' ')
  }

  get #receivers(): [string, BridgeState][] {
    return [...this.#states].filter(([, { state }]) => state === 'ready' || state === 'draining')
  }

  /** Devices of the largest of the bridges, as last announced; undefined: none has announced it. */
  get fleetSize(): number | undefined {
    return this.#fleetSize
  }

  /** For a new connection: the broker delivers every retained state again. */
  clear(): void {
    this.#states.clear()
  }

  /** @returns whether the states have changed */
  onMessage(bridge: string, payload: Uint8Array): boolean {
    if (!this.#accepts(bridge)) return this.#warnOfStranger(bridge)
    const read = readMessage(BridgeState, payload)
    if (read.kind === 'unreadable') {
      // An empty payload clears the retained state: the bridge was removed.
      if (payload.byteLength > 0)
        this.#warnOnce(bridge, new BrimError(read.code, `unreadable state of bridge "${bridge}": ${read.reason}`))
      return this.#states.delete(bridge)
    }
    if (isLateWill(read.message, this.#states.get(bridge)?.birth)) return false
    this.#states.set(bridge, read.message)
    this.#updateFleetSize()
    this.#unreadable.delete(bridge)
    return true
  }

  /** Keeps the last known size: a bridge that is lost announces none. */
  #updateFleetSize(): void {
    const sizes = [...this.#states.values()].flatMap(({ devices }) => devices ?? [])
    if (sizes.length > 0) this.#fleetSize = Math.max(...sizes)
  }

  #accepts(bridge: string): boolean {
    if (this.#enrolledAt !== undefined) return bridge === this.#enrolledAt
    return this.#states.has(bridge) || this.#states.size < maxBridges
  }

  #warnOfStranger(bridge: string): false {
    if (!this.#hasWarned) this.#logger.warn({ bridge, enrolledAt: this.#enrolledAt }, 'announcement of another bridge ignored')
    this.#hasWarned = true
    return false
  }

  #warnOnce(bridge: string, err: BrimError): void {
    if (this.#unreadable.has(bridge) || this.#unreadable.size >= maxBridges) return
    this.#unreadable.add(bridge)
    this.#logger.warn({ err }, 'state of a bridge ignored')
  }
}
