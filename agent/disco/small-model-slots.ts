import { SmallModelUse } from '../../core/policy/disco/small-model-use.ts'
import { Slots } from '../../core/upstream/slots.ts'

export interface SmallModelLimits {
  /** Answers that the small model writes at once. */
  readonly slmAnswers: number
  /** Further ones that wait, in the order of their arrival. */
  readonly slmWaiting: number
}

/** Admits answers to the small model. */
export class SmallModelSlots extends SmallModelUse {
  readonly #slots: Slots

  constructor({ slmAnswers, slmWaiting }: SmallModelLimits) {
    super(slmAnswers)
    this.#slots = new Slots({ requests: slmAnswers, queue: slmWaiting })
  }

  /**
   * Waits for a slot. @returns frees it, to be called once
   * @throws BrimError QUEUE_FULL; the signal's reason
   */
  async take(signal: AbortSignal): Promise<() => void> {
    const end = this.begin()
    try {
      const free = await this.#slots.take(signal)
      return () => {
        end()
        free()
      }
    } catch (error) {
      end()
      throw error
    }
  }
}
