import type { Summary } from '../../frame/bench.ts'
import type { FleetRun } from './fleet-run.ts'
import { medianOf, runsOf } from './medians.ts'
import { methods } from './methods.ts'
import { needsOf } from './needs.ts'

/** Brim's medians beside those of the others, with enough GPUs and with too few. */
export function summarise(
  runs: readonly FleetRun[],
  { studied, overloaded }: { readonly studied: number; readonly overloaded: number },
): Summary {
  const of = (method: string, gpus: number, value: (run: FleetRun) => number) => medianOf(runsOf(runs, method, gpus), value)
  const over = (other: string, gpus: number, value: (run: FleetRun) => number) => of('Brim', gpus, value) / of(other, gpus, value)
  const papers = methods.flatMap(({ name }) => (name.endsWith(' alone') ? [name] : []))
  const bestPaper = (gpus: number, value: (run: FleetRun) => number, best: (...values: number[]) => number) =>
    best(...papers.map((name) => of(name, gpus, value)))
  const ttft = (run: FleetRun) => run.ttftMeanMs
  const p95 = (run: FleetRun) => run.ttftP95Ms
  const qoe = (run: FleetRun) => run.qoe
  const cost = (run: FleetRun) => run.tokenDollars + run.energyDollars
  const needs = needsOf(runs)
  const neededBy = (name: string) => needs.find(({ method }) => method === name)?.high ?? null
  return {
    qoe: of('Brim', studied, qoe),
    qoeOverCloudOnly: over('cloud only', studied, qoe),
    qoeOverBestPaper: of('Brim', studied, qoe) / bestPaper(studied, qoe, Math.max),
    ttftOverCloudOnly: over('cloud only', studied, ttft),
    ttftP95OverCloudOnly: over('cloud only', studied, p95),
    ttftOverBestPaper: of('Brim', studied, ttft) / bestPaper(studied, ttft, Math.min),
    costOverCloudOnly: over('cloud only', studied, cost),
    joulesOverDeviceOnly: over('device only', studied, ({ joules }) => joules),
    overloadedQoeOverCloudOnly: over('cloud only', overloaded, qoe),
    overloadedQoeOverBestPaper: of('Brim', overloaded, qoe) / bestPaper(overloaded, qoe, Math.max),
    overloadedTtftOverCloudOnly: over('cloud only', overloaded, ttft),
    overloadedTtftOverBestPaper: of('Brim', overloaded, ttft) / bestPaper(overloaded, ttft, Math.min),
    neededGpus: neededBy('Brim'),
    neededGpusCloudOnly: neededBy('cloud only'),
    privateLeft: of('Brim', studied, ({ privateLeft }) => privateLeft),
  }
}
