import { z } from 'zod'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { firstCapacity } from '../../../core/model/engine/sequence.ts'
import { separateCores } from '../../cluster/cores.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { heldOutPrompts, readPrompts } from '../prompts.ts'
import { summarise } from './figures.ts'
import { measureCosts, measureRuns, overcommitment, type Setup } from './measure.ts'
import { fullPlan, type Plan, quickPlan, restrictedPlan } from './plan.ts'
import { tokenFlowReport } from './report.ts'
import { workloadNames } from './workload.ts'

const options = {
  workloads: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(z.enum(workloadNames, `must be a list of ${workloadNames.join(', ')}`)))
    .meta({ description: `workloads, separated by commas: ${workloadNames.join(',')}`, fallback: 'all' })
    .optional(),
  seeds: z.int().min(1).meta({ description: 'number of seeds', fallback: '3, with --quick 1' }).optional(),
}

export const tokenFlowBench: Bench<typeof options> = {
  name: 'tokenflow',
  quickLimit: '8 minutes',
  options,
  examples: [['brim bench tokenflow --workloads "burst 60 SL" --seeds 1', 'one workload']],
  goals: {
    p99TtftOverFcfs: { max: 0.25 },
    meanTtftOverFcfs: { max: 0.5 },
    effectiveOverFcfs: { min: 1.6 },
    rawOverFcfs: { min: 0.97 },
    effectiveOverAndes: { min: 1.2 },
    rawOverAndes: { min: 1.05 },
    meanTtftOverDefaultMatched: { max: 1 },
    p99TtftOverDefaultMatched: { max: 1 },
    stalledOverDefaultMatched: { max: 1 },
    stalledOverFcfsMatched: { max: 1.5 },
    meanTtftOverDefaultOverload: { max: 1 },
    p99TtftOverDefaultOverload: { max: 1 },
    stalledOverDefaultOverload: { max: 1 },
    stalledOverFcfsOverload: { max: 1.5 },
    stepLoopOverhead: { max: 0.05 },
    writeThroughCost: { max: 0.03 },
    failedRequests: { max: 0 },
  },
  run: (context, { workloads, seeds }) =>
    benchTokenFlow(restrictedPlan(context.quick ? quickPlan : fullPlan, { workloads, seeds }), context),
  report: tokenFlowReport,
}

/** `brim bench tokenflow` */
export const command = benchCommand(tokenFlowBench)

export async function benchTokenFlow(plan: Plan, { io, progress }: BenchContext): Promise<BenchResult> {
  const bundle = await ensureDemoBundle()
  const manifest = await readManifest(bundle)
  const { card, modelId, format, dims, tokens } = manifest
  const dialogues = await readPrompts(heldOutPrompts.file, { ...(await loadTextModel(bundle, manifest)), check: () => {} })
  const cores = separateCores()
  if (!cores) progress('taskset or a second core is missing: processes are not pinned to cores')
  try {
    const bytesPerPosition = 2 * dims.layers * dims.kvHeads * dims.headDim * 4
    const kv = { bytesPerPosition, contextLimit: dims.contextLimit, firstCapacity, firstPositions: 0 }
    const setup: Setup = { bundle, plan, dialogues, eos: tokens.eos[0], kv, cores, io, progress }
    const costs = await measureCosts(setup)
    const runs = await measureRuns(setup)
    const conditions = {
      model: card.name,
      modelId,
      format: format.name,
      prompts: heldOutPrompts.name,
      plan,
      overcommitment,
      cores: cores ? { bridge: cores.bridge, readers: cores.others } : null,
      costs,
    }
    return { conditions, summary: summarise(runs, costs), runs }
  } catch (error) {
    // After Ctrl-C, every other failure is a consequence of it.
    throw io.signal.aborted ? new BrimError('CANCELED', 'the benchmark was interrupted') : error
  } finally {
    cores?.release()
  }
}
