import { kvBlockPositions } from '../../../core/model/engine/sequence.ts'
import { separateCores } from '../../cluster/cores.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { goalsOf, summaryOf } from '../../frame/figures.ts'
import { namesOption, seedsOption } from '../../frame/options.ts'
import { readDemoModel } from '../demo-model.ts'
import { flowFigures } from './figures.ts'
import { measureCosts, measureRuns, overcommitment, type Setup } from './measure.ts'
import { fullPlan, type Plan, quickPlan, restrictedPlan } from './plan.ts'
import { tokenFlowReport } from './report.ts'
import { measureRestarts } from './restart.ts'
import { workloadNames } from './workload.ts'

const options = { workloads: namesOption('workloads', workloadNames), seeds: seedsOption('3, with --quick 1') }

export const tokenFlowBench: Bench<typeof options> = {
  name: 'tokenflow',
  quickLimit: '8 minutes',
  options,
  examples: [['brim bench tokenflow --workloads "burst 60 SL" --seeds 1', 'one workload']],
  goals: goalsOf(flowFigures),
  run: (context, given) => benchTokenFlow(restrictedPlan(context.quick ? quickPlan : fullPlan, given), context),
  report: tokenFlowReport,
}

export const command = benchCommand(tokenFlowBench)

export async function benchTokenFlow(plan: Plan, { io, progress }: BenchContext): Promise<BenchResult> {
  const { bundle, manifest, dialogues, conditions: model } = await readDemoModel()
  const { dims, tokens } = manifest
  using cores = separateCores(progress)
  const bytesPerPosition = 2 * dims.layers * dims.kvHeads * dims.headDim * 4
  const kv = { bytesPerPosition, contextLimit: dims.contextLimit, blockPositions: kvBlockPositions, firstPositions: 0 }
  const setup: Setup = { bundle, plan, dialogues, eos: tokens.eos[0], kv, cores, io, progress }
  const costs = await measureCosts(setup)
  const restarts = await measureRestarts(setup)
  const runs = await measureRuns(setup)
  const conditions = {
    ...model,
    plan,
    overcommitment,
    cores: cores ? { bridge: cores.bridge, readers: cores.others } : null,
    costs,
    restarts,
  }
  return { conditions, summary: summaryOf(flowFigures, { runs, costs, restarts }), runs }
}
