import type { Clock } from '../../core/kit/base/clock.ts'
import { judgeRequest } from '../../core/policy/quota/quota.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'

/**
 * Limits how often the state of each device may change, because each change costs commits. A minute's worth may come at once.
 * Of the states beyond the rate only the latest is kept, until the rate allows it.
 */
export class StateLimit {
  readonly #perMinute: number
  readonly #clock: Clock
  /** Of each device that has changed its state lately; see `judgeRequest`. */
  readonly #dueMs = new Map<string, number>()
  readonly #kept = new Map<string, DeviceState>()

  constructor(perMinute: number, clock: Clock) {
    this.#perMinute = perMinute
    this.#clock = clock
  }

  /** @returns whether the state counts now; if not, it is kept */
  admit(device: string, state: DeviceState): boolean {
    const kept = this.#kept.get(device)
    // The late will of an earlier birth must not replace the state of a later one.
    if (kept && state.state === 'lost' && state.birth < kept.birth) return false
    const judged = judgeRequest(this.#dueMs.get(device) ?? Number.NEGATIVE_INFINITY, this.#perMinute, this.#clock.nowMs())
    if (judged.kind === 'refused') {
      this.#kept.set(device, state)
      return false
    }
    this.#dueMs.set(device, judged.next)
    this.#kept.delete(device)
    return true
  }

  /** The device has returned to the state that counts. */
  drop(device: string): void {
    this.#kept.delete(device)
  }

  /** The kept states that count now. Call it at a fixed interval: it also forgets devices whose state has not changed lately. */
  takeDue(): (readonly [string, DeviceState])[] {
    const nowMs = this.#clock.nowMs()
    const due = [...this.#kept].filter(([device, state]) => this.admit(device, state))
    for (const [device, dueMs] of this.#dueMs) if (dueMs <= nowMs && !this.#kept.has(device)) this.#dueMs.delete(device)
    return due
  }
}
