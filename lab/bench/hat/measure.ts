import { seededRandom } from '../../../core/base/random.ts'
import { type BatchTimes, timeBatch } from './batch.ts'
import type { Bed, Results } from './bed.ts'
import { askDevice } from './client.ts'
import { type HatCluster, startHatCluster } from './cluster.ts'
import { linkShape } from './links.ts'
import { runLoad } from './load.ts'
import type { HatRun } from './runs.ts'
import { startTurns } from './turns.ts'
import { arrivalsOf, lengthLimits, promptOfLength, type WorkloadName, workloadNames } from './workload.ts'

/** Above this use of their core, agents and load would measure themselves: the run is void. */
export const maxOthersShare = 0.6
/** After a void run, all strategies are measured again at this share of the rate. */
const rateFactor = 0.75
const maxAttempts = 3
/** Length of answers that only their TTFT matters of. */
const ttftTokens = 32

/** Every strategy in turn, seed by seed, with the same arrivals on the same links. */
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

/** One seed. After a void run, its runs are repeated at a lower rate, which later seeds use too. */
async function measureFairly(bed: Bed, seed: number, rates: Record<WorkloadName, number>, results: Results): Promise<void> {
  for (const workload of workloadNames) {
    const { strategies: names } = bed.plan.loaded[workload]
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      const runs: HatRun[] = []
      for (let i = 0; i < names.length; i++) {
        const strategy = names[(i + seed) % names.length]!
        runs.push(await loadOnce(bed, { measured: 'loaded', strategy, workload, seed }, rates[workload], results))
      }
      results.runs.push(...runs)
      if (runs.every(({ isVoid }) => !isVoid)) break
      if (attempt === maxAttempts) break
      // The other runs of this rate are void too: they would be compared with a run at another rate.
      for (const run of runs) Object.assign(run, { isVoid: true })
      rates[workload] *= rateFactor
      bed.progress(
        `agents and load used more than ${100 * maxOthersShare} % of their core: again with ${rates[workload].toFixed(2)} requests/s`,
      )
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
  results.answers.push({ strategy, answers: measurement.answers })
  const { samples, steps, utilisation } = measurement
  const isVoid = (utilisation?.others ?? 0) > maxOthersShare
  return { ...run, devices: plan.devices, rttMs: links.rttMs, perS, utilisation, isVoid, samples, steps }
}

/** One answer of each device, which is not recorded. */
async function warmUp(cluster: HatCluster, { dialogues, eos, io }: Bed): Promise<void> {
  const prompt = promptOfLength(dialogues, 0, 160, eos)
  await Promise.all(cluster.devices.map(({ apiUrl }) => askDevice(apiUrl, { prompt, maxTokens: 16, user: 'warm-up' }, io.signal)))
}

/** One device, one request at a time: decoding as in the paper's Table IV, TTFT and its limit, second turns. */
export async function measureAlone(bed: Bed, results: Results): Promise<void> {
  const { plan, workloads, dialogues, eos } = bed
  const { strategies: names, short, long, secondTurns, firstTurnTokens, longest, longTokens } = plan.alone
  if (names.length === 0) return
  const prompts = (count: number, length: number) =>
    Array.from({ length: count }, (_, i) => promptOfLength(dialogues, 11 * i + 3, length, eos))
  await using turns = await startTurns(bed, names, bed.links, plan.seeds[0] ?? 1)
  await turns.ask('alone', 'short', workloads.short.slice(0, short), plan.maxTokens)
  await turns.ask('alone', 'long', workloads.long.slice(0, long), longTokens)
  await turns.ask('longest', 'long', prompts(longest, lengthLimits.max), ttftTokens)
  await turns.askTwice(prompts(secondTurns, firstTurnTokens), ttftTokens)
  turns.addTo(results)
}

/** HAT and U-shape, one device, at other round-trip times. */
export async function measureRtts(bed: Bed, results: Results): Promise<void> {
  const { plan, workloads, links } = bed
  const { rttsMs, strategies: names } = plan.otherRtts
  if (names.length === 0) return
  for (const rttMs of rttsMs) {
    await using turns = await startTurns(bed, names, { ...links, rttMs, jitterMs: jitterOf(rttMs) }, plan.seeds[0] ?? 1)
    await turns.ask('rtt', 'short', workloads.short.slice(0, 5), plan.maxTokens)
    await turns.ask('rtt', 'long', workloads.long.slice(0, 4), ttftTokens)
    turns.addTo(results)
  }
}

/** A bridge without devices. */
export async function measureBatch({ bundle, plan, cores, io }: Bed, modelId: string, width: number): Promise<BatchTimes> {
  const seed = plan.seeds[0] ?? 1
  await using cluster = await startHatCluster({ bundle, strategy: 'hat', workload: 'short', shapes: [], seed, cores, io })
  // Awaited here: the cluster ends with this function.
  return await timeBatch(cluster, modelId, width, io.signal)
}

/** ± 5 ms, less where the round trip is short. */
export const jitterOf = (rttMs: number): number => Math.min(5, rttMs / 4)
