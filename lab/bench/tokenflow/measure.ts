import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { type KvLimits, kvCharge } from '../../../core/policy/admission/kv.ts'
import type { LoggedStep } from '../../../core/wire/protocol/http/bridge.ts'
import type { Cores } from '../../cluster/cores.ts'
import { cpuSeconds, cpuUseFromNow } from '../../cluster/cpu-times.ts'
import { stepsFromNow } from '../../cluster/logged-steps.ts'
import { medianOrNull, sum } from '../../frame/statistics.ts'
import { toDigits } from '../../frame/tables.ts'
import { promptOfLength } from '../hat/workload.ts'
import { type FlowCluster, startFlowCluster } from './cluster.ts'
import { figuresOf } from './figures.ts'
import type { Plan } from './plan.ts'
import { askAll, type FlowPrompt } from './readers.ts'
import type { FlowRun, Measured, SaturatedFigures, TierCosts } from './runs.ts'
import type { ServerName } from './servers.ts'
import { type FlowRequest, requestsOf, type Workload, type WorkloadName, workloads } from './workload.ts'

/** The inputs that all measurements share. */
export interface Setup {
  readonly bundle: string
  readonly plan: Plan
  readonly dialogues: readonly FilePrompt[]
  readonly eos: number | undefined
  readonly kv: KvLimits
  readonly cores: Cores | undefined
  readonly io: Io
  progress(line: string): void
}

/** KV of all requests of a workload, over the fast tier. */
export const overcommitment = 4
/** Tokens of a prompt, and tokens per second of a reader, where neither matters. */
const anyPrompt = 64
const anyRate = 5

/** Every server in turn, workload by workload, seed by seed. */
export async function measureRuns(setup: Setup): Promise<FlowRun[]> {
  const { plan } = setup
  const runs: FlowRun[] = []
  for (const [nth, seed] of plan.seeds.entries()) {
    const saturatedTokensPerS = await measureSaturated(setup)
    setup.progress(`seed ${seed}: a saturated bridge generates ${saturatedTokensPerS.toFixed(0)} tokens/s`)
    const inTurn = async (measured: Measured, workload: WorkloadName, servers: readonly ServerName[]) => {
      for (let i = 0; i < servers.length; i++) {
        const server = servers[(i + seed) % servers.length]!
        runs.push(await runOnce(setup, { measured, server, workload, seed, saturatedTokensPerS }))
      }
    }
    for (const workload of plan.compared) {
      await inTurn('compared', workload, plan.servers)
      if (workload === plan.ablation.workload && nth < plan.ablation.seeds)
        await inTurn('ablation', workload, plan.ablation.servers)
    }
    if (nth > 0) continue
    for (const workload of plan.rates) await inTurn('rates', workload, plan.rateServers)
    for (const workload of plan.crowds) await inTurn('crowds', workload, plan.crowdServers)
  }
  return runs
}

type RunOf = Pick<FlowRun, 'measured' | 'server' | 'workload' | 'seed' | 'saturatedTokensPerS'>

async function runOnce(setup: Setup, run: RunOf): Promise<FlowRun> {
  const { measured, server, seed, saturatedTokensPerS } = run
  const { bundle, plan, kv, cores, io } = setup
  const workload = sharedWorkload(workloads[run.workload], plan.share)
  const requests = requestsOf(workload, saturatedTokensPerS, seededRandom(seed))
  const bytes = requests.map(({ promptTokens, answerTokens }) => kvCharge(promptTokens + answerTokens, kv))
  const fastBytes = Math.ceil(Math.max(sum(bytes) / overcommitment, 2 * Math.max(...bytes)))
  await using cluster = await startFlowCluster({ bundle, server, fastBytes, cores, io })
  await warmUp(cluster, setup)
  const used = cpuUseFromNow({ bridgeCore: cluster.cpuS, readersCore: () => cpuSeconds([process.pid]) })
  const samples = await askAll(cluster.httpUrl, withPrompts(requests, setup), io.signal)
  const complete: FlowRun = { ...run, fastBytes, overcommitment: sum(bytes) / fastBytes, ...used(), samples }
  const { ttftMeanMs, ttftP99Ms, rawTokensPerS, effectiveTokensPerS } = figuresOf(complete)
  const written = (value: number | null) => toDigits(value, 0)
  setup.progress(
    `${measured}, ${run.workload}, seed ${seed}, ${server}: TTFT ${written(ttftMeanMs)} ms, p99 ${written(ttftP99Ms)} ms; ` +
      `${written(rawTokensPerS)} tokens/s, effective ${written(effectiveTokensPerS)}`,
  )
  return complete
}

const sharedWorkload = (workload: Workload, share: number): Workload => ({
  ...workload,
  requests: Math.round(share * workload.requests),
})

function withPrompts(requests: readonly FlowRequest[], { dialogues, eos }: Setup): FlowPrompt[] {
  return requests.map((request, nth) => {
    const { ids } = promptOfLength(dialogues, (7 * nth) % dialogues.length, request.promptTokens, eos)
    return { ...request, ids }
  })
}

/** Answers that are not recorded, so that code and buffers are warm and the bridge has measured its speeds in full steps. */
async function warmUp(cluster: FlowCluster, setup: Setup): Promise<void> {
  const request = { atMs: 0, promptTokens: anyPrompt, answerTokens: 32, tokensPerS: anyRate }
  const requests = Array.from({ length: setup.plan.saturated.streams }, () => request)
  await askAll(cluster.httpUrl, withPrompts(requests, setup), setup.io.signal)
}

/** Requests that the fast tier holds all at once. */
function saturatedLoad(setup: Setup): { readonly prompts: readonly FlowPrompt[]; readonly fastBytes: number } {
  const { streams, answerTokens } = setup.plan.saturated
  const request = { atMs: 0, promptTokens: anyPrompt, answerTokens, tokensPerS: anyRate }
  const prompts = withPrompts(
    Array.from({ length: streams }, () => request),
    setup,
  )
  // Twice, so that no policy finds the fast tier nearly full.
  return { prompts, fastBytes: 2 * streams * kvCharge(anyPrompt + answerTokens, setup.kv) }
}

/** Tokens per second of a bridge with a full step, under FCFS. */
async function measureSaturated(setup: Setup): Promise<number> {
  const { prompts, fastBytes } = saturatedLoad(setup)
  await using cluster = await startFlowCluster({ ...setup, server: 'fcfs', fastBytes })
  await warmUp(cluster, setup)
  const figures = [await saturate(cluster, prompts, setup), await saturate(cluster, prompts, setup)]
  return medianOrNull(figures.map(({ tokensPerS }) => tokensPerS))!
}

/** The same load on two bridges in turn: with the slow tier and its write-through, and without. */
export async function measureCosts(setup: Setup): Promise<TierCosts> {
  const { prompts, fastBytes } = saturatedLoad(setup)
  await using withTier = await startFlowCluster({ ...setup, server: 'tokenflow', fastBytes })
  await using without = await startFlowCluster({ ...setup, server: 'no write-through', fastBytes })
  const turns: { withTier: SaturatedFigures; without: SaturatedFigures }[] = []
  for (const cluster of [withTier, without]) await saturate(cluster, prompts, setup)
  for (let turn = 0; turn < setup.plan.costTurns; turn++) {
    setup.progress(`write-through, turn ${turn + 1} of ${setup.plan.costTurns}`)
    const inOrder = turn % 2 === 0 ? [withTier, without] : [without, withTier]
    const figures = new Map<FlowCluster, SaturatedFigures>()
    for (const cluster of inOrder) figures.set(cluster, await saturate(cluster, prompts, setup))
    turns.push({ withTier: figures.get(withTier)!, without: figures.get(without)! })
  }
  return { turns }
}

/** While all streams decode: tokens per second, and the time between steps over the time in steps. */
async function saturate(cluster: FlowCluster, prompts: readonly FlowPrompt[], { io }: Setup): Promise<SaturatedFigures> {
  const stepsSince = await stepsFromNow(cluster.httpUrl, io.signal)
  const samples = await askAll(cluster.httpUrl, prompts, io.signal)
  const failed = samples.find(({ error }) => error !== null)
  if (failed) throw new Error(`a request of the saturated bridge failed: ${failed.error}`)
  const arrivals = samples.map((sample) => sample.arrivedMs.map((atMs) => sample.atMs + atMs))
  const fromMs = Math.max(...arrivals.map(([first]) => first!))
  const toMs = Math.min(...arrivals.map((times) => times.at(-1)!))
  const tokens = arrivals.flat().filter((atMs) => atMs > fromMs && atMs <= toMs).length
  const own = await stepsSince()
  const decoding = own.filter(({ items, tokens: rows }) => items === rows)
  const mostItems = Math.max(0, ...decoding.map(({ items }) => items))
  const isFull = ({ items, tokens: rows }: LoggedStep) => items === rows && items === mostItems
  const full = own.slice(own.findIndex(isFull), own.findLastIndex(isFull) + 1)
  const [first, last] = [full[0], full.at(-1)]
  const computeMs = sum(full.map((step) => step.computeMs))
  const spanMs = first && last ? last.startMs + last.computeMs - first.startMs : Number.NaN
  return { tokensPerS: (1_000 * tokens) / (toMs - fromMs), overhead: (spanMs - computeMs) / computeMs }
}
