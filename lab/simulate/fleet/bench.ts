import type { Bench } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { dataOption, defaultDataFolder } from '../run/data-folder.ts'
import type { ScenarioResult } from '../run/result.ts'
import { runAll } from '../run/run-all.ts'
import { dollarsPerToken, fleetScenario } from './fleet-scenario.ts'
import { ablations, type Method, methods } from './methods.ts'
import { leastEnough, meets, stallsOf } from './needed-gpus.ts'
import { readDay } from './read-day.ts'
import { type FleetRun, fleetReport } from './report.ts'
import type { DayRequest } from './trace-day.ts'

const devices = 1_000
/** GPUs of the runs that are compared. */
const gpus = 10
/** More are not tried. */
const mostGpus = 16
/** P95 of the time to the first token, and waiting over reading time. */
export const level = { ttftMs: 5_000, stalls: 0.02 }
/** Seconds of the day that are simulated, from its busiest minute on. */
const fromS = 120
const windowS = { quick: 20, full: 60 }

const options = { data: dataOption }

export const fleetBench: Bench<typeof options> = {
  name: 'simulate-fleet',
  commandLine: 'brim simulate fleet',
  quickLimit: '2 minutes',
  options,
  examples: [],
  goals: {},
  async run({ quick, io, progress }, { data = defaultDataFolder() }) {
    const seed = 1
    const day = await readDay(data, seed)
    const seconds = quick ? windowS.quick : windowS.full
    const requests = day
      .filter(({ atS }) => atS >= fromS && atS < fromS + seconds)
      .map((request) => ({ ...request, atS: request.atS - fromS }))
    const all = [...methods, ...ablations]
    const simulate = async (chosen: readonly (readonly [Method, number])[], what: string) => {
      progress(`${what}: ${chosen.length} runs of ${requests.length} requests`)
      const scenarios = chosen.map(([method, count]) => fleetScenario(method, requests, { devices, gpus: count }, { seed }))
      const results = await runAll(scenarios, { folders: [data], signal: io.signal })
      io.signal.throwIfAborted()
      return results as ScenarioResult[]
    }
    const results = await simulate(
      all.map((method) => [method, gpus]),
      `${gpus} GPUs`,
    )
    // A device of its own is not helped by GPUs.
    const searched = methods.filter(({ needsCloud }) => needsCloud)
    const needed = await leastEnough(searched.length, mostGpus, async (counts) => {
      const entries = [...counts]
      const outcomes = await simulate(
        entries.map(([i, count]) => [searched[i]!, count]),
        'GPUs needed',
      )
      return new Map(entries.map(([i], at) => [i, meets(outcomes[at]!, level)]))
    })
    const runs = all.map((method, i) => runOf(method, results[i]!, requests, needed[searched.indexOf(method)]))
    return {
      conditions: {
        devices,
        gpus,
        mostGpus,
        level,
        requests: requests.length,
        simulatedS: seconds,
        dayS: day.at(-1)!.atS,
        dayRequests: day.length,
        seed,
      },
      summary: summarise(runs),
      runs,
    }
  },
  report: fleetReport,
}

/** `brim simulate fleet` */
export const command = benchCommand(fleetBench)

function runOf(
  method: Method,
  result: ScenarioResult,
  requests: readonly DayRequest[],
  neededGpus: number | undefined,
): FleetRun {
  const { all, modes, engines, durationS } = result
  const { work } = all
  const inPrivate = modes.private
  const keepsText = method.modes.private === 'hat' || method.modes.private === 'local'
  const outputTokens = requests.reduce((sum, request) => sum + request.outputTokens, 0)
  // Under HAT device and cloud make each token together, with the cloud's model.
  const bySplit = Object.entries(modes).reduce(
    (sum, [part, { work: own }]) => sum + (isSplit(method, part) ? own.deviceOutputTokens : 0),
    0,
  )
  return {
    method: method.name,
    requests: all.requests,
    unserved: all.requests - all.answered,
    ttftMeanMs: all.ttftMs.mean,
    ttftP95Ms: all.ttftMs.p95,
    ttftP99Ms: all.ttftMs.p99,
    tbtMs: all.answerTbtMs.mean,
    latencyMs: all.latencyMs.mean,
    // Runs last as long as their slowest answer: what each second has would punish those that pace answers.
    qos: (all.qos * durationS) / all.requests,
    stalls: stallsOf(result),
    dollars: dollarsPerToken.prompt * work.serverPromptTokens + dollarsPerToken.output * work.serverOutputTokens,
    joules: work.joules,
    gpuBusy: engines.reduce((sum, { busyShare }) => sum + busyShare, 0) / Math.max(1, engines.length),
    privateLeft: keepsText ? 0 : (inPrivate?.atServer ?? 0),
    privateRequests: inPrivate?.requests ?? 0,
    bySmallModels: (work.deviceOutputTokens - bySplit) / outputTokens,
    neededGpus: neededGpus ?? null,
    durationS,
    parts: Object.entries(modes).map(([part, own]) => ({
      part,
      ttftMeanMs: own.ttftMs.mean,
      ttftP95Ms: own.ttftMs.p95,
      latencyMs: own.latencyMs.mean,
    })),
  }
}

const isSplit = ({ modes }: Method, part: string): boolean => modes[part as keyof Method['modes']] === 'hat'

function summarise(runs: readonly FleetRun[]) {
  const [brim, ...rest] = runs
  const of = (name: string) => rest.find(({ method }) => method === name)!
  const over = (name: string, value: (run: FleetRun) => number) => value(brim!) / value(of(name))
  return {
    ttftOverCloudOnly: over('cloud only', ({ ttftMeanMs }) => ttftMeanMs),
    qosOverCloudOnly: over('cloud only', ({ qos }) => qos),
    dollarsOverCloudOnly: over('cloud only', ({ dollars }) => dollars),
    ttftOverDeviceOnly: over('device only', ({ ttftMeanMs }) => ttftMeanMs),
    joulesOverDeviceOnly: over('device only', ({ joules }) => joules),
    qosOverBestPaper: brim!.qos / Math.max(...rest.filter(({ method }) => method.endsWith('alone')).map(({ qos }) => qos)),
    privateLeft: brim!.privateLeft,
  }
}
