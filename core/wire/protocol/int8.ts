import { decodeHalves, encodeHalves } from '../../kit/base/half.ts'
import type { States } from './states.ts'

/** Rows of 8-bit values q with one scale per row: value = scale · q. */
export interface Int8Rows {
  /** [rows] fp32: largest magnitude of the row / 127; 0 for a row of zeros. */
  readonly scales: Float32Array
  /** [rows, width], row-major, -127..127. */
  readonly values: Int8Array
}

const steps = 127
/** A larger scale could exceed fp16's range. */
export const maxScale = Math.fround(65_504 / steps)

/**
 * Rounds each row to 255 levels of its own range (symmetric, per token): half the bytes of fp16, but changed states. A
 * value is off by at most half a level, 1/254 of the row's largest magnitude, and by rounding to fp16. Rows in `wide` are not
 * affected.
 */
export function toInt8({ rows, width, half }: States): Int8Rows {
  const scales = new Float32Array(rows)
  const values = new Int8Array(rows * width)
  const row = new Float32Array(width)
  for (let at = 0; at < rows; at++) {
    decodeHalves(half.subarray(at * width, (at + 1) * width), row)
    let largest = 0
    // The fp16 copy of a wide row may hold infinities, which are ignored: the row is replaced by `wide`.
    for (const value of row) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value))
    scales[at] = largest / steps
    const scale = scales[at]!
    if (scale === 0) continue
    for (let i = 0; i < width; i++) values[at * width + i] = Number.isFinite(row[i]) ? Math.round(row[i]! / scale) : 0
  }
  return { scales, values }
}

/** @returns [rows, width] fp16 halves */
export function fromInt8({ scales, values }: Int8Rows, width: number): Uint16Array {
  const floats = new Float32Array(values.length)
  values.forEach((value, at) => {
    floats[at] = value * scales[Math.floor(at / width)]!
  })
  const half = new Uint16Array(values.length)
  encodeHalves(floats, half)
  return half
}
