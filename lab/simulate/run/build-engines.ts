import { BrimError } from '../../../core/kit/base/errors.ts'
import { smallRows } from '../../../core/policy/serving/step-defaults.ts'
import { createServingPolicy } from '../../baselines/serving-policies.ts'
import { headOf, layersOf, wholeModel } from '../hardware/model-shape.ts'
import { gpuNamed, modelNamed } from '../hardware/presets/presets.ts'
import { reaching, together } from '../hardware/roofline.ts'
import type { Simulation } from '../kernel/simulation.ts'
import type { Cloud, Policies } from '../scenario/scenario.ts'
import { pagedKv } from '../serving/kv-size.ts'
import { SimulatedEngine } from '../serving/simulated-engine.ts'
import { stepCost } from '../serving/step-cost.ts'
import type { ScenarioData } from './scenario-data.ts'

/** Positions of a page of KV, and what a device's stream is charged before its first row. */
const pagePositions = 16

/** The replicas of a scenario's cloud. @throws BrimError USAGE, REQUEST_INVALID where the model does not fit */
export function buildEngines(
  cloud: Cloud,
  { tokenflow, hat }: Policies,
  simulation: Simulation,
  { machines }: Pick<ScenarioData, 'machines'>,
): readonly SimulatedEngine[] {
  const { pipeline, inputLayers, memoryShare } = cloud
  const gpu = reaching(machines.get(cloud.gpu)?.hardware ?? gpuNamed(cloud.gpu), cloud.reaches)
  const shape = modelNamed(cloud.model)
  // Each stage has GPUs of its own.
  const hardware = together(gpu, cloud.gpus)
  const whole = wholeModel(shape)
  const ends = (shape.tiesEmbedding ? 1 : 2) * headOf(shape).weightBytes
  const totalBytes = memoryShare * pipeline * hardware.memoryBytes
  const memoryBytes = totalBytes - whole.weightBytes - ends
  if (memoryBytes <= 0)
    throw new BrimError('REQUEST_INVALID', `${shape.name} does not fit into ${pipeline} × ${hardware.name}: cloud.gpus`, {
      hint: `its weights take ${Math.ceil((whole.weightBytes + ends) / 1e9)} GB of ${Math.floor(totalBytes / 1e9)} GB; give it more GPUs`,
    })
  const maxDecodeRows = smallRows(hat.draftLimit)
  const computeS = stepCost(hardware, shape, { inputLayers, pipeline })
  return Array.from(
    { length: cloud.replicas },
    (_, replica) =>
      new SimulatedEngine(
        simulation,
        {
          ...cloud,
          policy: createServingPolicy(cloud.policy, {
            promptRows: cloud.promptRows,
            minPromptRows: maxDecodeRows,
            reserves: cloud.reserves,
            tokenflow,
          }),
          stepS: (step) =>
            computeS(step) + (cloud.planMs + (step.answers.streams + step.devices.streams) * cloud.streamMs) / 1_000,
          answerKv: pagedKv(whole.kvBytesPerPosition, pagePositions),
          deviceKv: pagedKv(layersOf(shape, inputLayers, shape.layers).kvBytesPerPosition, pagePositions),
          firstPositions: pagePositions,
          memoryBytes,
          transferBytesPerS: cloud.transferBytesPerS ?? hardware.hostBytesPerS,
          step: { rows: cloud.stepRows, streams: cloud.stepStreams },
          maxDecodeRows,
          maxMemoryWaitMs: cloud.memoryWaitS === 'unlimited' ? undefined : 1_000 * cloud.memoryWaitS,
        },
        `engine ${replica}`,
      ),
  )
}
