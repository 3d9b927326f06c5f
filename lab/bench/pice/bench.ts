import { setMaxListeners } from 'node:events'
import { loadPicePrompts } from '../../../core/answer/sketch/load-prompts.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand, eitherCommand } from '../../frame/command.ts'
import { goalsOf, summaryOf } from '../../frame/figures.ts'
import { namesOption, seedsOption } from '../../frame/options.ts'
import { readDemoModel } from '../demo-model.ts'
import { piceFigures } from './figures.ts'
import { measureRuns } from './measure.ts'
import { methodNames } from './methods.ts'
import { pairBench } from './pair-bench.ts'
import { fullPlan, type Plan, quickPlan, restrictedPlan } from './plan.ts'
import { openJudge } from './quality.ts'
import { piceReport } from './report.ts'
import type { Setup } from './setup.ts'
import { longPrompts } from './workload.ts'

const options = { methods: namesOption('methods to compare', methodNames), seeds: seedsOption('1') }

export const piceBench: Bench<typeof options> = {
  name: 'pice',
  quickLimit: '8 minutes',
  quickRepetitions: 1,
  options,
  examples: [['brim bench pice --methods cloud-only,PICE --seeds 3', 'two methods, three times']],
  goals: goalsOf(piceFigures),
  run: (context, given) => benchPice(restrictedPlan(context.quick ? quickPlan : fullPlan, given), context),
  report: piceReport,
}

export const command = eitherCommand(benchCommand(piceBench), { pair: benchCommand(pairBench) })

export async function benchPice(plan: Plan, { io, progress }: BenchContext): Promise<BenchResult> {
  // Each request that is under way listens to it.
  setMaxListeners(0, io.signal)
  const smallModels = [await ensureDemoBundle('slm-deep')]
  const { bundle, dialogues, conditions: model } = await readDemoModel()
  const prompts = longPrompts(dialogues, plan.prompts)
  await using judge = await openJudge(bundle, io.env.ORT_LIB)
  const picePrompts = await loadPicePrompts(bundle)
  const setup: Setup = { bundle, smallModels, picePrompts, plan, prompts, judge, io, progress }
  const { runs, machine, capacity, devices, silent, rubbish, answers } = await measureRuns(setup)
  const conditions = {
    ...model,
    smallModels: await Promise.all(smallModels.map(async (folder) => (await readManifest(folder)).card.name)),
    tasks: [...new Set(prompts.map(({ task }) => task))],
    plan,
    machine,
    capacity,
    devices,
    silent,
    rubbish,
    answers,
  }
  return { conditions, summary: summaryOf(piceFigures, { runs, devices, silent, rubbish }), runs }
}
