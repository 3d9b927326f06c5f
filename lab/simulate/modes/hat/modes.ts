import { int4BytesPerWeight } from '../../../../core/model/bundle/int4.ts'
import type { HatSettings } from '../../scenario/hat-settings.ts'
import type { ModeName } from '../../scenario/mode-name.ts'
import type { Mode } from '../../world/mode.ts'
import { leastLoaded, type World } from '../../world/world.ts'
import { devicePartsOf } from './device-parts.ts'
import { calibratedProcess, medusaProcess } from './draft-process.ts'
import { answerBySplit, type HatAnswerOptions, type SplitAnswer } from './hat-answer.ts'
import { HatDevice } from './hat-device.ts'
import { SimulatedSession } from './simulated-session.ts'

/** Most rows of a frame. */
const wholeTokens = 2_048

/** By which modes differ. */
interface Variant {
  readonly prefill: HatAnswerOptions['prefill']
  readonly drafter: 'chain' | 'medusa' | 'none'
  readonly reuse: boolean
}
type SplitMode = Extract<ModeName, 'hat' | `u-${string}`>

function variantOf(name: SplitMode, { chunks, drafts, reuse }: HatSettings): Variant {
  switch (name) {
    case 'hat':
      return { prefill: chunks ? 'chunked' : 'whole-all', drafter: drafts ? 'chain' : 'none', reuse }
    case 'u-medusa':
      return { prefill: 'whole-all', drafter: 'medusa', reuse: false }
    case 'u-shape-lean':
      return { prefill: 'whole', drafter: 'none', reuse: false }
    case 'u-shape':
    case 'u-sarathi':
      return { prefill: 'whole-all', drafter: 'none', reuse: false }
  }
}

/** Answers by the split model: HAT, and the baselines that it is compared with. U-Sarathi cuts prompts in the cloud's steps. */
export function splitMode(world: World, name: SplitMode): Mode {
  const start = splitAnswers(world, name)
  return {
    begin(answer) {
      if (answer.request.device === undefined) answer.end('no device')
      else start(answer.request.device, answer)
    },
  }
}

/** @returns begins an answer of a device; what that returns stops it: nothing more is called */
export function splitAnswers(world: World, name: SplitMode): (device: number, answer: SplitAnswer) => () => void {
  const { simulation, scenario, model } = world
  if (!model || !scenario.cloud) throw new RangeError(`the mode ${name} needs a cloud`)
  const { stepRows, pipeline, pipelinedPrompts, inputLayers } = scenario.cloud
  const settings = scenario.policies.hat
  const variant = variantOf(name, settings)
  const deviceModel = settings.deviceWeights === 'int4' ? { ...model, bytesPerWeight: int4BytesPerWeight } : model
  const parts = devicePartsOf(deviceModel, inputLayers)
  const processes = {
    chain: calibratedProcess(settings.acceptLength),
    medusa: medusaProcess(settings.medusaAcceptLength),
    none: undefined,
  }
  const random = simulation.random(`drafts of ${name}`)
  const devices = new Map<number, HatDevice>()
  // Only HAT limits what a frame holds: the others send prompts whole, as far as a step holds them.
  const maxChunkTokens = variant.prefill === 'chunked' ? Math.min(settings.maxChunkTokens, stepRows) : wholeTokens
  const minChunkTokens = Math.min(settings.minChunkTokens, maxChunkTokens)

  function deviceOf(index: number): HatDevice {
    const known = devices.get(index) ?? new HatDevice(world.devices[index]!)
    devices.set(index, known)
    return known
  }

  return (index, answer) => {
    const { request, reader, work } = answer
    const device = deviceOf(index)
    const { processor, energy } = device.device
    let isStopped = false
    const compute = (seconds: number, done: () => void) => {
      if (isStopped) return
      work.joules += energy.compute(seconds)
      processor.run(seconds, () => {
        if (!isStopped) done()
      })
    }
    const engine = leastLoaded(world)
    // The last token of the prompt is computed always: the answer follows from it.
    const held = variant.reuse ? Math.min(request.sharedTokens, request.promptTokens - 1) : 0
    const session = new SimulatedSession({
      simulation,
      device,
      held,
      openSession: () => engine.session(reader, held),
      refused() {
        if (isStopped) return
        isStopped = true
        answer.end('memory')
      },
      chunks: {
        monitor: engine.monitor,
        limits: { minTokens: minChunkTokens, maxTokens: maxChunkTokens },
        pipeline: pipelinedPrompts ? pipeline : 1,
        initialTokens: Math.min(settings.chunkTokens, maxChunkTokens),
      },
      frameTokens: maxChunkTokens,
      draftLimit: settings.draftLimit,
      width: model!.hidden,
      wire: settings.wire,
      transferred: (seconds) => {
        work.joules += energy.radio(seconds)
      },
    })
    answerBySplit(answer, {
      simulation,
      device,
      parts,
      session,
      settings,
      prefill: variant.prefill,
      drafts: processes[variant.drafter],
      random,
      compute,
    })
    return () => {
      if (isStopped) return
      isStopped = true
      session.close()
    }
  }
}
