import type { AttentionShape } from './architecture.ts'
import { goldenRows } from './golden.ts'

/**
 * Arithmetic of a decoder over the golden rows: fp32 values and fp64 sums, without an inference library, because its
 * results check the library's kernels.
 */

/**
 * out[r, first + n] = Σ_k x[r, k] · weights[n, k] for the golden rows r and the given rows n of a matrix.
 * @param x [goldenRows, columns]
 * @param weights [n, columns]
 * @param out [goldenRows, width]
 */
export function multiplyRows(x: Float32Array, weights: Float32Array, columns: number, out: Float32Array, first: number): void {
  const width = out.length / goldenRows
  const rows = weights.length / columns
  for (let n = 0, w = 0; n < rows; n++) {
    // Unrolled over the four golden rows: each weight is loaded once, and the four sums are independent.
    let [a, b, c, d] = [0, 0, 0, 0]
    for (let k = 0; k < columns; k++, w++) {
      const weight = weights[w]!
      a += weight * x[k]!
      b += weight * x[k + columns]!
      c += weight * x[k + 2 * columns]!
      d += weight * x[k + 3 * columns]!
    }
    const at = first + n
    out[at] = a
    out[at + width] = b
    out[at + 2 * width] = c
    out[at + 3 * width] = d
  }
}

/** x / sqrt(mean(x²) + ε) · weight, row by row. @param x [goldenRows, weight.length] */
export function rmsNorm(x: Float32Array, weight: Float32Array, epsilon: number): Float32Array {
  const width = weight.length
  const out = new Float32Array(x.length)
  for (let start = 0; start < x.length; start += width) {
    let squares = 0
    for (let i = 0; i < width; i++) squares += x[start + i]! ** 2
    const scale = 1 / Math.sqrt(squares / width + epsilon)
    for (let i = 0; i < width; i++) out[start + i] = x[start + i]! * scale * weight[i]!
  }
  return out
}

/** a += b; a shorter b (a bias) is added to every row of a. */
export function addInto(a: Float32Array, b: Float32Array): void {
  for (let i = 0; i < a.length; i++) a[i] = a[i]! + b[i % b.length]!
}

/** x · sigmoid(x) */
export function silu(x: Float32Array): Float32Array {
  return x.map((value) => value / (1 + Math.exp(-value)))
}

/** 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))) */
export function gelu(x: Float32Array): Float32Array {
  return x.map((value) => 0.5 * value * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (value + 0.044715 * value ** 3))))
}

/** a · b, value by value. */
export function multiplied(a: Float32Array, b: Float32Array): Float32Array {
  return a.map((value, i) => value * b[i]!)
}

/** RMSNorm of each head of [goldenRows, width], or of all together, in the columns [from, to). In place. */
export function normaliseHeads(
  x: Float32Array,
  width: number,
  [from, to]: readonly [number, number],
  weight: Float32Array,
  epsilon: number,
): void {
  for (let row = 0; row < goldenRows; row++) {
    const own = x.subarray(row * width + from, row * width + to)
    own.set(rmsNorm(own, weight, epsilon))
  }
}

/**
 * Takes the rows of gated attention apart, in which each query is followed by its gate.
 * @param rows [goldenRows, 2 heads · headDim + 2 kvHeads · headDim]
 * @returns as `attend` takes them, and [goldenRows, heads · headDim]
 */
export function openGate(
  rows: Float32Array,
  { heads, kvHeads, headDim }: AttentionShape,
): { readonly qkv: Float32Array; readonly gate: Float32Array } {
  const [from, to] = [2 * (heads + kvHeads) * headDim, (heads + 2 * kvHeads) * headDim]
  const qkv = new Float32Array(goldenRows * to)
  const gate = new Float32Array(goldenRows * heads * headDim)
  for (let row = 0; row < goldenRows; row++) {
    const take = (at: number, count: number) => rows.subarray(row * from + at, row * from + at + count)
    for (let head = 0; head < heads; head++) {
      qkv.set(take(2 * head * headDim, headDim), row * to + head * headDim)
      gate.set(take((2 * head + 1) * headDim, headDim), (row * heads + head) * headDim)
    }
    qkv.set(take(2 * heads * headDim, 2 * kvHeads * headDim), row * to + heads * headDim)
  }
  return { qkv, gate }
}

/** Rotary tables of the golden positions, [goldenRows, rotated elements / 2] each. */
interface GoldenRotary {
  readonly cos: Float32Array
  readonly sin: Float32Array
}

interface GoldenAttention extends AttentionShape {
  readonly scale: number
  readonly window: number | undefined
  /** Undefined: queries and keys are not rotated. */
  readonly rotary: GoldenRotary | undefined
}

/**
 * Causal grouped-query attention over the golden rows.
 * @param qkv [goldenRows, (heads + 2 kvHeads) · headDim]; queries and keys are rotated in place
 * @returns [goldenRows, heads · headDim]
 */
export function attend(qkv: Float32Array, { heads, kvHeads, headDim, scale, window, rotary }: GoldenAttention): Float32Array {
  const width = (heads + 2 * kvHeads) * headDim
  if (rotary)
    for (let row = 0; row < goldenRows; row++)
      for (let head = 0; head < heads + kvHeads; head++) rotate(qkv, row * width + head * headDim, rotary, row)
  const out = new Float32Array(goldenRows * heads * headDim)
  for (let row = 0; row < goldenRows; row++)
    for (let head = 0; head < heads; head++) {
      const key = (heads + Math.floor((head * kvHeads) / heads)) * headDim
      const value = key + kvHeads * headDim
      const query = row * width + head * headDim
      const weights = softmax(
        Array.from({ length: row + 1 }, (_, past) =>
          window !== undefined && past <= row - window
            ? Number.NEGATIVE_INFINITY
            : dot(qkv, query, past * width + key, headDim) * scale,
        ),
      )
      for (let i = 0; i < headDim; i++)
        out[(row * heads + head) * headDim + i] = weights.reduce(
          (sum, weight, past) => sum + weight * qkv[past * width + value + i]!,
          0,
        )
    }
  return out
}

/** Rotates the start of one head; element i is paired with the one half of the rotated elements later (rotary_interleaved = 0). */
function rotate(values: Float32Array, at: number, { cos, sin }: GoldenRotary, position: number): void {
  const half = cos.length / goldenRows
  for (let i = 0; i < half; i++) {
    const [c, s] = [cos[position * half + i]!, sin[position * half + i]!]
    const [a, b] = [values[at + i]!, values[at + i + half]!]
    values[at + i] = a * c - b * s
    values[at + i + half] = b * c + a * s
  }
}

function dot(values: Float32Array, a: number, b: number, length: number): number {
  let sum = 0
  for (let i = 0; i < length; i++) sum += values[a + i]! * values[b + i]!
  return sum
}

function softmax(scores: number[]): number[] {
  const highest = Math.max(...scores)
  const powers = scores.map((score) => Math.exp(score - highest))
  const sum = powers.reduce((a, b) => a + b, 0)
  return powers.map((power) => power / sum)
}
