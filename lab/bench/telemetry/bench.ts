import type { Bench } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { costOf, type DeviceCost, devicesToMeasure, everyS } from './device-cost.ts'
import { telemetryReport } from './report.ts'

export const telemetryBench: Bench = {
  name: 'telemetry',
  options: {},
  examples: [],
  goals: { mostPercentOfCore: { max: 0.5 } },
  async run({ quick, progress, io }) {
    const samples = quick ? 50 : 300
    const runs: DeviceCost[] = []
    for (const device of devicesToMeasure()) {
      const cost = await costOf(device, samples, io)
      progress(`${device}: ${cost.cpuMs} ms of CPU per sample`)
      runs.push(cost)
    }
    return { conditions: { samples, everyS }, summary: summarise(runs), runs }
  },
  report: telemetryReport,
}

/** `brim bench telemetry` */
export const command = benchCommand(telemetryBench)

export function summarise(runs: readonly DeviceCost[]) {
  const percentOf = (name: string) => runs.find(({ device }) => device === name)?.percentOfCore ?? null
  return {
    mostCpuMs: Math.max(...runs.map(({ cpuMs }) => cpuMs)),
    mostPercentOfCore: Math.max(...runs.map(({ percentOfCore }) => percentOfCore)),
    thisMachinePercentOfCore: percentOf('this machine'),
    otherPercentOfCore: percentOf('other'),
  }
}
