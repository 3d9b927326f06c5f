import { likeliestTokens } from '../engine/sampler.ts'
import { guessCount, type TokenGuess } from './token-guess.ts'

/** One state for each token, to compare others with. */
export class StateCodebook {
  readonly width: number
  /** [tokens, width], row-major. */
  readonly #values: Float32Array
  /** Half the squared length of each, less what speaks for a token beforehand. */
  readonly #offsets: Float32Array

  /** @param values [tokens, width] @param logPriors of each token, absent: all are alike */
  constructor(values: Float32Array, width: number, logPriors?: Float32Array) {
    this.width = width
    this.#values = values
    this.#offsets = Float32Array.from({ length: values.length / width }, (_, at) => {
      const row = values.subarray(at * width, (at + 1) * width)
      return dot(row, 0, row) / 2 - (logPriors?.[at] ?? 0)
    })
  }

  /** The nearest tokens of a state, by Euclidean distance. @param row [width] */
  nearest(row: Float32Array, count = guessCount): TokenGuess {
    const { width } = this
    const scores = this.#offsets.map((offset, at) => dot(this.#values, at * width, row) - offset)
    return likeliestTokens(scores, Math.min(count, scores.length))
  }
}

/** Of `row` and as many values of `values` from `from` on. */
export function dot(values: Float32Array, from: number, row: Float32Array): number {
  let sum = 0
  for (let at = 0; at < row.length; at++) sum += (values[from + at] as number) * (row[at] as number)
  return sum
}
