import type { AnswerRecord, Request } from '../world/answer-record.ts'
import type { Collector } from '../world/collector.ts'
import { ModeCounter, type ModeResult } from './mode-result.ts'

/** Counts the answers of a run, by mode and in all. Mutable. */
export class ResultCollector implements Collector {
  readonly #modes = new Map<string, ModeCounter>()
  readonly #onEnded: (record: AnswerRecord) => void
  #asked = 0
  /** Answered or refused. */
  over = 0

  /** @param onEnded called with each answer's record once it is counted */
  constructor(onEnded: (record: AnswerRecord) => void) {
    this.#onEnded = onEnded
  }

  /** Requests that are not over. */
  get open(): number {
    return this.#asked - this.over
  }

  ask({ mode }: Request): void {
    this.#asked += 1
    this.#counterOf(mode).asked()
  }

  gap({ mode }: Request, ms: number, tokens: number): void {
    this.#counterOf(mode).gap(ms, tokens)
  }

  ended(record: AnswerRecord): void {
    this.over += 1
    this.#counterOf(record.mode).ended(record)
    this.#onEnded(record)
  }

  /** @param durationS of the run */
  results(durationS: number): { readonly all: ModeResult; readonly modes: Readonly<Record<string, ModeResult>> } {
    const all = new ModeCounter()
    for (const counter of this.#modes.values()) all.merge(counter)
    const modes = [...this.#modes].map(([mode, counter]) => [mode, counter.result(durationS)] as const)
    return { all: all.result(durationS), modes: Object.fromEntries(modes) }
  }

  #counterOf(mode: string): ModeCounter {
    const known = this.#modes.get(mode)
    if (known) return known
    const counter = new ModeCounter()
    this.#modes.set(mode, counter)
    return counter
  }
}
