import { beforeAll, expect, it } from 'vitest'
import { readDemoModel } from '../../lab/bench/demo-model.ts'
import { measureBadDevices } from '../../lab/bench/pice/measure.ts'
import { quickPlan } from '../../lab/bench/pice/plan.ts'
import { overAlone } from '../../lab/bench/pice/silent-device.ts'
import { longPrompts } from '../../lab/bench/pice/workload.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { captureIo } from '../support/captured-io.ts'

let measured: Awaited<ReturnType<typeof measureBadDevices>>
beforeAll(async () => {
  const smallModels = [await ensureDemoBundle('slm-deep')]
  const { bundle, dialogues } = await readDemoModel()
  const plan = { ...quickPlan, warmAnswers: 4, silentRequests: 2, rubbishRequests: 5 }
  const prompts = longPrompts(dialogues, plan.prompts)
  const { io } = captureIo()
  measured = await measureBadDevices({ bundle, smallModels, prompts, plan, io, progress() {} })
}, 180_000)

it('a device that hangs in the middle of a sketch does not make the answer later than the LLM alone', () => {
  const { silent } = measured
  for (const { device } of silent) expect(device).not.toBeNull()
  // The bench measures it: goal 1.1. Here other processes use the same cores; where nothing replaces the device, it is 3 and more.
  expect(Math.max(...silent.map(overAlone))).toBeLessThan(2.5)
})

it('no answer has a sentence of a device that writes rubbish, and it rests after its first jobs', () => {
  const { rubbish } = measured
  expect(rubbish).toMatchObject({ answers: 5, served: 0 })
  expect(rubbish.jobs).toBeGreaterThan(0)
  expect(rubbish.jobs).toBeLessThan(4)
})
