import type { Format } from './manifest.ts'

/** How weights of one quantised type came into the bundle. */
export interface Conversion {
  /** The type in the checkpoint: Q4_0, Q6_K, … */
  readonly from: string
  readonly to: Format
  readonly values: number
  /** Root mean square of the change over that of the weights; 0: every weight has the checkpoint's value. */
  readonly relativeError: number
}

/** @param error sum of the squared changes. @param power sum of the squared weights */
export type OnConverted = (piece: { from: string; to: Format; values: number; error: number; power: number }) => void

/** Sums of squares of a change, and of what was changed. */
export function lossOf(original: Float32Array, changed: Float32Array): { error: number; power: number } {
  let error = 0
  let power = 0
  for (let i = 0; i < original.length; i++) {
    error += (original[i]! - changed[i]!) ** 2
    power += original[i]! ** 2
  }
  return { error, power }
}

export class Conversions {
  readonly #sums = new Map<string, Parameters<OnConverted>[0]>()

  readonly add: OnConverted = ({ from, to, values, error, power }) => {
    const key = `${from} ${to}`
    const sum = this.#sums.get(key) ?? { from, to, values: 0, error: 0, power: 0 }
    this.#sums.set(key, { from, to, values: sum.values + values, error: sum.error + error, power: sum.power + power })
  }

  summary(): Conversion[] {
    return [...this.#sums.values()].map(({ from, to, values, error, power }) => ({
      ...{ from, to, values },
      relativeError: power === 0 ? 0 : Math.sqrt(error / power),
    }))
  }
}
