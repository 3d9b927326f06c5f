import type { Clock } from './clock.ts'

/** One loop, or one piece of work, that must make progress. */
export interface Expectation {
  /** The next progress is due within `ms`. Replaces what was expected before. */
  within(ms: number): void
  /** Nothing is due: the work has ended, or its loop waits for others. */
  rest(): void
}

/** Which loops of the process make no progress. A watchdog is fed only while there are none. */
export class Progress {
  readonly #clock: Clock
  /** When the next progress of each is due. */
  readonly #dueMs = new Map<object, { readonly name: string; readonly ms: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param name for the log; several may have the same one */
  expect(name: string): Expectation {
    const key = {}
    return {
      within: (ms) => void this.#dueMs.set(key, { name, ms: this.#clock.nowMs() + ms }),
      rest: () => void this.#dueMs.delete(key),
    }
  }

  /** Expects that `work` ends within `ms`. */
  async during<T>(name: string, ms: number, work: () => Promise<T>): Promise<T> {
    const expectation = this.expect(name)
    expectation.within(ms)
    try {
      return await work()
    } finally {
      expectation.rest()
    }
  }

  /** Names of those whose progress is overdue. */
  get stalled(): readonly string[] {
    const nowMs = this.#clock.nowMs()
    return [...new Set([...this.#dueMs.values()].filter(({ ms }) => nowMs > ms).map(({ name }) => name))]
  }
}
