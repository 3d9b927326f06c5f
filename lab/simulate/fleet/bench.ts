import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { nextToTry } from '../needed-gpus.ts'
import { dataOption, defaultDataFolder } from '../run/data-folder.ts'
import type { ScenarioResult } from '../run/result.ts'
import { runAll } from '../run/run-all.ts'
import type { FleetPlan } from './fleet-conditions.ts'
import { type FleetRun, fleetRun } from './fleet-run.ts'
import { fleetScenario } from './fleet-scenario.ts'
import { ablations, type Method, methods } from './methods.ts'
import { needsOf } from './needs.ts'
import { readTraces } from './read-day.ts'
import { fleetReport } from './report.ts'
import { summarise } from './summary.ts'
import { busiest, traceDay } from './trace-day.ts'

const devices = 1_000

const plans: Readonly<Record<'quick' | 'full', FleetPlan>> = {
  quick: {
    counts: [8, 16, 24],
    overloaded: 8,
    studied: 16,
    ablated: [16],
    exactness: 8,
    seeds: [1, 2],
    windowS: 60,
    warmUpS: 20,
    coolDownS: 10,
  },
  full: {
    counts: [6, 8, 12, 16, 20, 24, 32],
    overloaded: 8,
    studied: 16,
    ablated: [8, 16],
    exactness: 1,
    seeds: [1, 2, 3],
    windowS: 300,
    warmUpS: 60,
    coolDownS: 30,
  },
}

const options = { data: dataOption }

export const fleetBench: Bench<typeof options> = {
  name: 'simulate-fleet',
  commandLine: 'brim simulate fleet',
  quickLimit: '3 minutes',
  isTimeless: true,
  options,
  examples: [],
  goals: {},
  run: (context, { data = defaultDataFolder() }) => benchFleet(context.quick ? plans.quick : plans.full, data, context),
  report: fleetReport,
}

/** `brim simulate fleet` */
export const command = benchCommand(fleetBench)

/** @param data folder of the traces */
export async function benchFleet(plan: FleetPlan, data: string, { io, progress }: BenchContext): Promise<BenchResult> {
  const { counts, overloaded, studied, ablated, exactness, seeds, windowS, warmUpS, coolDownS } = plan
  const traces = await readTraces(data)
  const counted = { fromS: warmUpS, untilS: windowS - coolDownS }
  const days = new Map(seeds.map((seed) => [seed, traceDay(traces, seed)]))
  const requestsOf = (seed: number) => busiest(days.get(seed)!, windowS)
  const runs: FleetRun[] = []

  const simulate = async (tasks: readonly (readonly [Method, number])[], what: string) => {
    const all = tasks.flatMap(([method, gpus]) => seeds.map((seed) => ({ method, gpus, seed })))
    progress(`${what}: ${all.length} runs`)
    const scenarios = all.map(({ method, gpus, seed }) =>
      fleetScenario(method, requestsOf(seed), { devices, gpus }, { seed, counted }),
    )
    const results = await runAll(scenarios, { folders: [data], signal: io.signal })
    io.signal.throwIfAborted()
    const isCounted = ({ atS }: { readonly atS: number }) => atS >= counted.fromS && atS < counted.untilS
    for (const [at, { method, ...rest }] of all.entries())
      runs.push(fleetRun(method, rest, results[at] as ScenarioResult, requestsOf(rest.seed).filter(isCounted)))
  }
  // Together: each call starts threads of its own, which compile everything again.
  await simulate(
    [
      ...methods.flatMap((method) => (method.needsCloud ? counts : [0]).map((gpus): [Method, number] => [method, gpus])),
      ...ablations.flatMap((method) => ablated.map((gpus): [Method, number] => [method, gpus])),
    ],
    'every method, and Brim without each part',
  )
  for (;;) {
    const next = needsOf(runs).flatMap(({ method: name, ...bracket }): [Method, number][] => {
      const gpus = nextToTry(bracket, exactness)
      return gpus === undefined ? [] : [[methods.find((method) => method.name === name)!, gpus]]
    })
    if (next.length === 0) break
    await simulate(next, 'GPUs needed')
  }
  const day = days.get(seeds[0]!)!
  return {
    conditions: {
      devices,
      ...plan,
      requests: requestsOf(seeds[0]!).length,
      dayS: day.at(-1)!.atS,
      dayRequests: day.length,
    },
    summary: summarise(runs, { studied, overloaded }),
    runs,
  }
}
