import type { Clock } from '../../core/kit/base/clock.ts'
import { networkOf } from '../../core/kit/listen/network.ts'
import { FairQueue, type FairQueueLimits } from '../../core/policy/admission/fair-queue.ts'

const stepMs = 20

/** A CONNECT packet that waits for its turn. */
export interface WaitingConnect {
  readonly onTurn: () => void
  /** Whether its client has given up. */
  readonly isGone: () => boolean
}

/** CONNECT packets that wait for their turn: after a restart a whole fleet connects at once. */
export class ConnectQueue {
  readonly #clock: Clock
  readonly #queue: FairQueue<WaitingConnect>
  readonly #stopping = new AbortController()
  #isRunning = false

  constructor(limits: FairQueueLimits, clock: Clock) {
    this.#clock = clock
    this.#queue = new FairQueue(limits, clock.nowMs())
  }

  /** Calls `onTurn` when it is this client's turn, unless it is gone then. @returns false: the queue is full, and it is not called */
  wait(address: string, connect: WaitingConnect): boolean {
    if (!this.#queue.offer(connect, networkOf(address), this.#clock.nowMs())) return false
    // Those that wait already are admitted by the timer, however many arrive meanwhile.
    if (!this.#isRunning) this.#admit()
    return true
  }

  close(): void {
    this.#stopping.abort()
  }

  #admit(): void {
    for (const { onTurn } of this.#queue.admit(this.#clock.nowMs(), ({ isGone }) => isGone())) onTurn()
    if (this.#queue.size > 0 && !this.#isRunning) void this.#run()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    const { signal } = this.#stopping
    while (this.#queue.size > 0 && !signal.aborted) {
      await this.#clock.sleep(stepMs, signal).catch(() => {})
      if (!signal.aborted) this.#admit()
    }
    this.#isRunning = false
  }
}
