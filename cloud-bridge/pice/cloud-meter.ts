import type { AnswerDelta, Endpoint } from '../../core/answer/endpoint.ts'
import type { Clock } from '../../core/base/clock.ts'
import { Ewma } from '../../core/policy/estimate/ewma.ts'
import { MonotoneCurve } from '../../core/policy/estimate/monotone-curve.ts'
import type { CloudSpeed } from '../../core/policy/pice/state.ts'

/**
 * How fast an endpoint answers at its present load: f(l) of PICE, measured on every answer that passes. It needs to know nothing of
 * the endpoint's queue, so that it serves for the bridge's own model and for another server alike.
 */
export class CloudMeter {
  readonly #clock: Clock
  readonly #ttftS = new Ewma()
  /** Time per token of one answer, by the number of answers that are being written. */
  readonly #tpotS = new MonotoneCurve()
  /** Between two first tokens while other answers wait for theirs. */
  readonly #intervalS = new Ewma()
  #waiting = 0
  #running = 0
  #maxRunning = 0
  /** When the last answer began, if others waited then. */
  #begunS: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** For an answer that is asked for now; undefined before the first answer of two tokens. */
  get speed(): CloudSpeed | undefined {
    const ttftS = this.#ttftS.value
    if (ttftS === undefined || this.#tpotS.knots().length === 0) return undefined
    const waitS = this.#waiting === 0 ? 0 : (this.#waiting + 1) * (this.#intervalS.value ?? 0)
    // Behind a queue, it begins when another one ends.
    const running = this.#waiting === 0 ? this.#running + 1 : Math.max(1, this.#running)
    return { waitS, ttftS, tpotS: this.#tpotS.at(running), slots: Math.max(1, this.#maxRunning) }
  }

  /** The same endpoint, whose answers are measured. */
  measured<Kind extends Endpoint>(endpoint: Kind): Kind {
    return { ...endpoint, answer: (...args: Parameters<Endpoint['answer']>) => this.#measure(endpoint, ...args) }
  }

  async *#measure(endpoint: Endpoint, ...args: Parameters<Endpoint['answer']>): AsyncGenerator<AnswerDelta, void> {
    const askedS = this.#nowS()
    const isAlone = this.#waiting === 0
    this.#waiting += 1
    let hasBegun = false
    /** When the last tokens came, and when the reader asked for more. */
    let last: { readonly atS: number; readonly askedS: number } | undefined
    try {
      for await (const delta of endpoint.answer(...args)) {
        const nowS = this.#nowS()
        const tokens = 'text' in delta ? delta.tokenCount : delta.tokens.length
        if (!hasBegun) this.#begin(nowS, isAlone ? nowS - askedS : undefined)
        hasBegun = true
        // Where the reader was the slower of the two, the time tells nothing about the endpoint.
        if (last && tokens > 0 && nowS - last.askedS >= last.askedS - last.atS)
          this.#tpotS.record(this.#running, (nowS - last.atS) / tokens)
        yield delta
        last = { atS: nowS, askedS: this.#nowS() }
      }
    } finally {
      if (hasBegun) this.#running -= 1
      else this.#waiting -= 1
      // Idle time after the last one that waited is no interval.
      if (this.#waiting === 0) this.#begunS = undefined
    }
  }

  /** An answer has its first token. @param ttftS undefined where it may have waited for others */
  #begin(nowS: number, ttftS: number | undefined): void {
    this.#waiting -= 1
    this.#running += 1
    this.#maxRunning = Math.max(this.#maxRunning, this.#running)
    if (ttftS !== undefined) this.#ttftS.record(ttftS)
    if (this.#begunS !== undefined) this.#intervalS.record(nowS - this.#begunS)
    this.#begunS = this.#waiting > 0 ? nowS : undefined
  }

  #nowS(): number {
    return this.#clock.nowMs() / 1_000
  }
}
