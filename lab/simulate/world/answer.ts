import { Reader, unreadOf } from '../../../core/policy/serving/reader.ts'
import { effectiveWeight } from '../../../core/policy/tokenflow/quality.ts'
import type { Simulation } from '../kernel/simulation.ts'
import { noWork, type Request } from './answer-record.ts'
import type { Collector } from './collector.ts'

/** An answer on its way to its reader. Mutable; ended once. */
export class Answer {
  readonly request: Request
  readonly work = noWork()
  readonly reader: Reader
  readonly #simulation: Simulation
  readonly #collector: Collector
  #weightedTokens = 0
  #lastMs = 0
  #isOver = false

  constructor(request: Request, simulation: Simulation, collector: Collector) {
    this.request = request
    this.reader = new Reader(request.tokensPerS, request.outputTokens, request.atMs)
    this.#simulation = simulation
    this.#collector = collector
  }

  get tokens(): number {
    return this.reader.sent
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** The reader gets `count` more tokens at once, >= 1. */
  deliver(count: number): void {
    const { nowMs } = this.#simulation
    if (this.reader.sent > 0) this.#collector.gap(this.request, nowMs - this.#lastMs, count)
    const unread = unreadOf(this.reader, nowMs)
    for (let at = 0; at < count; at += 1) this.#weightedTokens += effectiveWeight(unread + at, this.request.outputTokens)
    this.reader.deliver(count, nowMs)
    this.#lastMs = nowMs
  }

  /** Nothing more will come. @param refusal why the request was not answered */
  end(refusal?: string): void {
    if (this.#isOver) throw new Error(`answer ${this.request.id} has ended already`)
    this.#isOver = true
    const { firstTokenMs, requestedMs, sent, stalledMs } = this.reader
    this.#collector.ended({
      ...this.request,
      ...this.work,
      refusal,
      ttftMs: firstTokenMs === undefined ? Number.NaN : firstTokenMs - requestedMs,
      endedMs: this.#simulation.nowMs,
      tokens: sent,
      tbtMs: sent > 1 ? (this.#lastMs - firstTokenMs!) / (sent - 1) : Number.NaN,
      stalledMs,
      weightedTokens: this.#weightedTokens,
    })
  }
}
