import { expect, it } from 'vitest'
import { readDemoModel } from '../../lab/bench/demo-model.ts'
import { quickPlan } from '../../lab/bench/pice/plan.ts'
import { measureRubbish } from '../../lab/bench/pice/rubbish-device.ts'
import { measureSilentDevice, overAlone } from '../../lab/bench/pice/silent-device.ts'
import { longPrompts } from '../../lab/bench/pice/workload.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { captureIo } from '../support/captured-io.ts'

it('a device that hangs in the middle of a sketch does not make the answer later than the LLM alone', {
  timeout: 180_000,
}, async () => {
  const smallModels = [await ensureDemoBundle('slm-deep')]
  const { bundle, dialogues } = await readDemoModel()
  const prompts = longPrompts(dialogues, quickPlan.prompts)
  const runs = await measureSilentDevice({ bundle, smallModels, prompts, plan: quickPlan, io: captureIo().io }, 2)
  for (const { device } of runs) expect(device).not.toBeNull()
  // Goal of the bench: 1.1. Here other processes use the same cores; where nothing replaces the device, it is 3 and more.
  expect(Math.min(...runs.map(overAlone))).toBeLessThanOrEqual(1.3)
  expect(Math.max(...runs.map(overAlone))).toBeLessThanOrEqual(2)
})

it('no answer has a sentence of a device that writes rubbish, and it rests after its first jobs', {
  timeout: 180_000,
}, async () => {
  const smallModels = [await ensureDemoBundle('slm-deep')]
  const { bundle, dialogues } = await readDemoModel()
  const prompts = longPrompts(dialogues, quickPlan.prompts)
  const run = await measureRubbish({ bundle, smallModels, prompts, plan: quickPlan, io: captureIo().io }, 5)
  expect(run).toMatchObject({ answers: 5, served: 0 })
  expect(run.jobs).toBeGreaterThan(0)
  expect(run.jobs).toBeLessThan(4)
})
