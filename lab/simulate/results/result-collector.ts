import type { AnswerRecord, RequestedAnswer } from '../world/answer-record.ts'
import type { Collector } from '../world/collector.ts'
import { ModeCounter, type ModeResult } from './mode-result.ts'

/** Requests that come between these times are counted. */
export interface CountedTimes {
  readonly fromMs: number
  /** Itself excluded. */
  readonly untilMs: number
}

const always: CountedTimes = { fromMs: 0, untilMs: Number.POSITIVE_INFINITY }

/** Counts the answers of a run, by part of the workload and in all. Mutable. */
export class ResultCollector implements Collector {
  readonly #parts = new Map<string, ModeCounter>()
  readonly #counted: CountedTimes
  readonly #onEnded: (record: AnswerRecord) => void
  asked = 0
  /** Answered or refused. */
  over = 0

  /** @param onEnded called with each answer's record, counted or not */
  constructor(onEnded: (record: AnswerRecord) => void, counted: CountedTimes = always) {
    this.#counted = counted
    this.#onEnded = onEnded
  }

  /** Requests that are not over. */
  get open(): number {
    return this.asked - this.over
  }

  ask(request: RequestedAnswer): void {
    this.asked += 1
    this.#counterOf(request)?.asked()
  }

  first(request: RequestedAnswer, ttftMs: number): void {
    this.#counterOf(request)?.first(ttftMs)
  }

  gap(request: RequestedAnswer, ms: number, tokens: number): void {
    this.#counterOf(request)?.gap(ms, tokens)
  }

  ended(record: AnswerRecord): void {
    this.over += 1
    this.#counterOf(record)?.ended(record)
    this.#onEnded(record)
  }

  /** @param durationS of the run */
  results(durationS: number): { readonly all: ModeResult; readonly modes: Readonly<Record<string, ModeResult>> } {
    const all = new ModeCounter()
    for (const counter of this.#parts.values()) all.merge(counter)
    const modes = [...this.#parts].map(([part, counter]) => [part, counter.result(durationS)] as const)
    return { all: all.result(durationS), modes: Object.fromEntries(modes) }
  }

  /** Undefined: the request does not count. */
  #counterOf({ part, atMs }: RequestedAnswer): ModeCounter | undefined {
    if (atMs < this.#counted.fromMs || atMs >= this.#counted.untilMs) return undefined
    const known = this.#parts.get(part)
    if (known) return known
    const counter = new ModeCounter()
    this.#parts.set(part, counter)
    return counter
  }
}
