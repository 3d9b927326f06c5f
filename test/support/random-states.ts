import { decodeHalves } from '../../core/kit/base/half.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import type { States } from '../../core/wire/protocol/states.ts'

/** Rows of finite halves between -2 and 2, like shallow states. The same seed gives the same rows. */
export function randomStates(rows: number, width: number, seed: number): States {
  const random = seededRandom(seed)
  const half = Uint16Array.from({ length: rows * width }, () => {
    const sign = random.next() < 0.5 ? 0x8000 : 0
    return sign | Math.floor(random.next() * 0x4000)
  })
  return { rows, width, half }
}

/** The largest difference between values at the same place; infinite where a block has wide rows. */
export function largestDifference(a: States, b: States): number {
  if (a.wide || b.wide || a.half.length !== b.half.length) return Number.POSITIVE_INFINITY
  const [left, right] = [floatsOf(a), floatsOf(b)]
  return left.reduce((max, value, i) => Math.max(max, Math.abs(value - right[i]!)), 0)
}

function floatsOf({ half }: States): Float32Array {
  const floats = new Float32Array(half.length)
  decodeHalves(half, floats)
  return floats
}
