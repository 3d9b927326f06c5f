import { readFile } from 'node:fs/promises'
import { projectRoot } from '../../../core/kit/base/version.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { bracketOf, meets, nextToTry, reachable, type ServiceLevel, stallsOf, type TriedGpus } from '../needed-gpus.ts'
import type { ScenarioResult } from '../run/result.ts'
import { runScenario } from '../run/run-scenario.ts'
import { capacityOf, type MeasuredBridge, measuredBridge, type ScaleRun } from './capacity.ts'
import { scaleReport } from './report.ts'
import { perDeviceS, scaleScenario } from './scale-scenario.ts'

const goal: ServiceLevel = { ttftMeanMs: 1_000, ttftP95Ms: 2_000, stalls: 0.01 }
/** The GPUs of larger fleets are those of this one, in proportion. */
const largestSearched = 1_000
/** Requests per second for which one GPU is enough in any case. */
const perGpuS = 5

interface FleetSize {
  readonly devices: number
  readonly seconds: number
}

/** Virtual seconds: fewer of larger fleets, so that memory and time are bounded. Those of the first third do not count. */
const full: readonly FleetSize[] = [
  { devices: 100, seconds: 180 },
  { devices: largestSearched, seconds: 90 },
  { devices: 10_000, seconds: 30 },
  { devices: 100_000, seconds: 9 },
]
const quick: readonly FleetSize[] = [
  { devices: 100, seconds: 45 },
  { devices: largestSearched, seconds: 21 },
  { devices: 10_000, seconds: 6 },
  { devices: 100_000, seconds: 3 },
]

const triedWith = (gpus: number, { all }: ScenarioResult): TriedGpus => ({
  gpus,
  ttftMeanMs: all.ttftMs.mean,
  ttftP95Ms: all.ttftMs.p95,
  stalls: stallsOf(all),
  unserved: Object.values(all.refused).reduce((sum, count) => sum + count, 0),
})

export const scaleBench: Bench = {
  name: 'simulate-scale',
  commandLine: 'brim simulate scale',
  quickLimit: '2 minutes',
  isTimeless: true,
  options: {},
  examples: [],
  goals: {},
  run: (context) => benchScale(context.quick ? quick : full, context),
  report: scaleReport,
}

/** `brim simulate scale` */
export const command = benchCommand(scaleBench)

/** @param sizes ascending; the last one is that of the summary */
export async function benchScale(sizes: readonly FleetSize[], { io, progress }: BenchContext): Promise<BenchResult> {
  const bridge: MeasuredBridge = measuredBridge(
    JSON.parse(await readFile(new URL('docs/results/fleet/fleet.json', projectRoot), 'utf8')),
  )
  const simulate = async (devices: number, gpus: number, seconds: number) => {
    progress(`${devices} devices, ${devices * perDeviceS} requests/s, ${seconds} s, ${gpus} GPUs`)
    const scenario = scaleScenario({ devices, gpus, seconds, countedFromS: seconds / 3 })
    const result = await runScenario(scenario, { signal: io.signal })
    io.signal.throwIfAborted()
    return result
  }
  /** The least GPUs with which a fleet keeps the level, and that level. */
  const search = async (devices: number, seconds: number) => {
    const tried: TriedGpus[] = []
    const tryWith = async (gpus: number) => {
      tried.push(triedWith(gpus, await simulate(devices, gpus, seconds)))
    }
    await tryWith(Math.ceil((devices * perDeviceS) / perGpuS))
    const level = reachable(goal, tried[0]!)
    for (;;) {
      const bracket = bracketOf(tried, level)
      const next = nextToTry(bracket, 1)
      if (next === undefined) return { gpus: bracket.high, level }
      await tryWith(next)
    }
  }

  const runs: ScaleRun[] = []
  let found: { readonly gpus: number; readonly level: ServiceLevel } | undefined
  // One after the other: each states its memory.
  for (const { devices, seconds } of sizes) {
    const isSearched = devices <= largestSearched
    if (isSearched) found = await search(devices, seconds)
    const { level, gpus: searched } = found!
    const gpus = isSearched ? searched : Math.ceil((searched * devices) / largestSearched)
    const begunMs = performance.now()
    const result = await simulate(devices, gpus, seconds)
    const own = { rssMb: process.memoryUsage.rss() / 1e6, tookS: (performance.now() - begunMs) / 1_000 }
    const keepsLevel = meets(triedWith(gpus, result), level)
    runs.push(capacityOf(devices, result, bridge, { ...own, level, isSearched, keepsLevel, seconds }))
  }
  const largest = runs.at(-1)!
  return {
    conditions: { bridge, goal, largestSearched, perGpuS },
    summary: {
      bridgesAt100k: largest.bridges,
      gpusAt100k: largest.gpus,
      devicesPerGpu: largest.devices / largest.gpus,
      requestsPerSAt100k: largest.requestsPerS,
      ttftP95MsAt100k: largest.ttftP95Ms,
      rssMbAt100k: largest.rssMb,
    },
    runs,
  }
}
