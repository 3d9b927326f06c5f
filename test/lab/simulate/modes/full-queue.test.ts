import { expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import type { ModeName } from '../../../../lab/simulate/scenario/mode-name.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'
import type { AnswerRecord } from '../../../../lab/simulate/world/answer-record.ts'

/** A cloud that refuses what it cannot begin soon. */
async function run(mode: ModeName, { seed, maxWaiting, pice }: { seed: number; maxWaiting: number; pice: object }) {
  const records: AnswerRecord[] = []
  const scenario = Scenario.parse({
    name: 'full queue',
    seed,
    cloud: { model: 'llama3-8b', gpu: 'a6000', policy: 'fcfs', stepStreams: 2, maxWaiting },
    devices: [{ name: 'boards', count: 4, board: 'agx-orin-64', link: { up: 5e6, down: 5e6 }, smallModels: ['qwen2.5-1.5b'] }],
    policies: { pice },
    workload: {
      requests: 25,
      arrivals: { kind: 'poisson', perS: 6 },
      promptTokens: 1_000,
      outputTokens: { kind: 'lognormal', median: 200, sigma: 0.4, max: 400 },
      modes: [{ mode }],
    },
  })
  await runScenario(scenario, { onRecord: (record) => records.push(record) })
  return records
}

const given = [1, 2].flatMap((seed) =>
  [
    { sketchS: 60, expansionS: 60 },
    { sketchS: 2, expansionS: 60 },
    { sketchS: 60, expansionS: 1 },
  ].map((pice) => ({ seed, maxWaiting: seed, pice })),
)

it.each(['cloud', 'pice', 'static', 'routing', 'race'] as const)('%s answers or refuses each request once', async (mode) => {
  let refused = 0
  for (const each of given) {
    const records = await run(mode, each)
    expect(records.map(({ id }) => id).sort((a, b) => a - b)).toEqual(Array.from({ length: 25 }, (_, i) => i))
    for (const { refusal, tokens, outputTokens } of records) {
      if (refusal === undefined) expect(tokens).toBe(outputTokens)
      else refused += 1
    }
  }
  // A device goes on where the cloud refuses.
  expect(refused > 0).toBe(mode !== 'race')
})
