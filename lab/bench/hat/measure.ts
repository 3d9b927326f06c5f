import type { Io } from '../../../core/base/io.ts'
import { seededRandom } from '../../../core/base/random.ts'
import type { Cores } from '../../cluster/cores.ts'
import type { BenchPrompt } from '../prompts.ts'
import { type BatchTimes, timeBatch } from './batch.ts'
import { askDevice } from './client.ts'
import { type HatCluster, startHatCluster } from './cluster.ts'
import { type LinkConditions, linkShape } from './links.ts'
import { runLoad, type Taken } from './load.ts'
import type { Plan } from './plan.ts'
import type { HatRun } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import { startTurns } from './turns.ts'
import { arrivalsOf, type HatPrompt, lengthLimits, promptOfLength, type WorkloadName, workloadNames } from './workload.ts'

/** What all measurements share. */
export interface Bed {
  readonly bundle: string
  readonly plan: Plan
  readonly links: LinkConditions
  readonly cores: Cores | undefined
  readonly dialogues: readonly BenchPrompt[]
  readonly workloads: Readonly<Record<WorkloadName, readonly HatPrompt[]>>
  readonly eos: number | undefined
  /** One row through the output part. */
  readonly headMs: number
  readonly io: Io
  progress(line: string): void
}

/** Runs, and what their answers are held against the reference by. */
export interface Results {
  readonly runs: HatRun[]
  readonly taken: { readonly strategy: StrategyName; readonly taken: readonly Taken[] }[]
}

/** A core of agents and load that is busier than this measures itself. */
export const busiest = 0.6
/** Then all strategies are asked again at this share of the rate. */
const slower = 0.75
const attempts = 3
/** Of answers that are asked for their TTFT. */
const fewTokens = 32

/** Every strategy under the same arrivals on the same links, seed by seed, in turns. */
export async function measureLoaded(bed: Bed, results: Results): Promise<void> {
  const { plan } = bed
  const rates = { short: plan.loaded.short.perS, long: plan.loaded.long.perS }
  for (const seed of plan.seeds) await measureFairly(bed, seed, rates, results)
  const [first = 1] = plan.seeds
  for (const strategy of plan.ablation)
    for (const workload of workloadNames)
      results.runs.push(await loadOnce(bed, { measured: 'ablation', strategy, workload, seed: first }, rates[workload], results))
  for (const factor of plan.otherRates)
    for (const workload of workloadNames)
      for (const strategy of plan.loaded[workload].strategies) {
        const what = { measured: 'rates', strategy, workload, seed: first } as const
        results.runs.push(await loadOnce(bed, what, factor * rates[workload], results))
      }
}

/** One seed: where a run of it is void, all are done again with fewer requests a second, and later seeds too. */
async function measureFairly(bed: Bed, seed: number, rates: Record<WorkloadName, number>, results: Results): Promise<void> {
  for (const workload of workloadNames) {
    const { strategies: names } = bed.plan.loaded[workload]
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const runs: HatRun[] = []
      for (let i = 0; i < names.length; i++) {
        const strategy = names[(i + seed) % names.length]!
        runs.push(await loadOnce(bed, { measured: 'loaded', strategy, workload, seed }, rates[workload], results))
      }
      results.runs.push(...runs)
      if (runs.every(({ isVoid }) => !isVoid)) break
      if (attempt === attempts) break
      // What was measured beside a void run would be compared with a run at another rate.
      for (const run of runs) Object.assign(run, { isVoid: true })
      rates[workload] *= slower
      bed.progress(`core of agents and load above ${100 * busiest} %: again with ${rates[workload].toFixed(2)} requests/s`)
    }
  }
}

type RunOf = Pick<HatRun, 'measured' | 'strategy' | 'workload' | 'seed'>

async function loadOnce(bed: Bed, run: RunOf, perS: number, results: Results): Promise<HatRun> {
  const { plan, cores, io, links, workloads } = bed
  const { strategy, workload, seed } = run
  bed.progress(`${run.measured}: ${strategy}, ${workload} prompts, ${perS.toFixed(2)} requests/s, seed ${seed}`)
  const random = seededRandom(seed)
  const shapes = Array.from({ length: plan.devices }, (_, device) => linkShape(device, links, random))
  await using cluster = await startHatCluster({ bundle: bed.bundle, strategy, workload, shapes, seed, cores, io })
  await warmUp(cluster, bed)
  const prompts = workloads[workload]
  const { requests } = plan.loaded[workload]
  const arrivals = arrivalsOf(requests, perS, { devices: plan.devices, prompts: prompts.length }, random)
  const measurement = await runLoad(cluster, { prompts, arrivals, maxTokens: plan.maxTokens }, cores, io.signal)
  results.taken.push({ strategy, taken: measurement.taken })
  const { samples, steps, utilisation } = measurement
  const isVoid = (utilisation?.others ?? 0) > busiest
  return { ...run, devices: plan.devices, rttMs: links.rttMs, perS, utilisation, isVoid, samples, steps }
}

/** An answer of each device that nobody counts. */
async function warmUp(cluster: HatCluster, { dialogues, eos, io }: Bed): Promise<void> {
  const prompt = promptOfLength(dialogues, 0, 160, eos)
  await Promise.all(cluster.devices.map(({ apiUrl }) => askDevice(apiUrl, { prompt, maxTokens: 16, user: 'warm-up' }, io.signal)))
}

/** One device, one request at a time: decoding as in the paper's Table IV, TTFT against its limit, second turns. */
export async function measureAlone(bed: Bed, results: Results): Promise<void> {
  const { plan, workloads, dialogues, eos } = bed
  const { strategies: names, short, long, secondTurns, firstTurnTokens, longest, longTokens } = plan.alone
  if (names.length === 0) return
  const prompts = (count: number, length: number) =>
    Array.from({ length: count }, (_, i) => promptOfLength(dialogues, 11 * i + 3, length, eos))
  await using turns = await startTurns(bed, names, bed.links, plan.seeds[0] ?? 1)
  await turns.ask('alone', 'short', workloads.short.slice(0, short), plan.maxTokens)
  await turns.ask('alone', 'long', workloads.long.slice(0, long), longTokens)
  await turns.ask('longest', 'long', prompts(longest, lengthLimits.most), fewTokens)
  await turns.askTwice(prompts(secondTurns, firstTurnTokens), fewTokens)
  turns.finish(results)
}

/** HAT and U-shape, one device, at other round trips. */
export async function measureRtts(bed: Bed, results: Results): Promise<void> {
  const { plan, workloads, links } = bed
  const { rttsMs, strategies: names } = plan.otherRtts
  if (names.length === 0) return
  for (const rttMs of rttsMs) {
    await using turns = await startTurns(bed, names, { ...links, rttMs, jitterMs: jitterOf(rttMs) }, plan.seeds[0] ?? 1)
    await turns.ask('rtt', 'short', workloads.short.slice(0, 5), plan.maxTokens)
    await turns.ask('rtt', 'long', workloads.long.slice(0, 4), fewTokens)
    turns.finish(results)
  }
}

/** A bridge of HAT's, without devices. */
export async function measureBatch({ bundle, plan, cores, io }: Bed, modelId: string, width: number): Promise<BatchTimes> {
  const seed = plan.seeds[0] ?? 1
  await using cluster = await startHatCluster({ bundle, strategy: 'hat', workload: 'short', shapes: [], seed, cores, io })
  // Awaited here: the cluster ends with this function.
  return await timeBatch(cluster, modelId, width, io.signal)
}

/** ± 5 ms, less where the round trip is short. */
export const jitterOf = (rttMs: number): number => Math.min(5, rttMs / 4)
