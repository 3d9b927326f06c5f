import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { type Action, EventQueue } from './event-queue.ts'

/** Events between two looks at the outside world. */
const eventsPerTurn = 20_000

export interface RunOptions {
  /** Events later than this do not happen. */
  readonly untilMs?: number
  /** Aborted: the run ends early, with what has happened so far. */
  readonly signal?: AbortSignal
  onProgress?(nowMs: number): void
}

/** A virtual clock, what happens on it, and chance. The same seed gives the same run. Mutable. */
export class Simulation {
  /** Of the virtual clock; the run begins at 0. */
  nowMs = 0
  /** That have happened. */
  events = 0
  readonly #seed: number
  readonly #queue = new EventQueue()
  #isStopped = false

  constructor(seed: number) {
    this.#seed = seed
  }

  /** Random numbers of one purpose: drawing more of them changes those of no other purpose. */
  random(purpose: string): Random {
    let seed = this.#seed >>> 0
    for (const character of purpose) seed = Math.imul(seed ^ character.codePointAt(0)!, 0x9e3779b1) >>> 0
    return seededRandom(seed)
  }

  /** @param atMs a past time means now @returns a handle for `cancel` */
  at(atMs: number, action: Action): number {
    return this.#queue.add(Math.max(atMs, this.nowMs), action)
  }

  /** @param delayMs >= 0 */
  after(delayMs: number, action: Action): number {
    return this.at(this.nowMs + delayMs, action)
  }

  cancel(handle: number): void {
    this.#queue.cancel(handle)
  }

  /** The run ends after this event, whatever waits. */
  stop(): void {
    this.#isStopped = true
  }

  /** Lets up to `count` events happen. @returns whether more wait, none of them later than `untilMs` */
  advance(count: number, untilMs = Number.MAX_VALUE): boolean {
    const queue = this.#queue
    for (let left = count; left > 0; left -= 1) {
      const { nextMs } = queue
      if (nextMs > untilMs) return false
      const action = queue.take()!
      this.nowMs = nextMs
      this.events += 1
      action()
      if (this.#isStopped) return false
    }
    return queue.nextMs <= untilMs
  }

  /** Lets everything happen. @returns whether it came to its end, rather than being interrupted */
  async run({ untilMs, signal, onProgress }: RunOptions = {}): Promise<boolean> {
    while (this.advance(eventsPerTurn, untilMs)) {
      onProgress?.(this.nowMs)
      await nextTurn()
      if (signal?.aborted) return false
    }
    return true
  }
}
