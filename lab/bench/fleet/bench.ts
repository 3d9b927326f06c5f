import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { mosquittoProblem } from '../../cluster/mosquitto.ts'
import { portOf } from '../../cluster/relay.ts'
import type { Bench, BenchContext, BenchResult, Summary } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { type FleetBroker, type FleetCluster, fleetBrokers, startFleetCluster, watchSamples } from './cluster.ts'
import { Load } from './load.ts'
import { type FleetRun, fleetReport, type RestartRun, type WorkRun } from './report.ts'

/** Processes that hold devices. */
const processes = 3
const fieldSampleEveryS = 10
/** Devices that start per second: more than a field's worth. */
const startsPerS = 500
/** Devices whose samples are followed up to the bridge's API. */
const watched = 100
const quickDevices = 1_000
/** A fleet that is not connected after this long has broken, and so has one whose samples take longer than `brokenMs`. */
const connectWithinS = 120
const backWithinS = 180
const brokenMs = 5_000
/** The rests of a connecting or returning fleet. */
const pollMs = 250
const jobsPerS = 20
const job = { kind: 'slm.generate', input: { prompt: 'Is there a good hotel near the station?', maxTokens: 32 } }

const options = {
  devices: z.int().min(10).default(10_000).describe('devices of the fleet'),
  broker: z
    .enum([...fleetBrokers, 'both'])
    .default('both')
    .describe("broker: in the bridge's process, a mosquitto process, or one after the other"),
  growTo: z.int().min(10).default(18_000).describe('devices that connect in the end, to find where it breaks'),
}

export const fleetBench: Bench<typeof options> = {
  name: 'fleet',
  quickLimit: '2 minutes',
  quickRepetitions: 2,
  options,
  examples: [['brim bench fleet --devices 2000 --broker embedded', 'a smaller fleet, without a comparison']],
  goals: {
    rssMb: { max: 500 },
    telemetryP99Ms: { max: 50 },
    backAfterRestartS: { max: 60 },
    refusedShare: { max: 0.05 },
    connectCpuS: { max: 20 },
    restCpuPercent: { max: 60 },
    fleetStatusS: { max: 1 },
  },
  async run(context, { devices, broker, growTo }) {
    const { quick } = context
    const size = quick ? Math.min(devices, quickDevices) : devices
    const brokers = fleetBrokers.filter((name) => broker === name || (broker === 'both' && (name === 'embedded' || !quick)))
    const usable = brokers.filter((name) => name === 'embedded' || broker === name || mosquittoProblem() === undefined)
    const plan = {
      sizes: quick ? [size] : sizesUpTo(size, growTo),
      restS: quick ? 8 : 30,
      workS: quick ? 5 : 15,
      statuses: quick ? 1 : 3,
    }
    return benchFleet(
      { ...plan, bundle: await ensureDemoBundle(), devices: size, brokers: usable, sampleEveryS: fieldSampleEveryS },
      context,
    )
  },
  report: fleetReport,
}

/** `brim bench fleet` */
export const command = benchCommand(fleetBench)

/** Of a fleet that connects, and then grows. In steps below its size, the work of those at rest would count as connecting. */
function sizesUpTo(devices: number, growTo: number): number[] {
  const beyond = Array.from({ length: 10 }, (_, at) => Math.round(devices * (1 + (at + 1) / 4))).filter((size) => size <= growTo)
  return [devices, ...beyond]
}

export interface FleetPlan {
  readonly bundle: string
  readonly brokers: readonly FleetBroker[]
  /** The size at which the fleet works and is restarted. */
  readonly devices: number
  /** Ascending; `devices` is one of them. */
  readonly sizes: readonly number[]
  readonly restS: number
  readonly workS: number
  /** Runs of `brim fleet status`. */
  readonly statuses: number
  /** Seconds between two samples of a device. */
  readonly sampleEveryS: number
}

/** @throws BrimError of a process that does not start */
export async function benchFleet(plan: FleetPlan, context: BenchContext): Promise<BenchResult> {
  const runs: (FleetRun | WorkRun | RestartRun)[] = []
  for (const broker of plan.brokers) runs.push(...(await runFleet(broker, plan, context)))
  return {
    conditions: { devices: plan.devices, sampleEveryS: plan.sampleEveryS, startsPerS, jobsPerS, watched },
    summary: summaryOf(runs, plan),
    runs,
  }
}

function summaryOf(runs: readonly (FleetRun | WorkRun | RestartRun)[], { devices, brokers }: FleetPlan): Summary {
  const figures = brokers.map((broker) => {
    const own = runs.filter((run) => run.broker === broker)
    const grown = own.filter((run) => run.what === 'grow')
    const atSize = grown.find((run) => run.devices === devices)
    const [work, restart] = [own.find((run) => run.what === 'work'), own.find((run) => run.what === 'restart')]
    const last = grown.findLast(({ isBroken }) => !isBroken)
    return {
      rssMb: work?.rssMb ?? null,
      telemetryP99Ms: atSize?.telemetryP99Ms ?? null,
      pubackP99Ms: atSize?.pubackP99Ms ?? null,
      backAfterRestartS: restart?.backS ?? null,
      refusedShare: restart?.refusedShare ?? null,
      connectCpuS: atSize?.connectCpuS ?? null,
      restCpuPercent: atSize?.restCpuPercent ?? null,
      fleetStatusS: work ? Math.max(...work.fleetStatusS) : null,
      dispatchP99Ms: work?.dispatchP99Ms ?? null,
      mostDevices: last?.devices ?? null,
    }
  })
  const [own, other] = figures
  const prefixed = Object.entries(other ?? {}).map(([name, value]) => [`${brokers[1]} ${name}`, value] as const)
  return Object.fromEntries([...Object.entries(own!), ...prefixed].map(([name, value]) => [name, round(value ?? null)]))
}

const round = (value: number | null) => (value === null ? null : Math.round(value * 1_000) / 1_000)

async function runFleet(
  broker: FleetBroker,
  plan: FleetPlan,
  context: BenchContext,
): Promise<(FleetRun | WorkRun | RestartRun)[]> {
  const { io, progress } = context
  progress(`starting a bridge, broker ${broker}`)
  await using cluster = await startFleetCluster({ ...plan, broker, devices: Math.max(...plan.sizes), io })
  const { hostname: host } = new URL(cluster.mqttUrl)
  const fleet = { host, port: portOf(cluster.mqttUrl), fleet: 'default', bridge: 'bridge', sampleEveryS: plan.sampleEveryS }
  await using load = await Load.open(processes, fleet, io)
  const runs: (FleetRun | WorkRun | RestartRun)[] = []
  for (const devices of plan.sizes) {
    const grown = await grow(broker, devices, { cluster, load, plan, context })
    runs.push(grown)
    progress(grownText(grown))
    if (grown.isBroken) break
    if (devices !== plan.devices) continue
    const work = await atWork(broker, { cluster, load, plan, context })
    progress(
      `${devices} devices at work: fleet status ${work.fleetStatusS.map((s) => s.toFixed(2)).join(' ')} s, ${work.rssMb} MB`,
    )
    runs.push(work)
    const restart = await afterRestart(broker, { cluster, load, plan, context })
    progress(
      `${devices} devices back after ${restart.backS?.toFixed(1) ?? '–'} s, refused ${restart.refused} of ${restart.attempts}`,
    )
    runs.push(restart)
  }
  return runs
}

interface Parts {
  readonly cluster: FleetCluster
  readonly load: Load
  readonly plan: FleetPlan
  readonly context: BenchContext
}

/** The fleet grows to this size, and rests. */
async function grow(broker: FleetBroker, devices: number, { cluster, load, plan, context }: Parts): Promise<FleetRun> {
  const { io, progress } = context
  const more = devices - load.size
  progress(`connecting ${more} devices, ${devices} in all`)
  await load.take()
  const [startedMs, cpuS] = [performance.now(), cluster.cpuS()]
  await load.start(more, (1_000 * more) / startsPerS)
  const connectS = await untilAllThere(cluster, load, startedMs, connectWithinS, io.signal)
  const connected = { connectS, connectCpuS: cluster.cpuS() - cpuS }
  const { attempts, refused } = await load.take()
  // The samples of the devices that connected last are spread over the interval by then.
  await systemClock.sleep(plan.sampleEveryS * 500, io.signal)
  await load.take()
  const rest = await atRest(cluster, load, plan.restS, io.signal)
  const isBroken = connectS === null || (rest.telemetryP99Ms ?? Number.POSITIVE_INFINITY) > brokenMs
  return { what: 'grow', broker, devices, ...connected, attempts, refused, ...rest, rssMb: cluster.rssMb(), isBroken }
}

/** Nothing but telemetry. */
async function atRest(cluster: FleetCluster, load: Load, restS: number, signal: AbortSignal) {
  const seenMs: number[] = []
  const ended = new AbortController()
  const stride = Math.max(1, Math.floor(load.size / watched))
  const ids = load.ids().filter((_, at) => at % stride === 0)
  const watching = watchSamples(
    cluster.httpUrl,
    ids.slice(0, watched),
    (ms) => seenMs.push(ms),
    AbortSignal.any([signal, ended.signal]),
  )
  await systemClock.sleep(1_000, signal)
  seenMs.length = 0
  const [startedMs, cpuS] = [performance.now(), cluster.cpuS()]
  await systemClock.sleep(restS * 1_000, signal)
  const restCpuPercent = ((cluster.cpuS() - cpuS) / ((performance.now() - startedMs) / 1_000)) * 100
  ended.abort()
  await watching
  const { pubackMs, lost, samples } = await load.take()
  return { restCpuPercent, telemetryP99Ms: p99(seenMs), pubackP99Ms: p99(pubackMs), lost, samples }
}

/** Jobs, and operators who ask for the state of the whole fleet. */
async function atWork(broker: FleetBroker, { cluster, load, plan, context }: Parts): Promise<WorkRun> {
  const { io, progress } = context
  progress(`${jobsPerS} jobs per second`)
  await load.take()
  const fleetStatusS: number[] = []
  const startedMs = performance.now()
  const asking = (async () => {
    for (let at = 0; at < plan.statuses; at++) fleetStatusS.push(await cluster.fleetStatusS())
  })()
  let submitted = 0
  while (performance.now() - startedMs < plan.workS * 1_000) {
    const due = ((performance.now() - startedMs) / 1_000) * jobsPerS
    for (; submitted < due; submitted++) await cluster.jobs.submit(job)
    await systemClock.sleep(10, io.signal)
  }
  await asking
  const { jobs, pubackMs } = await load.take()
  const { p99: dispatchP99Ms } = await cluster.jobs.dispatchMs()
  const work = { submitted, jobs, dispatchP99Ms, pubackP99Ms: p99(pubackMs), fleetStatusS }
  return { what: 'work', broker, devices: load.size, ...work, rssMb: cluster.rssMb() }
}

/** The process that the devices are connected to is killed, and started again with its state. */
async function afterRestart(broker: FleetBroker, { cluster, load, context }: Parts): Promise<RestartRun> {
  const { io, progress } = context
  progress('killing and restarting the broker')
  await load.take()
  const startedMs = performance.now()
  await cluster.restartBroker()
  const upS = (performance.now() - startedMs) / 1_000
  const backS = await untilAllThere(cluster, load, startedMs, backWithinS, io.signal)
  const { attempts, refused, unreached } = await load.take()
  const backCpuS = cluster.brokerCpuS()
  return {
    what: 'restart',
    broker,
    devices: load.size,
    upS,
    backS,
    backCpuS,
    attempts,
    refused,
    unreached,
    refusedShare: refused / attempts,
  }
}

/** @returns seconds since `startedMs` when every device is connected, and ready for the bridge; null: that took too long */
async function untilAllThere(
  cluster: FleetCluster,
  load: Load,
  startedMs: number,
  withinS: number,
  signal: AbortSignal,
): Promise<number | null> {
  for (;;) {
    const s = (performance.now() - startedMs) / 1_000
    if (s > withinS) return null
    if ((await load.established()) === load.size && (await cluster.readyDevices()) === load.size) return s
    await systemClock.sleep(pollMs, signal)
  }
}

const p99 = (ms: readonly number[]): number | null => (ms.length === 0 ? null : quantile(ms, 0.99))

function grownText({ devices, connectS, connectCpuS, restCpuPercent, telemetryP99Ms, rssMb }: FleetRun): string {
  const connected = connectS === null ? 'not connected in time' : `connected in ${connectS.toFixed(1)} s`
  const rest = `at rest ${restCpuPercent.toFixed(1)} % of a core, p99 ${telemetryP99Ms?.toFixed(1) ?? '–'} ms, ${rssMb} MB`
  return `${devices} devices ${connected} with ${connectCpuS.toFixed(1)} s of CPU; ${rest}`
}
