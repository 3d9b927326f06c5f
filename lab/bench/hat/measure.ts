import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { Cores } from '../../cluster/cores.ts'
import type { BenchPrompt } from '../prompts.ts'
import { type BatchTimes, timeBatch } from './batch.ts'
import { type HatCluster, startHatCluster } from './cluster.ts'
import { type LinkConditions, linkShape } from './links.ts'
import { type AloneAnswer, askAlone, askDevice, runLoad, type UncheckedAnswer } from './load.ts'
import type { Plan } from './plan.ts'
import { encodeSteps, type HatRun, type Measured, stepSizesOf } from './runs.ts'
import { isExact, type StrategyName } from './strategies.ts'
import { arrivalsOf, type HatPrompt, lengthLimits, promptOfLength, type WorkloadName, workloadNames } from './workload.ts'

/** The inputs that all measurements share. */
export interface Setup {
  readonly bundle: string
  readonly plan: Plan
  readonly links: LinkConditions
  readonly cores: Cores | undefined
  readonly dialogues: readonly BenchPrompt[]
  readonly workloads: Readonly<Record<WorkloadName, readonly HatPrompt[]>>
  readonly eos: number | undefined
  /** Time of one row through the output part. */
  readonly headMs: number
  readonly io: Io
  progress(line: string): void
}

export interface Results {
  readonly runs: HatRun[]
  /** Those that must equal the reference's. */
  readonly answers: UncheckedAnswer[]
}

/** Above this use of their core, agents and load would measure themselves: the run is void. */
export const maxOthersShare = 0.6
/** After a void run, all strategies are measured again at this share of the rate. */
const rateFactor = 0.75
const maxAttempts = 3
/** Length of answers of which only the TTFT matters. */
const ttftTokens = 32
/** The middle group of links, for one device alone. */
const linkGroup = 1
/** Distance between the times of the link's traces at which two prompts are asked. */
const traceStepMs = 20_000
/** Time for the handle of a cached prefix to reach the device, beyond the round trip. */
const handleMs = 200
/** New tokens of a second turn. */
const newTokens = 64

const firstSeed = ({ seeds }: Plan) => seeds[0] ?? 1

function addRun(
  { runs, answers: all }: Results,
  run: Omit<HatRun, 'samples' | 'stepSizes'>,
  answers: readonly UncheckedAnswer[],
): HatRun {
  const { steps, ...figures } = run
  const samples = answers.map(({ sample }) => sample)
  const complete = { ...figures, samples, steps, stepSizes: stepSizesOf({ samples, steps }) }
  runs.push(complete)
  if (isExact(run.strategy)) all.push(...answers)
  return complete
}

/** Every strategy in turn, seed by seed, with the same arrivals on the same links. */
export async function measureLoaded(setup: Setup, results: Results): Promise<void> {
  const { plan } = setup
  const rates = { short: plan.loaded.short.perS, long: plan.loaded.long.perS }
  for (const seed of plan.seeds) await measureFairly(setup, seed, rates, results)
  const seed = firstSeed(plan)
  for (const strategy of plan.ablation)
    for (const workload of workloadNames)
      await loadOnce(setup, { measured: 'ablation', strategy, workload, seed }, rates[workload], results)
  for (const factor of plan.otherRates)
    for (const workload of workloadNames)
      for (const strategy of plan.loaded[workload].strategies)
        await loadOnce(setup, { measured: 'rates', strategy, workload, seed }, factor * rates[workload], results)
}

/** One seed. After a void run, its runs are repeated at a lower rate, which later seeds use too. */
async function measureFairly(setup: Setup, seed: number, rates: Record<WorkloadName, number>, results: Results): Promise<void> {
  for (const workload of workloadNames) {
    const { strategies: names } = setup.plan.loaded[workload]
    for (let attempt = 1; ; attempt++) {
      const runs: HatRun[] = []
      for (let i = 0; i < names.length; i++) {
        const strategy = names[(i + seed) % names.length]!
        runs.push(await loadOnce(setup, { measured: 'loaded', strategy, workload, seed }, rates[workload], results))
      }
      if (attempt === maxAttempts || runs.every(({ isVoid }) => !isVoid)) break
      // The other runs of this rate are void too: they would be compared with a run at another rate.
      for (const run of runs) Object.assign(run, { isVoid: true })
      rates[workload] *= rateFactor
      setup.progress(
        `agents and load used more than ${100 * maxOthersShare} % of their core: again with ${rates[workload].toFixed(2)} requests/s`,
      )
    }
  }
}

type RunOf = Pick<HatRun, 'measured' | 'strategy' | 'workload' | 'seed'>

async function loadOnce(setup: Setup, run: RunOf, perS: number, results: Results): Promise<HatRun> {
  const { plan, cores, io, links, workloads } = setup
  const { strategy, workload, seed } = run
  setup.progress(`${run.measured}: ${strategy}, ${workload} prompts, ${perS.toFixed(2)} requests/s, seed ${seed}`)
  const random = seededRandom(seed)
  const shapes = Array.from({ length: plan.devices }, (_, device) => linkShape(device, links, random))
  await using cluster = await startHatCluster({ bundle: setup.bundle, strategy, workload, shapes, seed, cores, io })
  await warmUp(cluster, setup)
  const prompts = workloads[workload]
  const { requests } = plan.loaded[workload]
  const arrivals = arrivalsOf(requests, perS, { devices: plan.devices, prompts: prompts.length }, random)
  const load = { prompts, arrivals, maxTokens: plan.maxTokens }
  const { answers, steps, utilisation } = await runLoad(cluster, load, cores, io.signal)
  const isVoid = (utilisation?.others ?? 0) > maxOthersShare
  return addRun(results, { ...run, devices: plan.devices, rttMs: links.rttMs, perS, utilisation, isVoid, steps }, answers)
}

/** One answer of each device, which is not recorded. */
async function warmUp(cluster: HatCluster, { dialogues, eos, io }: Setup): Promise<void> {
  const request = { prompt: promptOfLength(dialogues, 0, 160, eos), maxTokens: 16, user: 'warm-up', atMs: 0 }
  await Promise.all(cluster.devices.map((_, device) => askDevice(cluster, { ...request, device }, io.signal)))
}

/** One device, one request at a time: decoding as in the paper's Table IV, TTFT and its limit, second turns. */
export async function measureAlone(setup: Setup, results: Results): Promise<void> {
  const { plan, workloads, dialogues, eos } = setup
  const { strategies: names, short, long, secondTurns, firstTurnTokens, longest, longTokens } = plan.alone
  if (names.length === 0) return
  const prompts = (count: number, length: number) =>
    Array.from({ length: count }, (_, i) => promptOfLength(dialogues, 11 * i + 3, length, eos))
  await using turns = await startTurns(setup, results, names, setup.links)
  await turns.ask('alone', 'short', workloads.short.slice(0, short), plan.maxTokens)
  await turns.ask('alone', 'long', workloads.long.slice(0, long), longTokens)
  await turns.ask('longest', 'long', prompts(longest, lengthLimits.max), ttftTokens)
  await turns.askTwice(prompts(secondTurns, firstTurnTokens), ttftTokens)
}

/** HAT and U-shape, one device, at other round-trip times. */
export async function measureRtts(setup: Setup, results: Results): Promise<void> {
  const { plan, workloads, links } = setup
  const { rttsMs, strategies: names } = plan.otherRtts
  if (names.length === 0) return
  for (const rttMs of rttsMs) {
    await using turns = await startTurns(setup, results, names, { ...links, rttMs, jitterMs: jitterOf(rttMs) })
    await turns.ask('rtt', 'short', workloads.short.slice(0, 5), plan.maxTokens)
    await turns.ask('rtt', 'long', workloads.long.slice(0, 4), ttftTokens)
  }
}

/** A cluster of one device for each strategy, which answer one request at a time, in turn. */
async function startTurns(setup: Setup, results: Results, strategies: readonly StrategyName[], links: LinkConditions) {
  const { bundle, plan, cores, io, headMs, dialogues, eos } = setup
  const { stateBytes, rttMs } = links
  const seed = firstSeed(plan)
  const clusters: HatCluster[] = []
  let asked = 0
  const stop = async () => {
    await Promise.all(clusters.map((cluster) => cluster[Symbol.asyncDispose]()))
  }
  const askOne = (cluster: HatCluster, prompt: HatPrompt, user: string, maxTokens: number) => {
    const request = { prompt, maxTokens, user, device: 0, atMs: asked * traceStepMs }
    return askAlone(cluster, request, { stateBytes, rttMs, headMs }, io.signal)
  }

  /** Adds one run per strategy, with one answer per prompt. */
  async function record(
    measured: Measured,
    workload: WorkloadName,
    prompts: readonly HatPrompt[],
    answerOf: (cluster: HatCluster, prompt: HatPrompt, at: number) => Promise<AloneAnswer>,
  ): Promise<void> {
    const answers = clusters.map((): AloneAnswer[] => [])
    for (const [at, prompt] of prompts.entries()) {
      setup.progress(
        `${measured}, RTT ${rttMs} ms: ${workload} prompt ${at + 1} of ${prompts.length}, ${prompt.ids.length} tokens`,
      )
      asked += 1
      for (const [i, cluster] of clusters.entries()) answers[i]!.push(await answerOf(cluster, prompt, at))
    }
    if (prompts.length === 0) return
    for (const [i, { strategy }] of clusters.entries()) {
      const steps = encodeSteps(answers[i]!.flatMap((answer) => answer.steps))
      const run = { measured, strategy, workload, seed, devices: 1, rttMs, perS: null, utilisation: null, isVoid: false, steps }
      addRun(results, run, answers[i]!)
    }
  }

  try {
    for (const strategy of strategies) {
      const shapes = [linkShape(linkGroup, links, seededRandom(seed))]
      clusters.push(await startHatCluster({ bundle, strategy, workload: 'short', shapes, seed, cores, io }))
    }
    for (const cluster of clusters) await warmUp(cluster, setup)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    ask: (measured: Measured, workload: WorkloadName, prompts: readonly HatPrompt[], maxTokens: number) =>
      record(measured, workload, prompts, (cluster, prompt, at) =>
        askOne(cluster, prompt, `${measured} ${workload} ${at}`, maxTokens),
      ),
    /** Asks each prompt and then a second turn (prompt, answer and new tokens); only the second turn is recorded. */
    askTwice: (prompts: readonly HatPrompt[], maxTokens: number) =>
      record('second-turn', 'long', prompts, async (cluster, prompt, at) => {
        const user = `conversation ${at}`
        const next = promptOfLength(dialogues, at, newTokens, eos)
        const first = await askOne(cluster, prompt, user, maxTokens)
        await systemClock.sleep(handleMs + rttMs, io.signal)
        const ids = [...prompt.ids, ...first.tokenIds, ...next.ids]
        return askOne(cluster, { id: `${prompt.id}+${next.id}`, ids }, user, maxTokens)
      }),
    [Symbol.asyncDispose]: stop,
  }
}

/** A bridge without devices. */
export async function measureBatch({ bundle, plan, cores, io }: Setup, modelId: string, width: number): Promise<BatchTimes> {
  const seed = firstSeed(plan)
  await using cluster = await startHatCluster({ bundle, strategy: 'hat', workload: 'short', shapes: [], seed, cores, io })
  // Awaited here: the cluster ends with this function.
  return await timeBatch(cluster, modelId, width, io.signal)
}

/** ± 5 ms, less where the round trip is short. */
export const jitterOf = (rttMs: number): number => Math.min(5, rttMs / 4)
