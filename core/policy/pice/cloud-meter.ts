import { Ewma } from '../estimate/ewma.ts'
import { MonotoneCurve } from '../estimate/monotone-curve.ts'
import type { CloudSpeed } from './state.ts'

/** An answer that is measured. Times in ms, of one clock. */
export interface MeteredAnswer {
  /** Tokens have come. */
  tokens(count: number, nowMs: number): void
  /** Its reader asks for more. */
  asked(nowMs: number): void
  /** Complete, or given up. */
  ended(): void
}

/** Of the highest number of tokens per second that was measured. */
const saturation = 0.9

/**
 * How fast an endpoint answers at its present load: f(l) of PICE, measured on every answer that passes. It needs to know nothing of
 * the endpoint's queue, so that it serves for the bridge's own model and for another server alike. Mutable.
 */
export class CloudMeter {
  readonly #ttftS = new Ewma()
  /** Time per token of one answer, by the number of answers that are being written. */
  readonly #tpotS = new MonotoneCurve()
  /** Between two first tokens while other answers wait for theirs. */
  readonly #intervalS = new Ewma()
  #waiting = 0
  #running = 0
  /** When the last answer began, if others waited then. */
  #begunS: number | undefined

  /** For an answer that is asked for now; undefined before the first answer of two tokens. */
  get speed(): CloudSpeed | undefined {
    const ttftS = this.#ttftS.value
    if (ttftS === undefined || this.#tpotS.knots().length === 0) return undefined
    const waitS = this.#waiting === 0 ? 0 : (this.#waiting + 1) * (this.#intervalS.value ?? 0)
    // Behind a queue, it begins when another one ends.
    const running = this.#waiting === 0 ? this.#running + 1 : Math.max(1, this.#running)
    return { waitS, ttftS, tpotS: this.#tpotS.at(running), slots: this.#slots, running: this.#running }
  }

  /** Answers beyond which it writes hardly more tokens per second, whether the others wait or all take turns. */
  get #slots(): number {
    const rates = this.#tpotS.knots().map(({ x, y }) => ({ running: x, perS: x / y }))
    const highest = Math.max(...rates.map(({ perS }) => perS))
    return Math.max(1, Math.round(rates.find(({ perS }) => perS >= saturation * highest)!.running))
  }

  begin(askedMs: number): MeteredAnswer {
    const askedS = askedMs / 1_000
    const isAlone = this.#waiting === 0
    this.#waiting += 1
    let hasBegun = false
    /** When the last tokens came, and when the reader asked for more. */
    let last: { readonly atS: number; askedS: number } | undefined
    return {
      tokens: (count, nowMs) => {
        const nowS = nowMs / 1_000
        if (!hasBegun) this.#onFirst(nowS, isAlone ? nowS - askedS : undefined)
        hasBegun = true
        // Where the reader was the slower of the two, the time tells nothing about the endpoint.
        if (last && count > 0 && nowS - last.askedS >= last.askedS - last.atS)
          this.#tpotS.record(this.#running, (nowS - last.atS) / count)
        last = { atS: nowS, askedS: nowS }
      },
      asked(nowMs) {
        if (last) last.askedS = nowMs / 1_000
      },
      ended: () => {
        if (hasBegun) this.#running -= 1
        else this.#waiting -= 1
        // Idle time after the last one that waited is no interval.
        if (this.#waiting === 0) this.#begunS = undefined
      },
    }
  }

  /** An answer has its first token. @param ttftS undefined where it may have waited for others */
  #onFirst(nowS: number, ttftS: number | undefined): void {
    this.#waiting -= 1
    this.#running += 1
    if (ttftS !== undefined) this.#ttftS.record(ttftS)
    if (this.#begunS !== undefined) this.#intervalS.record(nowS - this.#begunS)
    this.#begunS = this.#waiting > 0 ? nowS : undefined
  }
}
