import { StateCodebook } from './state-codebook.ts'
import type { TokenGuess } from './token-guess.ts'
import { Whitening } from './whitening.ts'

/** A state and the token that it came from. */
export interface StateSamples {
  /** [samples, width], row-major. */
  readonly values: Float32Array
  readonly width: number
  readonly ids: readonly number[]
}

/**
 * Linear discriminant analysis of states: the attacker has no weights, but pairs of tokens and states, as from a device of their own
 * in the same fleet. Tokens that the samples lack cannot be found.
 */
export class TrainedInverter {
  readonly #whitening: Whitening
  readonly #codebook: StateCodebook
  readonly #tokens: readonly number[]

  constructor({ values, width, ids }: StateSamples) {
    const rowOf = (at: number) => values.subarray(at * width, (at + 1) * width)
    const means = new Map<number, { readonly sum: Float32Array; count: number }>()
    for (const [at, id] of ids.entries()) {
      const mean = means.get(id) ?? { sum: new Float32Array(width), count: 0 }
      means.set(id, mean)
      mean.count += 1
      for (const [axis, value] of rowOf(at).entries()) mean.sum[axis]! += value
    }
    for (const { sum, count } of means.values()) for (let axis = 0; axis < width; axis++) sum[axis]! /= count
    const deviations = Float32Array.from(values)
    for (const [at, id] of ids.entries())
      for (const [axis, value] of means.get(id)!.sum.entries()) deviations[at * width + axis]! -= value
    this.#whitening = new Whitening(deviations, width)
    this.#tokens = [...means.keys()]
    const whitened = new Float32Array(means.size * width)
    for (const [at, { sum }] of [...means.values()].entries()) whitened.set(this.#whitening.apply(sum), at * width)
    const logPriors = Float32Array.from(means.values(), ({ count }) => Math.log(count / ids.length))
    this.#codebook = new StateCodebook(whitened, width, logPriors)
  }

  /** @param row [width] */
  guess(row: Float32Array): TokenGuess {
    return this.#codebook.nearest(this.#whitening.apply(row)).map((at) => this.#tokens[at]!)
  }
}
