import type { Random } from '../../../core/kit/base/random.ts'
import type { Sending } from '../../../core/model/privacy/observation.ts'
import { fromStates, toStates } from '../../../core/wire/protocol/states.ts'

/** [width, width], row-major. */
export type SquareMatrix = Float64Array

/** Gaussian noise on each value, but none on the first position's. @param share its deviation, over the root mean square of the row */
export const noisy =
  (share: number, random: Random): Sending =>
  (states, base) => {
    const { width } = states
    const values = fromStates(states)
    for (let from = base === 0 ? width : 0; from < values.length; from += width) {
      const row = values.subarray(from, from + width)
      const deviation = share * Math.sqrt(row.reduce((sum, value) => sum + value * value, 0) / width)
      for (let axis = 0; axis < width; axis++) row[axis]! += deviation * normal(random)
    }
    return toStates(values, width)
  }

/** Each row times a matrix. */
export const turned =
  (matrix: SquareMatrix): Sending =>
  (states) =>
    toStates(turnedRows(fromStates(states), matrix), states.width)

export function turnedRows(values: Float32Array, matrix: SquareMatrix): Float32Array {
  const width = Math.sqrt(matrix.length)
  const out = new Float32Array(values.length)
  for (let from = 0; from < values.length; from += width)
    for (let i = 0; i < width; i++) {
      const value = values[from + i] as number
      for (let j = 0; j < width; j++) out[from + j]! += value * matrix[i * width + j]!
    }
  return out
}

/** A random orthogonal matrix: Gram-Schmidt over rows of normal values. */
export function randomRotation(width: number, random: Random): SquareMatrix {
  const matrix = Float64Array.from({ length: width * width }, () => normal(random))
  const row = (at: number) => matrix.subarray(at * width, (at + 1) * width)
  for (let at = 0; at < width; at++) {
    // Twice, since the first pass leaves rounding.
    for (let pass = 0; pass < 2; pass++)
      for (let before = 0; before < at; before++) {
        const along = inner(row(at), row(before))
        for (let axis = 0; axis < width; axis++) row(at)[axis]! -= along * row(before)[axis]!
      }
    const length = Math.sqrt(inner(row(at), row(at)))
    for (let axis = 0; axis < width; axis++) row(at)[axis]! /= length
  }
  return matrix
}

export function transposed(matrix: SquareMatrix): SquareMatrix {
  const width = Math.sqrt(matrix.length)
  return matrix.map((_, at) => matrix[(at % width) * width + Math.floor(at / width)]!)
}

/**
 * What an attacker takes for the rotation, who has the public weights of a layer and the bridge's, which are fine-tuned and rotated:
 * the orthogonal factor of WᵀW', by the Newton-Schulz iteration.
 * @param weights public ones, [rows, width] @param secret share of their size by which fine-tuning has changed the bridge's
 */
export function estimatedRotation(
  weights: Float32Array,
  rotation: SquareMatrix,
  { change, random }: { readonly change: number; readonly random: Random },
): SquareMatrix {
  const width = Math.sqrt(rotation.length)
  const size = Math.sqrt(weights.reduce((sum, value) => sum + value * value, 0) / weights.length)
  const tuned = weights.map((value) => value + change * size * normal(random))
  // WᵀW' = (Wᵀ(W + Δ))Q: without a change, a symmetric matrix times the rotation.
  const product = new Float64Array(width * width)
  const rotated = new Float64Array(width)
  for (let from = 0; from < weights.length; from += width) {
    rotated.fill(0)
    for (let i = 0; i < width; i++) for (let j = 0; j < width; j++) rotated[j]! += tuned[from + i]! * rotation[i * width + j]!
    for (let i = 0; i < width; i++) for (let j = 0; j < width; j++) product[i * width + j]! += weights[from + i]! * rotated[j]!
  }
  return orthogonalFactor(product, width)
}

/**
 * What an attacker takes for the rotation, who knows the tokens of some rows: Procrustes' least squares.
 * @param plain states that the public weights give these tokens @param sent the rows, of the same shape
 */
export function rotationOfPairs(plain: Float32Array, sent: Float32Array, width: number): SquareMatrix {
  const product = new Float64Array(width * width)
  for (let from = 0; from < plain.length; from += width)
    for (let i = 0; i < width; i++) {
      const value = plain[from + i] as number
      for (let j = 0; j < width; j++) product[i * width + j]! += value * (sent[from + j] as number)
    }
  return orthogonalFactor(product, width)
}

const iterations = 80

function orthogonalFactor(matrix: SquareMatrix, width: number): SquareMatrix {
  const norm = Math.sqrt(inner(matrix, matrix))
  let factor: SquareMatrix = matrix.map((value) => value / norm)
  for (let at = 0; at < iterations; at++) {
    const cubic = times(times(factor, transposed(factor), width), factor, width)
    factor = factor.map((value, index) => 1.5 * value - 0.5 * cubic[index]!)
  }
  return factor
}

function times(a: SquareMatrix, b: SquareMatrix, width: number): SquareMatrix {
  const out = new Float64Array(width * width)
  for (let i = 0; i < width; i++)
    for (let k = 0; k < width; k++) {
      const value = a[i * width + k]!
      for (let j = 0; j < width; j++) out[i * width + j]! += value * b[k * width + j]!
    }
  return out
}

const inner = (a: Float64Array, b: Float64Array): number => a.reduce((sum, value, at) => sum + value * b[at]!, 0)

/** Box and Muller. */
export const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
