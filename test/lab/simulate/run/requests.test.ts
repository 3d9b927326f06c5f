import { describe, expect, it } from 'vitest'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { Askers } from '../../../../lab/simulate/run/askers.ts'
import { requestsOf } from '../../../../lab/simulate/run/requests.ts'
import { Workload } from '../../../../lab/simulate/scenario/scenario.ts'
import type { TracedRequest } from '../../../../lab/simulate/traces/request-trace.ts'

const groups: Readonly<Record<string, readonly number[]>> = { phones: [0, 1], boards: [2] }

function generate(fields: object, trace?: readonly TracedRequest[]) {
  const workload = Workload.parse({ requests: 1_000, promptTokens: 10, outputTokens: 20, modes: [{ mode: 'cloud' }], ...fields })
  const simulation = new Simulation(1)
  const random = (purpose: string) => simulation.random(purpose)
  const devicesOf = (group?: string) => (group === undefined ? [0, 1, 2] : groups[group]!)
  return [...requestsOf(workload, { trace, devicesOf, random, asking: new Askers(random('devices'), false) })]
}

const shareOf = <T>(items: readonly T[], matches: (item: T) => boolean): number => items.filter(matches).length / items.length

describe('requestsOf', () => {
  it('spaces a Poisson process by its rate', () => {
    const requests = generate({ arrivals: { kind: 'poisson', perS: 4 } })
    expect(requests).toHaveLength(1_000)
    expect(requests.every(({ atMs }, i) => atMs >= (requests[i - 1]?.atMs ?? 0))).toBe(true)
    const gaps = requests.map(({ atMs }, i) => atMs - (requests[i - 1]?.atMs ?? 0))
    expect(requests.at(-1)!.atMs / 1_000).toBeCloseTo(250, -1.5)
    // Of an exponential distribution: a share of 1/e is longer than its mean.
    expect(shareOf(gaps, (gap) => gap > 250)).toBeCloseTo(1 / Math.E, 1)
  })

  it('lets a burst arrive at once', () => {
    const requests = generate({ requests: 3, arrivals: { kind: 'burst', atS: 2 } })
    expect(requests.map(({ id, atMs }) => [id, atMs])).toEqual([
      [0, 2_000],
      [1, 2_000],
      [2, 2_000],
    ])
  })

  it('replays a trace, faster, without its beginning, with scaled lengths', () => {
    const trace = [0, 1_000, 3_000].map((atMs, i) => ({
      atMs,
      promptTokens: 100 * (i + 1),
      outputTokens: 50,
      sharedTokens: 40 * i,
    }))
    const arrivals = { kind: 'trace', file: 'x', speed: 2, skipS: 1, lengths: 0.5 }
    const own = generate({ arrivals, promptTokens: undefined, outputTokens: undefined }, trace)
    expect(
      own.map(({ atMs, promptTokens, outputTokens, sharedTokens }) => [atMs, promptTokens, outputTokens, sharedTokens]),
    ).toEqual([
      [0, 100, 25, 20],
      [1_000, 150, 25, 40],
    ])
    expect(generate({ arrivals, outputTokens: undefined }, trace).map(({ promptTokens }) => promptTokens)).toEqual([10, 10])
  })

  it('takes a list as it is, each request with the part of the workload that it names', () => {
    const modes = [
      { mode: 'cloud', name: 'chats', share: 0 },
      { mode: 'cloud', name: 'private', share: 0, groups: ['boards'] },
      { mode: 'local' },
    ]
    const requests = [
      { atS: 1, promptTokens: 30, outputTokens: 7, part: 'private' },
      { atS: 1.5, promptTokens: 40, outputTokens: 8, sharedTokens: 12, part: 'chats' },
      { atS: 2, promptTokens: 50, outputTokens: 9 },
    ]
    const own = generate({ arrivals: { kind: 'list', requests }, promptTokens: undefined, outputTokens: undefined, modes })
    expect(
      own.map(({ atMs, part, mode, promptTokens, outputTokens, sharedTokens }) => [
        atMs,
        part,
        mode,
        promptTokens,
        outputTokens,
        sharedTokens,
      ]),
    ).toEqual([
      [1_000, 'private', 'cloud', 30, 7, 0],
      [1_500, 'chats', 'cloud', 40, 8, 12],
      [2_000, 'local', 'local', 50, 9, 0],
    ])
    expect(own[0]!.device).toBe(2)
  })

  it('draws modes, readers and devices by their shares', () => {
    const requests = generate({
      arrivals: { kind: 'burst' },
      modes: [
        { mode: 'hat', share: 0.3, groups: ['phones'], promptTokens: 900 },
        { mode: 'cloud', share: 0.6 },
      ],
      readers: [
        { tokensPerS: 15, share: 0.4 },
        { tokensPerS: 20, share: 0.6 },
      ],
    })
    const hat = requests.filter(({ mode }) => mode === 'hat')
    expect(hat.length / 1_000).toBeCloseTo(1 / 3, 1)
    expect(hat.every(({ device, promptTokens }) => device! < 2 && promptTokens === 900)).toBe(true)
    const cloud = requests.filter(({ mode }) => mode === 'cloud')
    expect(cloud.every(({ promptTokens }) => promptTokens === 10)).toBe(true)
    expect(shareOf(cloud, ({ device }) => device === 2)).toBeCloseTo(1 / 3, 1)
    expect(shareOf(requests, ({ tokensPerS }) => tokensPerS === 15)).toBeCloseTo(0.4, 1)
  })

  it('keeps lengths whole, at least one token, and within the limit', () => {
    const requests = generate({
      arrivals: { kind: 'burst' },
      promptTokens: { kind: 'normal', mean: 5, deviation: 20, min: 0 },
      outputTokens: { kind: 'lognormal', median: 100, sigma: 2 },
      maxOutputTokens: 300,
      sharedTokens: 8,
    })
    expect(requests.every(({ promptTokens: n }) => Number.isInteger(n) && n >= 1)).toBe(true)
    expect(Math.max(...requests.map(({ outputTokens }) => outputTokens))).toBe(300)
    // A prompt's last token is always new.
    expect(requests.every(({ promptTokens, sharedTokens }) => sharedTokens === Math.min(8, promptTokens - 1))).toBe(true)
  })
})
