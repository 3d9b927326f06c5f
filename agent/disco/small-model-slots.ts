import { Slots } from '../../core/upstream/slots.ts'

export interface SmallModelLimits {
  /** Answers that the small model writes at once. */
  readonly slmAnswers: number
  /** Further ones that wait, in the order of their arrival. */
  readonly slmWaiting: number
}

/** How many answers the small model writes at once: one that has been planned counts before it begins. */
export class SmallModelSlots {
  readonly #limits: SmallModelLimits
  readonly #slots: Slots
  #reserved = 0
  /** Answers that have a slot or wait for one. */
  #used = 0

  constructor(limits: SmallModelLimits) {
    this.#limits = limits
    this.#slots = new Slots({ requests: limits.slmAnswers, queue: limits.slmWaiting })
  }

  /** Whether an answer would begin at once. */
  get isFree(): boolean {
    return this.#used + this.#reserved < this.#limits.slmAnswers
  }

  /** Whether an answer that begins now would wait. */
  get isFull(): boolean {
    return this.#used >= this.#limits.slmAnswers
  }

  /** @returns ends the reservation; more calls change nothing */
  reserve(): () => void {
    this.#reserved += 1
    let isEnded = false
    return () => {
      if (!isEnded) this.#reserved -= 1
      isEnded = true
    }
  }

  /**
   * Waits for a slot. @returns frees it, to be called once
   * @throws BrimError QUEUE_FULL; the signal's reason
   */
  async take(signal: AbortSignal): Promise<() => void> {
    this.#used += 1
    try {
      const free = await this.#slots.take(signal)
      return () => {
        this.#used -= 1
        free()
      }
    } catch (error) {
      this.#used -= 1
      throw error
    }
  }
}
