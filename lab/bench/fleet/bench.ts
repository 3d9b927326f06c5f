import { z } from 'zod'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import { mosquittoProblem } from '../../cluster/mosquitto.ts'
import { portOf } from '../../cluster/relay.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { quantileOrNull } from '../../frame/statistics.ts'
import { tabledBench } from '../../frame/tabled-bench.ts'
import { toDigits } from '../../frame/tables.ts'
import { playInTime } from '../in-time.ts'
import { type FleetBroker, type FleetCluster, fleetBrokers, startFleetCluster, watchSamples } from './cluster.ts'
import { Load } from './load.ts'
import { type AnyFleetRun, type FleetRun, fleetFigures, type RestartRun, showFleet, type WorkRun } from './report.ts'

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

export const fleetBench = tabledBench<AnyFleetRun, typeof options>({
  name: 'fleet',
  title: 'A fleet',
  contents: 'every size of the fleet',
  figureText: 'CPU at rest and memory against the size of the fleet',
  quickLimit: '2 minutes',
  quickRepetitions: 2,
  options,
  examples: [['brim bench fleet --devices 2000 --broker embedded', 'a smaller fleet, without a comparison']],
  figures: fleetFigures,
  async measure(context, { devices, broker, growTo }) {
    const { quick } = context
    const size = quick ? Math.min(devices, quickDevices) : devices
    const brokers = fleetBrokers.filter((name) => broker === name || (broker === 'both' && (name === 'embedded' || !quick)))
    const usable = brokers.filter((name) => name === 'embedded' || broker === name || mosquittoProblem() === undefined)
    const efforts = quick ? { restS: 8, workS: 5, statuses: 1 } : { restS: 30, workS: 15, statuses: 3 }
    const sizes = quick ? [size] : sizesUpTo(size, growTo)
    const bundle = await ensureDemoBundle()
    return measureFleet({ ...efforts, bundle, sizes, brokers: usable, sampleEveryS: fieldSampleEveryS }, context)
  },
  show: showFleet,
})

export const command = benchCommand(fleetBench)

/** Of a fleet that connects, and then grows. In steps below its size, the work of those at rest would count as connecting. */
function sizesUpTo(devices: number, growTo: number): number[] {
  const beyond = Array.from({ length: 10 }, (_, at) => Math.round(devices * (1 + (at + 1) / 4))).filter((size) => size <= growTo)
  return [devices, ...beyond]
}

export interface FleetPlan {
  readonly bundle: string
  readonly brokers: readonly FleetBroker[]
  /** Ascending; at the first one, the fleet works and is restarted. */
  readonly sizes: readonly number[]
  readonly restS: number
  readonly workS: number
  /** Runs of `brim fleet status`. */
  readonly statuses: number
  /** Seconds between two samples of a device. */
  readonly sampleEveryS: number
}

/** @throws BrimError of a process that does not start */
export async function measureFleet(plan: FleetPlan, context: BenchContext) {
  const runs: AnyFleetRun[] = []
  for (const broker of plan.brokers) runs.push(...(await runFleet(broker, plan, context)))
  const [devices] = plan.sizes
  return { conditions: { devices, sampleEveryS: plan.sampleEveryS, startsPerS, jobsPerS, watched }, runs }
}

async function runFleet(broker: FleetBroker, plan: FleetPlan, context: BenchContext): Promise<AnyFleetRun[]> {
  const { io, progress } = context
  progress(`starting a bridge, broker ${broker}`)
  await using cluster = await startFleetCluster({ ...plan, broker, devices: Math.max(...plan.sizes), io })
  const { hostname: host } = new URL(cluster.mqttUrl)
  const simulated = { host, port: portOf(cluster.mqttUrl), fleet: 'default', bridge: 'bridge', sampleEveryS: plan.sampleEveryS }
  await using load = await Load.open(processes, simulated, io)
  const fleet = new MeasuredFleet(broker, cluster, load, plan, context)
  const runs: AnyFleetRun[] = []
  for (const devices of plan.sizes) {
    const grown = await fleet.grow(devices)
    runs.push(grown)
    progress(grownText(grown))
    if (grown.isBroken) break
    if (devices !== plan.sizes[0]) continue
    const work = await fleet.work()
    const statusS = work.fleetStatusS.map((s) => s.toFixed(2)).join(' ')
    progress(`${devices} devices at work: fleet status ${statusS} s, ${work.rssMb} MB`)
    const restart = await fleet.restart()
    progress(`${devices} devices back after ${toDigits(restart.backS, 1)} s, refused ${restart.refused} of ${restart.attempts}`)
    runs.push(work, restart)
  }
  return runs
}

/** The devices, and the bridge and broker that they are connected to. */
class MeasuredFleet {
  readonly #broker: FleetBroker
  readonly #cluster: FleetCluster
  readonly #load: Load
  readonly #plan: FleetPlan
  readonly #context: BenchContext

  constructor(broker: FleetBroker, cluster: FleetCluster, load: Load, plan: FleetPlan, context: BenchContext) {
    this.#broker = broker
    this.#cluster = cluster
    this.#load = load
    this.#plan = plan
    this.#context = context
  }

  /** The fleet grows to this size, and rests. */
  async grow(devices: number): Promise<FleetRun> {
    const more = devices - this.#load.size
    this.#context.progress(`connecting ${more} devices, ${devices} in all`)
    await this.#load.take()
    const [startedMs, cpuS] = [performance.now(), this.#cluster.cpuS()]
    await this.#load.start(more, (1_000 * more) / startsPerS)
    const connectS = await this.#untilAllThere(startedMs, connectWithinS)
    const connected = { connectS, connectCpuS: this.#cluster.cpuS() - cpuS }
    const { attempts, refused } = await this.#load.take()
    // The samples of the devices that connected last are spread over the interval by then.
    await this.#sleep(this.#plan.sampleEveryS * 500)
    await this.#load.take()
    const rest = await this.#rest()
    const isBroken = connectS === null || (rest.telemetryP99Ms ?? Number.POSITIVE_INFINITY) > brokenMs
    return { what: 'grow', ...this.#sized(), ...connected, attempts, refused, ...rest, rssMb: this.#cluster.rssMb(), isBroken }
  }

  /** Nothing but telemetry. */
  async #rest() {
    const { cpuS, httpUrl } = this.#cluster
    const seenMs: number[] = []
    const ended = new AbortController()
    const stride = Math.max(1, Math.floor(this.#load.size / watched))
    const ids = this.#load.ids().filter((_, at) => at % stride === 0)
    const signal = AbortSignal.any([this.#context.io.signal, ended.signal])
    const watching = watchSamples(httpUrl, ids.slice(0, watched), (ms) => seenMs.push(ms), signal)
    await this.#sleep(1_000)
    seenMs.length = 0
    const [startedMs, beforeS] = [performance.now(), cpuS()]
    await this.#sleep(this.#plan.restS * 1_000)
    const restCpuPercent = ((cpuS() - beforeS) / ((performance.now() - startedMs) / 1_000)) * 100
    ended.abort()
    await watching
    const { pubackMs, lost, samples } = await this.#load.take()
    return { restCpuPercent, telemetryP99Ms: p99(seenMs), pubackP99Ms: p99(pubackMs), lost, samples }
  }

  /** Jobs, and operators who ask for the state of the whole fleet. */
  async work(): Promise<WorkRun> {
    const { jobs: client, rssMb, fleetStatusS: status } = this.#cluster
    this.#context.progress(`${jobsPerS} jobs per second`)
    await this.#load.take()
    const fleetStatusS: number[] = []
    const asking = (async () => {
      for (let at = 0; at < this.#plan.statuses; at++) fleetStatusS.push(await status())
    })()
    const submitted = this.#plan.workS * jobsPerS
    const due = Array.from({ length: submitted }, (_, at) => ({ atMs: (1_000 * at) / jobsPerS }))
    await Promise.all([asking, playInTime(due, this.#context.io.signal, () => client.submit(job))])
    const { jobs, pubackMs } = await this.#load.take()
    const { p99: dispatchP99Ms } = await client.dispatchMs()
    const work = { submitted, jobs, dispatchP99Ms, pubackP99Ms: p99(pubackMs), fleetStatusS }
    return { what: 'work', ...this.#sized(), ...work, rssMb: rssMb() }
  }

  /** The process that the devices are connected to is killed, and started again with its state. */
  async restart(): Promise<RestartRun> {
    this.#context.progress('killing and restarting the broker')
    await this.#load.take()
    const startedMs = performance.now()
    await this.#cluster.restartBroker()
    const upS = (performance.now() - startedMs) / 1_000
    const backS = await this.#untilAllThere(startedMs, backWithinS)
    const { attempts, refused, unreached } = await this.#load.take()
    const counts = { attempts, refused, unreached, refusedShare: refused / attempts }
    return { what: 'restart', ...this.#sized(), upS, backS, backCpuS: this.#cluster.brokerCpuS(), ...counts }
  }

  /** @returns seconds since `startedMs` when every device is connected, and ready for the bridge; null: that took too long */
  async #untilAllThere(startedMs: number, withinS: number): Promise<number | null> {
    for (;;) {
      const s = (performance.now() - startedMs) / 1_000
      if (s > withinS) return null
      const { size } = this.#load
      if ((await this.#load.established()) === size && (await this.#cluster.readyDevices()) === size) return s
      await this.#sleep(pollMs)
    }
  }

  readonly #sleep = (ms: number) => systemClock.sleep(ms, this.#context.io.signal)
  readonly #sized = () => ({ broker: this.#broker, devices: this.#load.size })
}

const p99 = (ms: readonly number[]) => quantileOrNull(ms, 0.99)

function grownText({ devices, connectS, connectCpuS, restCpuPercent, telemetryP99Ms, rssMb }: FleetRun): string {
  const connected = connectS === null ? 'not connected in time' : `connected in ${connectS.toFixed(1)} s`
  const rest = `at rest ${restCpuPercent.toFixed(1)} % of a core, p99 ${telemetryP99Ms?.toFixed(1) ?? '–'} ms, ${rssMb} MB`
  return `${devices} devices ${connected} with ${connectCpuS.toFixed(1)} s of CPU; ${rest}`
}
