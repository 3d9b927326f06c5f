import type { AnswerRecord, Request } from '../world/answer-record.ts'
import type { Collector } from '../world/collector.ts'
import { ModeCounter, type ModeResult } from './mode-result.ts'

/** Counts the answers of a run, by part of the workload and in all. Mutable. */
export class ResultCollector implements Collector {
  readonly #parts = new Map<string, ModeCounter>()
  readonly #onEnded: (record: AnswerRecord) => void
  asked = 0
  /** Answered or refused. */
  over = 0

  /** @param onEnded called with each answer's record once it is counted */
  constructor(onEnded: (record: AnswerRecord) => void) {
    this.#onEnded = onEnded
  }

  /** Requests that are not over. */
  get open(): number {
    return this.asked - this.over
  }

  ask({ part }: Request): void {
    this.asked += 1
    this.#counterOf(part).asked()
  }

  gap({ part }: Request, ms: number, tokens: number): void {
    this.#counterOf(part).gap(ms, tokens)
  }

  ended(record: AnswerRecord): void {
    this.over += 1
    this.#counterOf(record.part).ended(record)
    this.#onEnded(record)
  }

  /** @param durationS of the run */
  results(durationS: number): { readonly all: ModeResult; readonly modes: Readonly<Record<string, ModeResult>> } {
    const all = new ModeCounter()
    for (const counter of this.#parts.values()) all.merge(counter)
    const modes = [...this.#parts].map(([part, counter]) => [part, counter.result(durationS)] as const)
    return { all: all.result(durationS), modes: Object.fromEntries(modes) }
  }

  #counterOf(part: string): ModeCounter {
    const known = this.#parts.get(part)
    if (known) return known
    const counter = new ModeCounter()
    this.#parts.set(part, counter)
    return counter
  }
}
