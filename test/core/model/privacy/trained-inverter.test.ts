import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { StateCodebook } from '../../../../core/model/privacy/state-codebook.ts'
import { TrainedInverter } from '../../../../core/model/privacy/trained-inverter.ts'
import { fromStates, toStates } from '../../../../core/wire/protocol/states.ts'
import { randomRotation, turned } from '../../../../lab/bench/privacy/disguises.ts'

const width = 8
const tokens = 5

/** Tokens that differ in one direction only, in which there is noise, too; another direction has the same noise alone. */
function samples(count: number, seed: number) {
  const random = seededRandom(seed)
  const ids = Array.from({ length: count }, () => Math.floor(random.next() * tokens))
  const values = Float32Array.from({ length: count * width }, () => 40 * (random.next() - 0.5))
  for (const [at, id] of ids.entries()) values[at * width + 3] = id + values[at * width + 4]! + 0.2 * (random.next() - 0.5)
  return { ids, values, width }
}
const rowOf = (values: Float32Array, at: number) => values.subarray(at * width, (at + 1) * width)
const shareFound = (ids: readonly number[], guess: (at: number) => number) =>
  ids.filter((id, at) => guess(at) === id).length / ids.length

describe('an inverter that is trained on pairs', () => {
  const inverter = new TrainedInverter(samples(2_000, 1))
  const other = samples(400, 2)

  it('finds the direction in which tokens differ, where the nearest mean would not', () => {
    expect(shareFound(other.ids, (at) => inverter.guess(rowOf(other.values, at))[0]!)).toBeGreaterThan(0.95)
    const means = Float32Array.from({ length: tokens * width }, (_, at) => (at % width === 3 ? Math.floor(at / width) : 0))
    const nearest = new StateCodebook(means, width)
    expect(shareFound(other.ids, (at) => nearest.nearest(rowOf(other.values, at))[0]!)).toBeLessThan(0.6)
  })

  it('finds as many tokens of states that are rotated, where its samples are', () => {
    const rotate = turned(randomRotation(width, seededRandom(3)))
    const turnedValues = (values: Float32Array) => fromStates(rotate(toStates(values, width), 0))
    const { ids, values } = samples(2_000, 1)
    const rotated = new TrainedInverter({ ids, values: turnedValues(values), width })
    const attacked = turnedValues(other.values)
    expect(shareFound(other.ids, (at) => rotated.guess(rowOf(attacked, at))[0]!)).toBeGreaterThan(0.95)
    expect(shareFound(other.ids, (at) => inverter.guess(rowOf(attacked, at))[0]!)).toBeLessThan(0.6)
  })

  it('names only tokens that it has seen, each once, the likeliest of equal ones first', () => {
    const rare = new TrainedInverter({ ids: [7, 9, 9, 9], values: new Float32Array(4 * width), width })
    expect(rare.guess(new Float32Array(width))).toEqual([9, 7])
  })
})

describe('a codebook', () => {
  it('orders tokens by their distance', () => {
    const value = fc.double({ min: -100, max: 100, noNaN: true })
    fc.assert(
      fc.property(fc.array(fc.tuple(value, value), { minLength: 1, maxLength: 20 }), value, value, (points, x, y) => {
        const order = new StateCodebook(Float32Array.from(points.flat()), 2).nearest(Float32Array.of(x, y), points.length)
        const distances = order.map((at) => Math.hypot(points[at]![0] - x, points[at]![1] - y))
        return (
          new Set(order).size === points.length &&
          distances.every((distance, at) => at === 0 || distance >= distances[at - 1]! - 0.01)
        )
      }),
    )
  })
})
