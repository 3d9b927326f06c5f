import { expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { type ModeName, modeNames } from '../../../../lab/simulate/scenario/mode-name.ts'
import { Scenario } from '../../../../lab/simulate/scenario/scenario.ts'

const run = (mode: ModeName, powerModes: readonly number[], isClient = false) =>
  runScenario(
    Scenario.parse({
      name: 'energy',
      cloud: { model: 'llama3-8b', gpu: 'a6000', answersAtOnce: 4 },
      devices: [
        {
          name: 'boards',
          count: 3,
          board: 'agx-orin-64',
          powerModes,
          link: { up: 5e6, down: 5e6, lossPercent: 1 },
          smallModels: ['qwen2.5-1.5b'],
        },
      ],
      workload: {
        requests: 12,
        arrivals: { kind: 'poisson', perS: 1 },
        promptTokens: 60,
        outputTokens: { kind: 'lognormal', median: 200, sigma: 0.4, max: 400 },
        modes: [{ mode, ...(isClient && { groups: [] }) }],
      },
    }),
  )

it.each(modeNames)('%s: devices spend what answers cost, and no more for the same work at half the speed', async (mode) => {
  const [fast, slow] = [await run(mode, [1]), await run(mode, [0.5])]
  for (const { all, devices } of [fast, slow]) {
    expect(all.answered).toBe(12)
    const charged = all.work.joules / (3 * devices.boards!.joules)
    // Of a sketch that the LLM completes, steps that a device has computed for nothing are charged to no answer.
    if (mode !== 'static') expect(charged).toBeCloseTo(1, 2)
    else expect(charged).toBeGreaterThan(0.9)
    expect(charged).toBeLessThan(1.005)
  }
  if (mode === 'local') expect(slow.all.work.joules / fast.all.work.joules).toBeCloseTo(1, 2)
})

it('includes the radio of devices that answer clients of the cloud', async () => {
  const { all, devices } = await run('local', [1], true)
  expect(all.work.joules).toBeCloseTo(3 * devices.boards!.joules, 6)
})
