import { expect, it } from 'vitest'
import { readDemoModel } from '../../lab/bench/demo-model.ts'
import { quickPlan } from '../../lab/bench/pice/plan.ts'
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
