import { expect, it } from 'vitest'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { Answer } from '../../../../lab/simulate/world/answer.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

const request = {
  id: 1,
  atMs: 1_000,
  mode: 'cloud',
  part: 'cloud',
  device: undefined,
  promptTokens: 10,
  outputTokens: 100,
  sharedTokens: 0,
  tokensPerS: 10,
}

/** What is recorded of an answer whose reader gets so many tokens at these times. */
function recordOf(deliveries: readonly (readonly [atMs: number, tokens: number])[], delayMs = 0) {
  const simulation = new Simulation(1)
  const gaps: (readonly [ms: number, tokens: number])[] = []
  const records: AnswerRecord[] = []
  const firsts: number[] = []
  const collector = {
    first: (_: unknown, ttftMs: number) => void firsts.push(ttftMs),
    gap: (_: unknown, ms: number, tokens: number) => void gaps.push([ms, tokens]),
    ended: (record: AnswerRecord) => void records.push(record),
  }
  const answer = new Answer(request, simulation, collector)
  if (delayMs > 0) answer.carriedBy({ carry: (_, arrived) => void simulation.after(delayMs, arrived) })
  for (const [atMs, tokens] of deliveries) simulation.at(atMs, () => answer.deliver(tokens))
  simulation.at(deliveries.at(-1)![0], () => answer.end())
  simulation.advance(1_000)
  return { record: records[0]!, firsts, gaps, answer }
}

it('counts from the request to the first token, then between tokens', () => {
  const { record, firsts, gaps } = recordOf([
    [1_500, 1],
    [1_700, 2],
    [2_100, 1],
  ])
  expect(firsts).toEqual([record.ttftMs])
  expect(record).toMatchObject({ ttftMs: 500, endedMs: 2_100, tokens: 4, tbtMs: 200 })
  // Together, they have no time between them; the first ends no gap.
  expect(gaps).toEqual([
    [200, 2],
    [400, 1],
  ])
})

it('knows what its reader waits for', () => {
  const { record } = recordOf([
    [1_500, 1],
    [1_700, 1],
    [1_800, 1],
  ])
  // A token lasts 100 ms.
  expect(record.stalledMs).toBe(100)
})

it('weighs tokens less the more of them wait to be read', () => {
  const paced = recordOf(Array.from({ length: 100 }, (_, i) => [1_500 + 100 * i, 1])).record
  const halves = recordOf([
    [1_500, 50],
    [6_500, 50],
  ]).record
  const atOnce = recordOf([[1_500, 100]]).record
  expect(paced.weightedTokens).toBeCloseTo(100, 6)
  expect(halves.weightedTokens).toBeLessThan(paced.weightedTokens)
  expect(atOnce.weightedTokens).toBeLessThan(halves.weightedTokens)
})

it('is over where it is made before it is where it is read', () => {
  const { record, answer } = recordOf([[1_500, 3]], 250)
  expect([record.ttftMs, record.endedMs]).toEqual([750, 1_750])
  expect(answer.isOver).toBe(true)
  expect(() => answer.end()).toThrow('has ended already')
})
