import { encodeHalves } from '../../core/kit/base/half.ts'
import { seededRandom } from '../../core/kit/base/random.ts'
import { makeTables } from '../../core/model/coding/make-tables.ts'
import type { CodingTables } from '../../core/wire/protocol/state-coding.ts'
import type { States } from '../../core/wire/protocol/states.ts'

/** Rows as a model has them: each channel is normally distributed, with a mean and a deviation of its own. */
export function normalStates(rows: number, width: number, seed: number): States {
  const random = seededRandom(seed)
  const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next())
  const ofChannels = seededRandom(1)
  const channels = Array.from({ length: width }, () => ({
    mean: ofChannels.next() - 0.5,
    deviation: 2 ** (4 * ofChannels.next() - 2),
  }))
  const floats = new Float32Array(rows * width)
  for (let i = 0; i < floats.length; i++) {
    const { mean, deviation } = channels[i % width]!
    floats[i] = mean + deviation * normal()
  }
  const half = new Uint16Array(rows * width)
  encodeHalves(floats, half)
  return { rows, width, half }
}

/** Tables for such rows. */
export function normalTables(width: number): CodingTables {
  const tables = makeTables([normalStates(200, width, 2)])
  if (!tables) throw new Error(`no tables for rows of ${width} values`)
  return tables
}
