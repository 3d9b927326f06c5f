import { seededRandom } from '../../../core/kit/base/random.ts'
import { routeByScore } from '../../baselines/static-sketches.ts'
import type { StepPace } from '../../cluster/cluster.ts'
import { cpuUseFromNow } from '../../cluster/cpu-times.ts'
import { SharedClusters } from '../../cluster/shared-clusters.ts'
import { toDigits } from '../../frame/tables.ts'
import { arrivalsOf } from '../hat/workload.ts'
import { playInTime } from '../in-time.ts'
import { type Answered, askBridge, askDevice } from './asking.ts'
import { type Known, measureCapacity, measurePace } from './capacity.ts'
import { type PiceCluster, startPiceCluster } from './cluster.ts'
import { keywordSketch, measureDevice } from './device.ts'
import { figuresOf, reasonsOf } from './figures.ts'
import { type MethodName, methods } from './methods.ts'
import { type Plan, paperLoad } from './plan.ts'
import { measureRubbish, type RubbishRun } from './rubbish-device.ts'
import type { Capacity, DeviceFigures, PiceRun, PiceSample } from './runs.ts'
import { questionOf, type Setup, startCluster, warmUp } from './setup.ts'
import { type ShownAnswer, shownAnswers } from './shown-answers.ts'
import { measureSilentDevice, type SilentDeviceRun } from './silent-device.ts'

export interface Results {
  /** Steps of the LLM on this machine. */
  readonly machine: StepPace
  readonly runs: readonly PiceRun[]
  readonly capacity: Capacity
  readonly devices: readonly DeviceFigures[]
  readonly silent: readonly SilentDeviceRun[]
  readonly rubbish: RubbishRun
  /** For a person to read. */
  readonly answers: readonly ShownAnswer[]
}

/** Every method at every load, one after another. */
export async function measureRuns(setup: Setup): Promise<Results> {
  const { plan, progress } = setup
  const machine = await measurePace(setup)
  progress(`a step of the LLM takes ${machine.stepMs.toFixed(2)} ms + ${machine.rowMs.toFixed(3)} ms a row on this machine`)
  const unjudged: Unjudged[] = []
  const warm = (cluster: PiceCluster) => warmUp(setup, cluster)
  // Methods with the same options use one bridge.
  await using clusters = new SharedClusters(
    (args: string) => startCluster(setup, { args: args.split(' ').filter(Boolean) }),
    warm,
  )
  const clusterOf = (method: MethodName) => clusters.of(methods[method].bridge.join(' '))
  const first = await clusterOf('cloud-only')
  const { capacity, known } = await measureCapacity(setup, first)
  progress(
    `the cloud answers ${(60 * capacity.cloudPerS).toFixed(1)} a minute, the devices ${(60 * capacity.edgePerS).toFixed(1)}`,
  )
  progress('ten sentences on one device')
  const devices: DeviceFigures[] = []
  for (let i = 0; i < plan.deviceRepeats; i++) {
    const { id, messages = [] } = setup.prompts[i % setup.prompts.length]!
    devices.push(await measureDevice(first.client, first.deviceIds[0]!, { messages, sketch: keywordSketch(known.get(id)!.own) }))
  }
  const { silent, rubbish } = await measureBadDevices(setup)
  const loads = [...new Set(Object.values(plan.loads).flat())].sort((a, b) => a - b)
  for (const seed of plan.seeds) {
    for (const load of loads) {
      const names = (Object.keys(plan.loads) as MethodName[]).filter((name) => plan.loads[name]!.includes(load))
      for (const method of names) {
        const run = { measured: 'compared', method, seed, load, setting: null, requests: plan.requests } as const
        unjudged.push(await runOnce(setup, await clusterOf(method), run, capacity, known))
      }
    }
  }
  for (const { measured, setting, options } of variations(plan)) {
    await using cluster = await startCluster(setup, options)
    await warm(cluster)
    const run = { measured, method: 'PICE', seed: 1, load: paperLoad, setting, requests: plan.sensitivityRequests } as const
    unjudged.push(await runOnce(setup, cluster, run, capacity, known))
  }
  const runs: PiceRun[] = []
  progress('the LLM reads all answers')
  for (const each of unjudged) runs.push(await judged(setup, each, known))
  const shown = unjudged.findIndex(({ run }) => run.method === 'PICE' && run.measured === 'compared' && run.load === paperLoad)
  const answers = shown < 0 ? [] : shownAnswers(setup.prompts, runs[shown]!, unjudged[shown]!.answers)
  return { machine, runs, capacity, devices, silent, rubbish, answers }
}

/** Questions with nothing else under way, beside devices that do harm. */
export async function measureBadDevices(setup: Pick<Setup, 'bundle' | 'smallModels' | 'prompts' | 'plan' | 'io' | 'progress'>) {
  const { plan, progress } = setup
  await using cluster = await startPiceCluster({ ...setup, devices: 3, paces: plan.paces })
  await warmUp(setup, cluster)
  progress('questions while one of three devices hangs')
  const silent = await measureSilentDevice(setup, cluster, plan.silentRequests)
  progress('questions beside a device that writes rubbish')
  return { silent, rubbish: await measureRubbish(setup, cluster, plan.rubbishRequests) }
}

/** The settings that PICE's sensitivity is measured to. */
function variations({ waitingPerDevice, bytesPerS }: Plan) {
  const queueLengths = waitingPerDevice.map((setting) => {
    const options = { args: ['--limit', `waitingExpansionsPerDevice=${setting}`] }
    return { measured: 'queue length' as const, setting, options }
  })
  return [
    ...queueLengths,
    ...bytesPerS.map((setting) => ({ measured: 'bandwidth' as const, setting, options: { bytesPerS: setting } })),
  ]
}

type RunOf = Pick<PiceRun, 'measured' | 'method' | 'seed' | 'load' | 'setting'> & { readonly requests: number }

/** A run whose answers the LLM has not read yet. */
interface Unjudged {
  readonly run: PiceRun
  readonly answers: readonly Pick<Answered, 'text' | 'sketch'>[]
}

async function runOnce(
  setup: Setup,
  cluster: PiceCluster,
  { requests, ...run }: RunOf,
  { cloudPerS, edgePerS }: Capacity,
  known: ReadonlyMap<string, Known>,
): Promise<Unjudged> {
  const { prompts, io, progress } = setup
  const { route, mode } = methods[run.method]
  const perS = run.load * cloudPerS
  const arrivals = arrivalsOf(requests, perS, { devices: 1, prompts: prompts.length }, seededRandom(run.seed))
  // The share that keeps both sides equally busy.
  const edgeShare = edgePerS / (edgePerS + cloudPerS)
  const scoreOf = route === 'length' || route === 'difficulty' ? (id: string) => known.get(id)![route] : () => 0
  const router = routeByScore(
    prompts.map(({ id }) => scoreOf(id)),
    edgeShare,
  )
  const goesToDevice = (id: string) => route === 'device' || (route !== 'bridge' && router(scoreOf(id)) === 'device')
  const cores = cpuUseFromNow(cluster.cpuS)
  const answers = await playInTime(arrivals, io.signal, async ({ prompt: which }, atMs, i) => {
    const prompt = prompts[which]!
    const question = questionOf(prompt, setup)
    const { text, sketch, sample } = goesToDevice(prompt.id)
      ? await askDevice(cluster.httpUrl, question, io.signal)
      : await askBridge(cluster.httpUrl, question, { mode, user: `${run.method} ${run.seed} ${run.load} ${i}` }, io.signal)
    return { text, sketch, sample: { prompt: prompt.id, atMs: Math.round(atMs), ...sample } }
  })
  const complete = { ...run, perS, ...cores(), samples: answers.map(({ sample }) => sample) }
  progress(lineOf(complete))
  return { run: complete, answers }
}

async function judged(
  { judge, prompts }: Setup,
  { run, answers }: Unjudged,
  known: ReadonlyMap<string, Known>,
): Promise<PiceRun> {
  const samples: PiceSample[] = []
  for (const [i, sample] of run.samples.entries()) {
    const prompt = prompts.find(({ id }) => id === sample.prompt)!
    samples.push({ ...sample, ...(await judge.judge(prompt, answers[i]!.text, known.get(prompt.id)!.own)) })
  }
  return { ...run, samples }
}

function lineOf(run: PiceRun): string {
  const { answersPerMin, latencyMeanS, latencyP95S, sketched, answered } = figuresOf(run)
  const varied = run.setting === null ? '' : `, ${run.measured} ${run.setting}`
  const reasons = [...reasonsOf([run])].map(([reason, count]) => `${reason} ${count}`)
  return (
    `${run.method} at ${run.load.toFixed(2)}${varied}, seed ${run.seed}: ${toDigits(answersPerMin, 1)} a minute, ` +
    `${toDigits(latencyMeanS, 1)} s, P95 ${toDigits(latencyP95S, 1)} s; sketched ${toDigits(sketched, 2)}, answered ${toDigits(answered, 2)}; ` +
    `cores ${toDigits(run.bridgeCore, 2)} + ${toDigits(run.devicesCore, 2)}; ${reasons.join(', ')}`
  )
}
