import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { BrimError } from '../../../core/base/errors.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { projectRoot } from '../../../core/base/version.ts'
import { readManifest } from '../../../core/model/bundle.ts'
import { tokenizerFolder } from '../../../core/model/manifest.ts'
import { loadChatTemplate } from '../../../core/text/chat-template.ts'
import { loadTokenizer } from '../../../core/text/tokenizer.ts'
import { separateCores } from '../../cluster/cores.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { readRateTrace } from '../../cluster/net-trace.ts'
import { type Bench, type BenchContext, type BenchResult, benchCommand } from '../frame.ts'
import { type BenchPrompt, readPrompts } from '../prompts.ts'
import { summarise } from './figures.ts'
import { type Bed, busiest, jitterOf, measureAlone, measureBatch, measureLoaded, measureRtts, type Results } from './measure.ts'
import { fullPlan, type Plan, quickPlan } from './plan.ts'
import { openHatReference } from './reference.ts'
import { hatTables, reportHat } from './report.ts'
import { isExact, type StrategyName, strategies, strategyNames } from './strategies.ts'
import { lengthLimits, workloadOf } from './workload.ts'

const heldOut = 'test/fixtures/heldout-prompts.jsonl'

const { short, long } = fullPlan.loaded

const options = {
  prompts: z
    .string()
    .meta({
      description: 'JSON lines with "prompt" or "messages", cut and joined to length',
      fallback: 'held-out prompts of the demonstration',
    })
    .optional(),
  strategies: z
    .string()
    .transform((list) => list.split(','))
    .pipe(z.array(z.enum(strategyNames, `must be a list of ${strategyNames.join(', ')}`)))
    .meta({ description: `only these strategies: ${strategyNames.join(',')}`, fallback: 'all' })
    .optional(),
  rtt: z.number().min(0).default(20).describe('round trip in ms, without the transfer of the bytes'),
  seeds: z.int().min(1).meta({ description: 'number of seeds', fallback: '3; with --quick 1' }).optional(),
  rate: z
    .number()
    .positive()
    .default(1)
    .describe(`requests per second, as a multiple of ${short.perS} (short prompts) and ${long.perS} (long)`),
  netTrace: z
    .string()
    .meta({ description: 'file with lines of "seconds Mbit/s": the rate of the links over time', fallback: 'random walks' })
    .optional(),
}

export const hatBench: Bench<typeof options> = {
  name: 'hat',
  examples: [['brim bench hat --strategies hat,u-shape --rtt 60', 'two strategies, far from the cloud']],
  options,
  quickEnds: 'within 4 minutes',
  reach: {
    ttftOverUShapeLong: { atMost: 0.62 },
    ttftOverUShapeLongLoaded: { atMost: 0.55 },
    ttftOverLimit: { atMost: 1.1 },
    ttftInt8OverUShapeLong: { atMost: 0.4 },
    ttftSecondTurnOverUShape: { atMost: 0.15 },
    tbtTimesAcceptOverUShapeShort: { atMost: 1.15 },
    tbtTimesAcceptOverUShapeLong: { atMost: 1.15 },
    tbtOverUShapeShort: { atMost: 0.5 },
    tbtOverUSarathiShort: { atMost: 0.65 },
    tbtOverUMedusaShort: { atMost: 0.7 },
    acceptLength: { atLeast: 2.2 },
    decodeSpeedup: { atLeast: 1.8 },
    cloudDelayCvOverUShape: { atMost: 0.6 },
    gError: { atMost: 0.15 },
    batch16OverSerial: { atLeast: 2 },
    answersDifferent: { atMost: 0 },
  },
  async run(context, { prompts, strategies: names, rtt, seeds, rate, netTrace }) {
    const plan = planOf(context.quick ? quickPlan : fullPlan, { names, seeds, rate })
    return benchHat({ plan, prompts, rttMs: rtt, netTrace }, context)
  },
  print: hatTables,
  report: reportHat,
}

/** `brim bench hat` */
export const command = benchCommand(hatBench)

interface Restrictions {
  readonly names: readonly StrategyName[] | undefined
  readonly seeds: number | undefined
  readonly rate: number
}

function planOf(plan: Plan, { names, seeds, rate }: Restrictions): Plan {
  const only = (all: readonly StrategyName[]) => all.filter((name) => names?.includes(name) ?? true)
  const { short, long } = plan.loaded
  return {
    ...plan,
    seeds: seeds === undefined ? plan.seeds : Array.from({ length: seeds }, (_, i) => i + 1),
    loaded: {
      short: { ...short, strategies: only(short.strategies), perS: rate * short.perS },
      long: { ...long, strategies: only(long.strategies), perS: rate * long.perS },
    },
    ablation: only(plan.ablation),
    alone: { ...plan.alone, strategies: only(plan.alone.strategies) },
    otherRtts: { ...plan.otherRtts, strategies: only(plan.otherRtts.strategies) },
  }
}

export interface HatBenchSettings {
  readonly plan: Plan
  /** A file of them; absent: the held-out prompts. */
  readonly prompts?: string | undefined
  readonly rttMs: number
  /** A file. */
  readonly netTrace?: string | undefined
}

export async function benchHat(
  { plan, prompts, rttMs, netTrace }: HatBenchSettings,
  context: BenchContext,
): Promise<BenchResult> {
  const { io, progress } = context
  const recorded = netTrace === undefined ? undefined : await readRateTrace(netTrace)
  const bundle = await ensureDemoBundle()
  const { card, modelId, format, dims, tokens } = await readManifest(bundle)
  const file = prompts ?? relative(process.cwd(), fileURLToPath(new URL(heldOut, projectRoot)))
  const dialogues = await readDialogues(file, bundle)
  const random = seededRandom(1)
  const [eos] = tokens.eos
  const workloads = {
    short: workloadOf(dialogues, 'short', plan.prompts, eos, random),
    long: workloadOf(dialogues, 'long', plan.prompts, eos, random),
  }
  const stateBytes = 2 * dims.hidden
  const links = { stateBytes, rttMs, jitterMs: jitterOf(rttMs), recorded }
  const results: Results = { runs: [], taken: [] }
  const cores = separateCores()
  if (!cores) progress('without taskset or a second core: processes share whatever cores there are')
  try {
    await using reference = await openHatReference(bundle, io.env.ORT_LIB)
    const headMs = await reference.headMs()
    const bed: Bed = { bundle, plan, links, cores, dialogues, workloads, eos, headMs, io, progress }
    await measureAlone(bed, results)
    await measureLoaded(bed, results)
    await measureRtts(bed, results)
    progress('many sessions in one step')
    const batch = await measureBatch(bed, modelId, dims.hidden)
    const exact = results.taken.filter(({ strategy }) => isExact(strategy)).flatMap(({ taken }) => taken)
    await reference.check(exact, progress)
    const conditions = {
      model: card.name,
      modelId,
      format: format.name,
      prompts: prompts ?? heldOut,
      plan,
      strategies: Object.fromEntries(strategyNames.map((name) => [name, describe(name)])),
      stateBytes,
      rttMs,
      jitterMs: links.jitterMs,
      rates: netTrace ?? 'random walks',
      mostPromptTokens: lengthLimits.most,
      temperature: 0,
      threads: 1,
      cores: cores ? { bridge: cores.bridge, agentsLinksAndLoad: cores.others } : null,
      busiest,
      headMs,
      batch,
    }
    return { conditions, summary: summarise(results.runs, batch), runs: results.runs }
  } catch (error) {
    // Whatever broke off in the middle of a Ctrl-C did so because of it.
    throw io.signal.aborted ? new BrimError('CANCELED', 'the benchmark was interrupted') : error
  } finally {
    cores?.release()
  }
}

async function readDialogues(file: string, bundle: string): Promise<BenchPrompt[]> {
  const texts = join(bundle, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(texts), loadChatTemplate(texts)])
  // They are cut to what can be answered.
  return readPrompts(file, { tokenizer, chatTemplate, check: () => {} })
}

/** The flags by which a strategy differs. */
function describe(name: StrategyName): { agent: string; bridge: string } {
  const { agent, bridge } = strategies[name]
  return { agent: agent.join(' '), bridge: bridge('short').join(' ') }
}
