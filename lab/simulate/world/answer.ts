import { Reader, unreadOf } from '../../../core/policy/serving/reader.ts'
import { effectiveWeighting, tokenWeight } from '../../../core/policy/tokenflow/quality.ts'
import type { Simulation } from '../kernel/simulation.ts'
import type { Collector } from './collector.ts'

/** A request as the workload makes it. */
export interface Request {
  readonly id: number
  readonly atMs: number
  /** A name of `modes`. */
  readonly mode: string
  /** Index of the device that asks; undefined: a client of the cloud. */
  readonly device: number | undefined
  readonly promptTokens: number
  /** Tokens that the answer has at its end, >= 1. */
  readonly outputTokens: number
  /** Of the prompt's beginning, that earlier requests had in common; 0: none. */
  readonly sharedTokens: number
  /** Tokens per second that the reader takes. */
  readonly tokensPerS: number
}

/** What answering took. Mutable: modes add to it. */
export interface AnswerWork {
  serverPromptTokens: number
  serverOutputTokens: number
  devicePromptTokens: number
  deviceOutputTokens: number
  joules: number
  dollars: number
  /** HAT: verifications, and the tokens that they gained. */
  rounds: number
  gainedTokens: number
  /** PICE: tokens of the sketch; 0: answered in full. */
  sketchTokens: number
  /** DiSCo. */
  migrations: number
}

/** What is known of an answer at its end. Times in ms. */
export interface AnswerRecord extends Request, AnswerWork {
  /** Undefined: it was answered. */
  readonly refusal: string | undefined
  readonly ttftMs: number
  readonly endedMs: number
  readonly tokens: number
  /** Mean time between tokens; NaN with fewer than two. */
  readonly tbtMs: number
  readonly stalledMs: number
  /** Tokens by the weights of effective throughput (TokenFlow Eq. 1). */
  readonly weightedTokens: number
}

/** An answer on its way to its reader. Mutable; ended once. */
export class Answer {
  readonly request: Request
  readonly work: AnswerWork = {
    serverPromptTokens: 0,
    serverOutputTokens: 0,
    devicePromptTokens: 0,
    deviceOutputTokens: 0,
    joules: 0,
    dollars: 0,
    rounds: 0,
    gainedTokens: 0,
    sketchTokens: 0,
    migrations: 0,
  }
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
    const weighting = effectiveWeighting(this.request.outputTokens)
    const unread = unreadOf(this.reader, nowMs)
    for (let at = 0; at < count; at += 1) this.#weightedTokens += tokenWeight(unread + at, weighting)
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
