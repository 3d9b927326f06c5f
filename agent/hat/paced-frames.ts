import type { Clock } from '../../core/kit/base/clock.ts'
import { FrameSlots, type SlotInput } from '../../core/policy/hat/frame-slots.ts'

export interface PacedFramesOptions {
  readonly intervalMs: number
  readonly clock: Clock
  /** Sends a frame that looks like a verification. */
  cover(): void
}

/** Sends the verifications of one answer at their slots, and covers at the others. */
export class PacedFrames {
  readonly #options: PacedFramesOptions
  readonly #slots: FrameSlots
  readonly #closed = new AbortController()
  #send: (() => void) | undefined
  #isRunning = false

  constructor(options: PacedFramesOptions) {
    this.#options = options
    this.#slots = new FrameSlots(options.intervalMs)
  }

  /** @param send at the next slot */
  ready(send: () => void): void {
    this.#send = send
    this.#handle({ kind: 'ready' })
    if (this.#isRunning) return
    this.#isRunning = true
    // It ends when the answer does.
    void this.#run().catch(() => {})
  }

  close(): void {
    this.#closed.abort()
  }

  async #run(): Promise<void> {
    const { clock } = this.#options
    for (;;) {
      await clock.sleep(Math.max(0, this.#slots.wakeMs! - clock.nowMs()), this.#closed.signal)
      this.#handle({ kind: 'time' })
    }
  }

  #handle(input: SlotInput): void {
    for (const { kind } of this.#slots.handle(input, this.#options.clock.nowMs())) {
      if (kind === 'verification') this.#send?.()
      else this.#options.cover()
    }
  }
}
