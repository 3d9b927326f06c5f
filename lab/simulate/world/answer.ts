import { Reader, unreadOf } from '../../../core/policy/serving/reader.ts'
import { effectiveWeight } from '../../../core/policy/tokenflow/quality.ts'
import type { Simulation } from '../kernel/simulation.ts'
import { Lateness } from '../results/quality-of-experience.ts'
import { type AnswerWork, noWork, type RequestedAnswer } from './answer-record.ts'
import type { Collector } from './collector.ts'

/** What brings tokens to the reader. */
export interface Carrier {
  /** @param tokens 0: the end of the answer */
  carry(tokens: number, arrived: () => void): void
}

/** An answer on its way to its reader. Mutable; ended once. */
export class Answer {
  readonly request: RequestedAnswer
  readonly #simulation: Simulation
  readonly #collector: Collector
  #reader: Reader | undefined
  #work: AnswerWork | undefined
  #sent = 0
  #carrier: Carrier | undefined
  #weightedTokens = 0
  #lateness: Lateness | undefined
  #lastMs = 0
  #isOver = false

  constructor(request: RequestedAnswer, simulation: Simulation, collector: Collector) {
    this.request = request
    this.#simulation = simulation
    this.#collector = collector
  }

  /** Made when it is needed: many answers wait. */
  get reader(): Reader {
    const { tokensPerS, outputTokens, atMs } = this.request
    this.#reader ??= new Reader(tokensPerS, outputTokens, atMs)
    return this.#reader
  }

  /** As the reader. */
  get work(): AnswerWork {
    this.#work ??= noWork()
    return this.#work
  }

  /** That the reader has, or that are on their way to it. */
  get tokens(): number {
    return this.#sent
  }

  get isOver(): boolean {
    return this.#isOver
  }

  /** Whether nobody reads it any more. */
  get isAbandoned(): boolean {
    return false
  }

  /** Something works on it. @param _stop ends that work: answers that may be abandoned keep it */
  workedOnBy(_stop: () => void): void {}

  /** From now on, what is delivered is on its way for a while. Things arrive in the order in which they are carried. */
  carriedBy(carrier: Carrier): void {
    this.#carrier = carrier
  }

  /** The reader gets `count` more tokens at once, >= 1. */
  deliver(count: number): void {
    this.#sent += count
    if (this.#carrier) this.#carrier.carry(count, () => this.#arrived(count))
    else this.#arrived(count)
  }

  /** Nothing more will come. @param refusal why the request was not answered */
  end(refusal?: string): void {
    if (this.#isOver) throw new Error(`answer ${this.request.id} has ended already`)
    this.#isOver = true
    if (this.#carrier) this.#carrier.carry(0, () => this.#ended(refusal))
    else this.#ended(refusal)
  }

  #arrived(count: number): void {
    const { nowMs } = this.#simulation
    if (this.reader.sent > 0) this.#collector.gap(this.request, nowMs - this.#lastMs, count)
    else this.#collector.first(this.request, nowMs - this.request.atMs)
    const unread = unreadOf(this.reader, nowMs)
    for (let at = 0; at < count; at += 1) this.#weightedTokens += effectiveWeight(unread + at, this.request.outputTokens)
    this.#lateness ??= new Lateness(this.request.tokensPerS, this.request.atMs)
    this.#lateness.read(count, Math.max(nowMs, this.reader.drainedMs ?? nowMs))
    this.reader.deliver(count, nowMs)
    this.#lastMs = nowMs
  }

  #ended(refusal: string | undefined): void {
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
      qualityOfExperience: this.#lateness?.qualityOfExperience ?? 0,
    })
  }
}
