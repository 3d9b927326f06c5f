import { readFile } from 'node:fs/promises'
import { systemClock } from '../../../core/kit/base/clock.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { tempFolder } from '../../../core/kit/base/temp-folder.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { rowBytes } from '../../../core/wire/protocol/frame.ts'
import type { Cores } from '../../cluster/cores.ts'
import { SharedClusters } from '../../cluster/shared-clusters.ts'
import { timeBatch } from './batch.ts'
import { type HatCluster, recordingOf, startHatCluster } from './cluster.ts'
import { buildDeeperModel } from './deeper-model.ts'
import { tbtOf } from './figures.ts'
import { type LinkConditions, linkShape } from './links.ts'
import { type AloneAnswer, askAlone, askDevice, askForAnswer, runLoad, type UncheckedAnswer } from './load.ts'
import type { Plan } from './plan.ts'
import { roundTimesOf } from './round-times.ts'
import { type HatRun, type Measured, type Sample, stepSizesOf } from './runs.ts'
import { isExact, type StrategyName, wireOf } from './strategies.ts'
import {
  arrivalsOf,
  type HatPrompt,
  lengthLimits,
  promptOfLength,
  promptsOf,
  type WorkloadName,
  workloadNames,
} from './workload.ts'

/** The inputs that all measurements share. */
export interface Setup {
  readonly bundle: string
  readonly plan: Plan
  readonly links: LinkConditions
  readonly cores: Cores | undefined
  readonly dialogues: readonly FilePrompt[]
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

/** The same rates and links, and a middle that has enough to do for steps to wait for one another. */
export async function measureBusy(setup: Setup, results: Results): Promise<void> {
  const { plan } = setup
  if (plan.busy.strategies.length === 0) return
  await using folder = await tempFolder('deeper')
  setup.progress(`the model with ${plan.busy.layers} layers`)
  const bundle = await buildDeeperModel(folder.path, plan.busy.layers)
  for (const workload of workloadNames)
    for (const strategy of plan.busy.strategies) {
      const run = { measured: 'busy', strategy, workload, seed: firstSeed(plan) } as const
      await loadOnce({ ...setup, bundle }, run, plan.loaded[workload].perS, results, plan.busy.requests)
    }
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

async function loadOnce(setup: Setup, run: RunOf, perS: number, results: Results, count?: number): Promise<HatRun> {
  const { plan, cores, io, links, workloads } = setup
  const { strategy, workload, seed } = run
  setup.progress(`${run.measured}: ${strategy}, ${workload} prompts, ${perS.toFixed(2)} requests/s, seed ${seed}`)
  const random = seededRandom(seed)
  const shapes = Array.from({ length: plan.devices }, (_, device) => linkShape(device, links, random))
  await using cluster = await startHatCluster({ bundle: setup.bundle, strategy, workload, shapes, seed, cores, io })
  await warmUp(cluster, setup)
  const prompts = workloads[workload]
  const requests = count ?? plan.loaded[workload].requests
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

/** Prompts for one device alone: of each, or of a second turn after it, the answer is recorded. */
interface Questions {
  readonly measured: Measured
  readonly workload: WorkloadName
  readonly prompts: readonly HatPrompt[]
  readonly maxTokens: number
  readonly asksTwice?: boolean
}

/** One device, one request at a time: decoding as in the paper's Table IV, TTFT and its limit, second turns. */
export async function measureAlone(setup: Setup, results: Results): Promise<void> {
  const { plan, workloads, dialogues, eos } = setup
  const { strategies, short, long, secondTurns, firstTurnTokens, longest, longTokens } = plan.alone
  const prompts = (count: number, length: number) => promptsOf(dialogues, count, length, eos)
  const first = prompts(secondTurns, firstTurnTokens)
  await askInTurn(setup, results, strategies, setup.links, [
    { measured: 'alone', workload: 'short', prompts: workloads.short.slice(0, short), maxTokens: plan.maxTokens },
    { measured: 'alone', workload: 'long', prompts: workloads.long.slice(0, long), maxTokens: longTokens },
    { measured: 'longest', workload: 'long', prompts: prompts(longest, lengthLimits.max), maxTokens: ttftTokens },
    { measured: 'second-turn', workload: 'long', prompts: first, maxTokens: ttftTokens, asksTwice: true },
  ])
}

/** Where the rounds of each strategy go, for short prompts; bridge and agent record their machines meanwhile. */
export async function measureRounds(setup: Setup, results: Results): Promise<void> {
  const { plan, workloads, links } = setup
  await using recordings = await tempFolder('rounds')
  const prompts = workloads.short.slice(0, plan.rounds.prompts)
  const questions: Questions = { measured: 'rounds', workload: 'short', prompts, maxTokens: plan.maxTokens }
  const asked = await askInTurn(setup, results, plan.rounds.strategies, links, [questions], recordings.path)
  for (const { run, answers } of asked) {
    const [bridge, agent] = await Promise.all(
      ['bridge', 'device-1'].map((of) => readFile(recordingOf(recordings.path, run.strategy, of), 'utf8')),
    )
    const passages = answers.map((answer) => answer.passages)
    const recorded = { bridge: bridge!, agent: agent!, passages, rowBytes: links.stateBytes }
    Object.assign(run, { roundTimes: roundTimesOf(recorded) })
  }
}

/** HAT and U-shape, one device, at other round-trip times. */
export async function measureRtts(setup: Setup, results: Results): Promise<void> {
  const { plan, workloads, links } = setup
  const { rttsMs, strategies } = plan.otherRtts
  for (const rttMs of rttsMs)
    await askInTurn(setup, results, strategies, { ...links, rttMs, jitterMs: jitterOf(rttMs) }, [
      { measured: 'rtt', workload: 'short', prompts: workloads.short.slice(0, 5), maxTokens: plan.maxTokens },
      { measured: 'rtt', workload: 'long', prompts: workloads.long.slice(0, 4), maxTokens: ttftTokens },
    ])
}

/** A cluster of one device for each strategy, which answer one request at a time, in turn: one run per strategy and questions. */
async function askInTurn(
  setup: Setup,
  results: Results,
  strategies: readonly StrategyName[],
  links: LinkConditions,
  all: readonly Questions[],
  recordings?: string,
): Promise<{ readonly run: HatRun; readonly answers: readonly AloneAnswer[] }[]> {
  const { bundle, plan, cores, io, headMs, dialogues, eos } = setup
  const { stateBytes, rttMs } = links
  const seed = firstSeed(plan)
  const start = (strategy: StrategyName) => {
    const shapes = [linkShape(linkGroup, links, seededRandom(seed))]
    return startHatCluster({ bundle, strategy, workload: 'short', shapes, seed, cores, io, recordings })
  }
  const runs: { readonly run: HatRun; readonly answers: readonly AloneAnswer[] }[] = []
  await using shared = new SharedClusters(start, (cluster) => warmUp(cluster, setup))
  const clusters: HatCluster[] = []
  for (const strategy of strategies) clusters.push(await shared.of(strategy))
  let asked = 0
  const answerOf = async (cluster: HatCluster, prompt: HatPrompt, at: number, questions: Questions): Promise<AloneAnswer> => {
    const { measured, workload, maxTokens, asksTwice = false } = questions
    const common = { maxTokens, user: `${measured} ${workload} ${at}`, device: 0, atMs: asked * traceStepMs }
    const sentBytes = rowBytes(wireOf(cluster.strategy), stateBytes / 2)
    const ask = (asks: HatPrompt) =>
      askAlone(cluster, { ...common, prompt: asks }, { stateBytes: sentBytes, rttMs, headMs }, io.signal)
    const first = await ask(prompt)
    if (!asksTwice) return first
    await systemClock.sleep(handleMs + rttMs, io.signal)
    const next = promptOfLength(dialogues, at, newTokens, eos)
    return ask({ id: `${prompt.id}+${next.id}`, ids: [...prompt.ids, ...first.tokenIds, ...next.ids] })
  }
  for (const questions of all) {
    const { measured, workload, prompts } = questions
    const answers = clusters.map((): AloneAnswer[] => [])
    for (const [at, prompt] of prompts.entries()) {
      setup.progress(
        `${measured}, RTT ${rttMs} ms: ${workload} prompt ${at + 1} of ${prompts.length}, ${prompt.ids.length} tokens`,
      )
      asked += 1
      for (const [i, cluster] of clusters.entries()) answers[i]!.push(await answerOf(cluster, prompt, at, questions))
    }
    for (const [i, own] of answers.entries()) {
      const { strategy } = clusters[i]!
      const steps = own.flatMap((answer) => answer.steps)
      const run = { measured, strategy, workload, seed, devices: 1, rttMs, perS: null, utilisation: null, isVoid: false, steps }
      if (own.length > 0) runs.push({ run: addRun(results, run, own), answers: own })
    }
  }
  return runs
}

/** A bridge without devices: packed steps, and the time per token of the whole model, which answers there alone. */
export async function measureBridge(setup: Setup, modelId: string, width: number) {
  const { bundle, plan, cores, io, workloads } = setup
  const seed = firstSeed(plan)
  await using cluster = await startHatCluster({ bundle, strategy: 'hat', workload: 'short', shapes: [], seed, cores, io })
  const batch = await timeBatch(cluster, modelId, width, io.signal)
  const samples: Sample[] = []
  const requests = { maxTokens: plan.maxTokens, user: 'alone', device: 0, atMs: 0 }
  for (const prompt of workloads.short.slice(0, plan.rounds.prompts))
    samples.push((await askForAnswer(cluster.httpUrl, { ...requests, prompt }, io.signal)).sample)
  return { batch, cloudTokenMs: tbtOf(samples) }
}

/** ± 5 ms, less where the round trip is short. */
export const jitterOf = (rttMs: number): number => Math.min(5, rttMs / 4)
