import type { Machine } from '../machine.ts'

export type SlotInput =
  /** A verification waits for the next slot. */
  | { readonly kind: 'ready' }
  /** Nothing but the time. */
  | { readonly kind: 'time' }

export type SlotAction =
  | { readonly kind: 'verification' }
  /** A frame that looks the same, as there is no verification. */
  | { readonly kind: 'cover' }

/**
 * When the frames of an answer are sent whose number and times are to tell nothing but how long it takes: one at each slot, from the
 * first verification on. What is ready early waits. Slots that the device has missed are not made up for: the next ones keep
 * the grid.
 */
export class FrameSlots implements Machine<SlotInput, SlotAction> {
  wakeMs: number | undefined
  readonly #intervalMs: number
  #isReady = false

  /** @param intervalMs > 0 */
  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs
  }

  handle({ kind }: SlotInput, nowMs: number): readonly SlotAction[] {
    if (kind === 'ready') this.#isReady = true
    if (this.wakeMs === undefined && this.#isReady) this.wakeMs = nowMs
    if (this.wakeMs === undefined || nowMs < this.wakeMs) return []
    const missed = Math.floor((nowMs - this.wakeMs) / this.#intervalMs)
    this.wakeMs += (missed + 1) * this.#intervalMs
    const sent = this.#isReady ? 'verification' : 'cover'
    this.#isReady = false
    return [{ kind: sent }]
  }
}
