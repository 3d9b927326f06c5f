import { expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'

it('requests go to the replica with the least load', async () => {
  const { engines } = await runScenario(
    Scenario.parse({
      name: 'replicas',
      cloud: { model: 'llama3-8b', gpu: 'a100-80', replicas: 3 },
      workload: { requests: 9, arrivals: { kind: 'burst' }, promptTokens: 100, outputTokens: 10, modes: [{ mode: 'cloud' }] },
    }),
  )
  // Three answers each: their prompts, and all tokens but the last of each.
  expect(engines.map(({ rows }) => rows)).toEqual([327, 327, 327])
})
