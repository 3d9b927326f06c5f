import { join, relative } from 'node:path'
import { BrimError } from '../../../core/base/errors.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { readManifest } from '../../../core/model/bundle.ts'
import { tokenizerFolder } from '../../../core/model/manifest.ts'
import { loadChatTemplate } from '../../../core/text/chat-template.ts'
import { loadTokenizer } from '../../../core/text/tokenizer.ts'
import { separateCores } from '../../cluster/cores.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { readRateTrace } from '../../cluster/net-trace.ts'
import type { BenchContext, BenchResult } from '../frame/bench.ts'
import { type BenchPrompt, heldOutPrompts, readPrompts } from '../prompts.ts'
import type { Bed, Results } from './bed.ts'
import { summarise } from './figures.ts'
import { jitterOf, maxOthersShare, measureAlone, measureBatch, measureLoaded, measureRtts } from './measure.ts'
import type { Plan } from './plan.ts'
import { openHatReference } from './reference.ts'
import { isExact, type StrategyName, strategies, strategyNames } from './strategies.ts'
import { lengthLimits, workloadOf } from './workload.ts'

export interface HatBenchSettings {
  readonly plan: Plan
  /** A file; absent: the held-out prompts. */
  readonly prompts?: string | undefined
  readonly rttMs: number
  /** A file of rates; absent: random walks. */
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
  const file = prompts ?? relative(process.cwd(), heldOutPrompts.file)
  const dialogues = await readDialogues(file, bundle)
  const random = seededRandom(1)
  const [eos] = tokens.eos
  const workloads = {
    short: workloadOf(dialogues, 'short', plan.prompts, eos, random),
    long: workloadOf(dialogues, 'long', plan.prompts, eos, random),
  }
  const stateBytes = 2 * dims.hidden
  const links = { stateBytes, rttMs, jitterMs: jitterOf(rttMs), recorded }
  const results: Results = { runs: [], answers: [] }
  const cores = separateCores()
  if (!cores) progress('taskset or a second core is missing: processes are not pinned to cores')
  try {
    await using reference = await openHatReference(bundle, io.env.ORT_LIB)
    const headMs = await reference.headMs()
    const bed: Bed = { bundle, plan, links, cores, dialogues, workloads, eos, headMs, io, progress }
    await measureAlone(bed, results)
    await measureLoaded(bed, results)
    await measureRtts(bed, results)
    progress('16 sessions in one step')
    const batch = await measureBatch(bed, modelId, dims.hidden)
    const exact = results.answers.filter(({ strategy }) => isExact(strategy)).flatMap(({ answers }) => answers)
    await reference.check(exact, progress)
    const conditions = {
      model: card.name,
      modelId,
      format: format.name,
      prompts: prompts ?? heldOutPrompts.name,
      plan,
      strategies: Object.fromEntries(strategyNames.map((name) => [name, describe(name)])),
      stateBytes,
      rttMs,
      jitterMs: links.jitterMs,
      rates: netTrace ?? 'random walks',
      mostPromptTokens: lengthLimits.max,
      temperature: 0,
      threads: 1,
      cores: cores ? { bridge: cores.bridge, agentsLinksAndLoad: cores.others } : null,
      busiest: maxOthersShare,
      headMs,
      batch,
    }
    return { conditions, summary: summarise(results.runs, batch), runs: results.runs }
  } catch (error) {
    // After Ctrl-C, every other failure is a consequence of it.
    throw io.signal.aborted ? new BrimError('CANCELED', 'the benchmark was interrupted') : error
  } finally {
    cores?.release()
  }
}

async function readDialogues(file: string, bundle: string): Promise<BenchPrompt[]> {
  const texts = join(bundle, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(texts), loadChatTemplate(texts)])
  // No check: the workloads cut prompts to what the context holds.
  return readPrompts(file, { tokenizer, chatTemplate, check: () => {} })
}

/** The options by which a strategy differs. */
function describe(name: StrategyName): { agent: string; bridge: string } {
  const { agent, bridge } = strategies[name]
  return { agent: agent.join(' '), bridge: bridge('short').join(' ') }
}
