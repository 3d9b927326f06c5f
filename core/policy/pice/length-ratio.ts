import { median } from '../estimate/quantile.ts'

/** Pairs that count: the latest. */
const maxSamples = 64
/** Before anything is measured, the ratio is 1; it takes more than this many pairs to move it. */
const priorSamples = 3
/** A ratio beyond is no systematic error of a model that foresees lengths. */
const maxRatio = 8

/**
 * Ratio of true to predicted lengths of one model, mutable: LLMs over- or underestimate their answers by a factor, and sketches
 * miss their levels by another. The median of the latest ratios, so that single answers count little.
 */
export class LengthRatio {
  /** A ring of logarithms: the oldest is overwritten. */
  readonly #logs: number[]
  #next: number

  /** @param samples of an earlier LengthRatio */
  constructor(samples: readonly number[] = []) {
    this.#logs = samples.slice(-maxSamples)
    this.#next = this.#logs.length % maxSamples
  }

  /** The latest ratios' logarithms, for a new LengthRatio. */
  get samples(): readonly number[] {
    return [...this.#logs.slice(this.#next), ...this.#logs.slice(0, this.#next)]
  }

  get ratio(): number {
    return Math.exp(median([...this.#logs, ...Array<number>(priorSamples).fill(0)]))
  }

  /** Lengths below 1 count as 1. An answer that was cut off has no true length: do not record it. */
  record(predictedTokens: number, trueTokens: number): void {
    const ratio = Math.max(1, trueTokens) / Math.max(1, predictedTokens)
    this.#logs[this.#next] = Math.log(Math.min(maxRatio, Math.max(1 / maxRatio, ratio)))
    this.#next = (this.#next + 1) % maxSamples
  }

  /** A predicted length with the systematic error taken out, ≥ 1. */
  correct(predictedTokens: number): number {
    return Math.max(1, Math.round(predictedTokens * this.ratio))
  }
}
