import { expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

/** Answers of 400 tokens, one after the other, by static scheduling. */
async function run(pice: object, requests = 30) {
  const records: AnswerRecord[] = []
  const scenario = Scenario.parse({
    name: 'lengths',
    cloud: { model: 'llama3-8b', gpu: 'a100-80' },
    devices: [{ name: 'boards', count: 2, board: 'agx-orin-64', link: { up: 5e6, down: 5e6 }, smallModels: ['qwen2.5-1.5b'] }],
    policies: { pice: { foresightError: 0, sketchShares: [0.5], ...pice } },
    workload: {
      requests,
      arrivals: { kind: 'poisson', perS: 0.05 },
      promptTokens: 50,
      outputTokens: 400,
      modes: [{ mode: 'static', groups: [] }],
    },
  })
  await runScenario(scenario, { onRecord: (record) => records.push(record) })
  return records
}

it('sketches miss the length that they were asked for on both sides', async () => {
  const lengths = (await run({ sketchMissTokens: 20 })).map(({ sketchTokens }) => sketchTokens)
  expect(Math.min(...lengths)).toBeGreaterThanOrEqual(180)
  expect(Math.min(...lengths)).toBeLessThan(195)
  expect(Math.max(...lengths)).toBeGreaterThan(205)
  expect(Math.max(...lengths)).toBeLessThanOrEqual(220)
})

it('a sketch of one line is no help: the answer is written in full', async () => {
  for (const { sketchTokens, deviceOutputTokens, serverOutputTokens } of await run(
    { begins: false, tokensPerSentence: 1_000 },
    5,
  )) {
    expect(sketchTokens).toBeGreaterThan(0)
    expect([deviceOutputTokens, serverOutputTokens]).toEqual([0, 3 + sketchTokens + 400])
  }
})

it('answers in full show by how much lengths are foreseen too short', async () => {
  const records = await run({ foresightBias: 0.5, minTokens: 300 })
  const isSketched = records.map(({ sketchTokens }) => sketchTokens > 0)
  // Of 400 tokens 200 are foreseen, until that is known.
  expect(isSketched[0]).toBe(false)
  expect(isSketched.at(-1)).toBe(true)
})
