import { z } from 'zod'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench, BenchContext, BenchDocument, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { goalsOf, summaryOf } from '../../frame/figures.ts'
import { textOption } from '../../frame/options.ts'
import { readDocument } from '../../frame/results.ts'
import { defaultDataFolder } from '../../simulate/run/data-folder.ts'
import { readDemoModel } from '../demo-model.ts'
import { readReplayData } from './data.ts'
import { discoFigures, liveRatios, traceFigures } from './figures.ts'
import { liveTrace, measureLive } from './live.ts'
import { measureOverWire } from './over-wire.ts'
import { fullPlan, type Plan, quickPlan } from './plan.ts'
import { replayAll } from './replay-all.ts'
import { discoReport } from './report.ts'
import type { CostRun, TtftRun } from './runs.ts'
import { costRuns, ttftRuns } from './tables.ts'
import { wireFigures } from './wire.ts'

const options = {
  data: textOption('folder with llmperf-api-latency, alpaca-demo and azure-llm-2023', '../shared/data, beside the checkout'),
  seeds: z
    .int()
    .min(1)
    .max(1_000)
    .optional()
    .meta({ description: 'number of seeds', fallback: `${fullPlan.seeds}, with --quick ${quickPlan.seeds}` }),
  replayFrom: textOption(
    'document of --out whose replay is taken over, as no machine changes it: only the live run is measured again',
    'none',
  ),
}

export const discoBench: Bench<typeof options> = {
  name: 'disco',
  quickLimit: '6 minutes',
  quickRepetitions: 2,
  options,
  examples: [['brim bench disco --data traces --seeds 20', 'other copies of the data, more seeds']],
  goals: goalsOf(discoFigures),
  async run(context, { data = defaultDataFolder(), seeds, replayFrom }) {
    const plan = context.quick ? quickPlan : fullPlan
    const earlier = replayFrom === undefined ? undefined : await readDocument(replayFrom, discoBench)
    return benchDisco(seeds === undefined ? plan : { ...plan, seeds }, data, context, earlier)
  },
  report: discoReport,
}

export const command = benchCommand(discoBench)

/** @param folder of the data @param earlier whose replay is taken over */
export async function benchDisco(
  given: Plan,
  folder: string,
  context: BenchContext,
  earlier?: BenchDocument,
): Promise<BenchResult> {
  const plan = earlier ? { ...(earlier.conditions.plan as Plan), liveRequests: given.liveRequests } : given
  const { traces, shapes, instructions } = await readReplayData(folder, plan.traces)
  const { bundle, text, dialogues } = await readDemoModel()
  const smallModel = await ensureDemoBundle('slm-wide')
  const measuring = async () => {
    const trace = traces.find(({ name }) => name === liveTrace)!
    const { liveRequests: requests } = plan
    return measureLive({ bundle, smallModel, dialogues, trace, shapes: shapes.alpaca, requests, ...context })
  }
  const live = plan.liveRequests === 0 ? [] : await measuring()
  for (const { method, ratios } of liveRatios(live)) {
    const { ttftMs, tookMs, dollars } = ratios
    context.progress(
      `live over replay, ${method}: TTFT ${ttftMs.toFixed(3)}, whole ${tookMs.toFixed(3)}, cost ${dollars.toFixed(3)}`,
    )
  }
  const replayed = earlier
    ? [...ttftRuns(earlier), ...costRuns(earlier)]
    : await replayAll({ plan, data: { traces, shapes } }, context)
  const inputs = {
    traces: traces.map(traceFigures),
    ttft: replayed.filter((run): run is TtftRun => run.measured === 'ttft'),
    cost: replayed.filter((run): run is CostRun => run.measured === 'cost'),
    live,
    wire: await measureOverWire({
      bundle,
      smallModel,
      tokenizer: text.tokenizer,
      instructions,
      share: plan.wireShare,
      ...context,
    }),
  }
  const replayCommit = earlier?.conditions.replayCommit ?? earlier?.conditions.commit
  const conditions = {
    plan,
    ...(earlier && { replayCommit }),
    traces: inputs.traces,
    wire: wireFigures(instructions, text.tokenizer),
  }
  return { conditions, summary: summaryOf(discoFigures, inputs), runs: [...live, ...inputs.wire, ...replayed] }
}
