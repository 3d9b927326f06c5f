import { expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

async function burst(cloud: object) {
  const records: AnswerRecord[] = []
  const scenario = Scenario.parse({
    name: 'burst',
    cloud: { model: 'llama3-8b', gpu: 'a100-80', policy: 'fcfs', ...cloud },
    workload: { requests: 6, arrivals: { kind: 'burst' }, promptTokens: 50, outputTokens: 100, modes: [{ mode: 'cloud' }] },
  })
  const { durationS } = await runScenario(scenario, { onRecord: (record) => records.push(record) })
  return { records: records.toSorted((a, b) => a.id - b.id), durationS }
}

it('the cloud writes so many answers at once, the others in the order of their arrival', async () => {
  const [all, two] = [await burst({}), await burst({ answersAtOnce: 2 })]
  expect(Math.max(...all.records.map(({ ttftMs }) => ttftMs))).toBeLessThan(500)
  const ends = two.records.map(({ endedMs }) => endedMs)
  for (const [at, { atMs, ttftMs }] of two.records.entries())
    if (at >= 2) expect(atMs + ttftMs).toBeGreaterThanOrEqual(ends[at - 2]!)
  expect(two.durationS).toBeGreaterThan(2.5 * all.durationS)
})

it('each replica writes so many at once', async () => {
  const [one, two] = [await burst({ answersAtOnce: 1 }), await burst({ answersAtOnce: 1, replicas: 2 })]
  expect(two.durationS / one.durationS).toBeCloseTo(0.5, 1)
})

it('prompts and answers have their own prices', async () => {
  const { records } = await burst({ dollarsPerToken: { prompt: 1e-6, output: 4e-6 } })
  for (const { dollars } of records) expect(dollars).toBeCloseTo(50e-6 + 400e-6, 12)
})

it('the framework may take time for each stream of a step', async () => {
  const [fast, slow] = [await burst({}), await burst({ streamMs: 10 })]
  // A hundred steps of six streams.
  expect(slow.durationS - fast.durationS).toBeGreaterThan(5.5)
  expect(slow.durationS - fast.durationS).toBeLessThan(7)
})
