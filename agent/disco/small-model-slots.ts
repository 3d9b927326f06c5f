import { Slots } from '../../core/answer/upstream/slots.ts'

export interface SmallModelLimits {
  /** Answers that the small model writes at once. */
  readonly slmAnswers: number
  /** Further ones that wait, in the order of their arrival. */
  readonly slmWaiting: number
}

/** Admits answers to the small model. */
export class SmallModelSlots {
  readonly #slots: Slots
  readonly #onUse: (isUsed: boolean) => void

  /** @param onUse an answer writes or waits, or does so no longer */
  constructor({ slmAnswers, slmWaiting }: SmallModelLimits, onUse: (isUsed: boolean) => void) {
    this.#slots = new Slots({ requests: slmAnswers, queue: slmWaiting })
    this.#onUse = onUse
  }

  /**
   * Waits for a slot. @returns frees it, to be called once
   * @throws BrimError QUEUE_FULL; the signal's reason
   */
  async take(signal: AbortSignal): Promise<() => void> {
    this.#onUse(true)
    try {
      const free = await this.#slots.take(signal)
      return () => {
        this.#onUse(false)
        free()
      }
    } catch (error) {
      this.#onUse(false)
      throw error
    }
  }
}
