/** Added to each variance, as a share of their mean: of few samples some directions have none. */
const ridge = 1e-4

/**
 * The linear map under which deviations from the mean of their class are uncorrelated with variance 1: x → L⁻¹x, where LLᵀ is their
 * covariance.
 */
export class Whitening {
  readonly #width: number
  /** [width, width], lower triangle. */
  readonly #lower: Float64Array

  /** @param deviations of samples from the mean of their class, [samples, width] */
  constructor(deviations: Float32Array, width: number) {
    this.#width = width
    const covariance = new Float64Array(width * width)
    for (let from = 0; from < deviations.length; from += width)
      for (let i = 0; i < width; i++) {
        const own = deviations[from + i] as number
        for (let j = 0; j <= i; j++) covariance[i * width + j]! += own * (deviations[from + j] as number)
      }
    const samples = Math.max(1, deviations.length / width)
    let trace = 0
    for (let i = 0; i < width; i++) trace += covariance[i * width + i]! /= samples
    for (let i = 0; i < width; i++) for (let j = 0; j < i; j++) covariance[i * width + j]! /= samples
    for (let i = 0; i < width; i++) covariance[i * width + i]! += (ridge * trace) / width + Number.MIN_VALUE
    this.#lower = cholesky(covariance, width)
  }

  /** @param row [width] @returns a fresh one */
  apply(row: Float32Array): Float32Array {
    const width = this.#width
    const out = new Float32Array(width)
    for (let i = 0; i < width; i++) {
      let value = row[i] as number
      for (let j = 0; j < i; j++) value -= this.#lower[i * width + j]! * (out[j] as number)
      out[i] = value / this.#lower[i * width + i]!
    }
    return out
  }
}

/** In place, in the lower triangle. @throws RangeError unless it is positive definite */
function cholesky(matrix: Float64Array, width: number): Float64Array {
  for (let i = 0; i < width; i++)
    for (let j = 0; j <= i; j++) {
      let sum = matrix[i * width + j]!
      for (let k = 0; k < j; k++) sum -= matrix[i * width + k]! * matrix[j * width + k]!
      if (i > j) matrix[i * width + j] = sum / matrix[j * width + j]!
      else if (sum > 0) matrix[i * width + i] = Math.sqrt(sum)
      else throw new RangeError('the covariance is not positive definite')
    }
  return matrix
}
