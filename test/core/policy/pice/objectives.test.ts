import { describe, expect, it } from 'vitest'
import { chooseByObjectives, type Metrics, type Objective } from '../../../../core/policy/pice/objectives.ts'

const plan = (name: string, metrics: Partial<Metrics>) => ({
  name,
  metrics: { ...{ error: 0, throughput: 0, latency: 0, serverCost: 0, edgeCost: 0 }, ...metrics },
})
const plans = [
  plan('good', { error: 0.1, throughput: 2, latency: 9, serverCost: 90 }),
  plan('quick', { error: 0.3, throughput: 1, latency: 4, serverCost: 30 }),
  plan('between', { error: 0.2, throughput: 1.1, latency: 5, serverCost: 50 }),
]

describe('the choice by objectives', () => {
  it.each<[string, [keyof Metrics, number][]]>([
    ['good', [['error', 0]]],
    [
      'quick',
      [
        ['throughput', 0],
        ['error', 0],
      ],
    ],
    // Within 10 % of the quickest, the better one.
    [
      'between',
      [
        ['throughput', 0.1001],
        ['error', 0],
      ],
    ],
    [
      'good',
      [
        ['throughput', 1],
        ['error', 0],
        ['latency', 0],
      ],
    ],
    // What the objectives before count as equal, the last decides.
    [
      'quick',
      [
        ['throughput', 0.5],
        ['latency', 0.5],
        ['serverCost', 0],
      ],
    ],
    [
      'between',
      [
        ['serverCost', 1],
        ['error', 0.5],
      ],
    ],
    ['good', []],
  ])('is %s by %j', (chosen, order) => {
    const objectives = order.map(([metric, tolerance]): Objective => ({ metric, tolerance }))
    expect(chooseByObjectives(plans, objectives).name).toBe(chosen)
  })

  it('does not exist without plans', () => {
    expect(() => chooseByObjectives([], [])).toThrow(RangeError)
  })
})
