import { z } from 'zod'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { defaultDraftLimit } from '../../../core/policy/hat/draft-gain.ts'
import { separateCores } from '../../cluster/cores.ts'
import { readRateTrace } from '../../cluster/net-trace.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { goalsOf, summaryOf } from '../../frame/figures.ts'
import { namesOption, seedsOption, textOption } from '../../frame/options.ts'
import { readDemoModel } from '../demo-model.ts'
import { compareWithOracles, usualCosts } from './draft-oracle.ts'
import { hatFigures } from './figures.ts'
import { forceDrafts } from './forced-drafts.ts'
import {
  jitterOf,
  maxOthersShare,
  measureAlone,
  measureBridge,
  measureBusy,
  measureLoaded,
  measureRounds,
  measureRtts,
  type Results,
  type Setup,
} from './measure.ts'
import { fullPlan, type Plan, quickPlan, restrictedPlan } from './plan.ts'
import { openHatReference } from './reference.ts'
import { hatReport } from './report.ts'
import { type StrategyName, strategies, strategyNames } from './strategies.ts'
import { lengthLimits, promptsOf, workloadOf } from './workload.ts'

const options = {
  prompts: textOption(
    'JSON lines with "prompt" or "messages", which are cut and joined to length',
    "the demonstration's held-out prompts",
  ),
  strategies: namesOption(
    'methods to compare (HAT, its baselines u-… and its ablation: SD drafts, PC has prompts in chunks)',
    strategyNames,
  ),
  rtt: z.number().min(0).default(20).describe('round-trip time of an empty message between device and bridge, in ms'),
  seeds: seedsOption('3, with --quick 1'),
  rate: z
    .number()
    .gt(0)
    .default(1)
    .describe(`request rate, as a multiple of ${fullPlan.loaded.short.perS}/s (short) and ${fullPlan.loaded.long.perS}/s (long)`),
  netTrace: textOption('lines of "seconds Mbit/s" that shape the rates of the links', 'random walks'),
}

export const hatBench: Bench<typeof options> = {
  name: 'hat',
  quickLimit: '20 minutes',
  quickRepetitions: 2,
  options,
  examples: [['brim bench hat --strategies hat,u-shape --rtt 60', 'two strategies, far from the cloud']],
  goals: goalsOf(hatFigures),
  run: (context, given) => benchHat(restrictedPlan(context.quick ? quickPlan : fullPlan, given), given, context),
  report: hatReport,
}

export const command = benchCommand(hatBench)

type Given = z.output<z.ZodObject<typeof options>>

export async function benchHat(
  plan: Plan,
  { prompts, rtt, netTrace }: Pick<Given, 'prompts' | 'rtt' | 'netTrace'>,
  context: BenchContext,
): Promise<BenchResult> {
  const { io, progress } = context
  const recorded = netTrace === undefined ? undefined : await readRateTrace(netTrace)
  const { bundle, manifest, dialogues, conditions: model } = await readDemoModel({ prompts })
  const { modelId, dims, tokens } = manifest
  const random = seededRandom(1)
  const [eos] = tokens.eos
  const workloads = {
    short: workloadOf(dialogues, 'short', plan.prompts, eos, random),
    long: workloadOf(dialogues, 'long', plan.prompts, eos, random),
  }
  const stateBytes = 2 * dims.hidden
  const links = { stateBytes, rttMs: rtt, jitterMs: jitterOf(rtt), recorded }
  const results: Results = { runs: [], answers: [] }
  using cores = separateCores(progress)
  await using reference = await openHatReference(bundle, io.env.ORT_LIB)
  const headMs = await reference.headMs()
  const setup: Setup = { bundle, plan, links, cores, dialogues, workloads, eos, headMs, io, progress }
  await measureAlone(setup, results)
  await measureRounds(setup, results)
  await measureLoaded(setup, results)
  await measureBusy(setup, results)
  await measureRtts(setup, results)
  progress('16 sessions in one step')
  const { batch, cloudTokenMs } = await measureBridge(setup, modelId, dims.hidden)
  await reference.check(results.answers, progress)
  const forced = { bundle, library: io.env.ORT_LIB, ...plan.drafts, length: defaultDraftLimit }
  const asked = promptsOf(dialogues, plan.drafts.prompts, plan.drafts.promptTokens, eos)
  const drafts = compareWithOracles(await forceDrafts(forced, asked, progress), usualCosts(stateBytes))
  const conditions = {
    ...model,
    plan,
    strategies: Object.fromEntries(strategyNames.map((name) => [name, describe(name)])),
    stateBytes,
    rttMs: rtt,
    jitterMs: links.jitterMs,
    rates: netTrace ?? 'random walks',
    mostPromptTokens: lengthLimits.max,
    temperature: 0,
    threads: 1,
    cores: cores ? { bridge: cores.bridge, agentsLinksAndLoad: cores.others } : null,
    busiest: maxOthersShare,
    headMs,
    batch,
    cloudTokenMs,
    drafts,
  }
  return { conditions, summary: summaryOf(hatFigures, { runs: results.runs, batch, drafts }), runs: results.runs }
}

/** The options by which a strategy differs. */
function describe(name: StrategyName): { agent: string; bridge: string } {
  const { agent, bridge } = strategies[name]
  return { agent: agent.join(' '), bridge: bridge('short').join(' ') }
}
