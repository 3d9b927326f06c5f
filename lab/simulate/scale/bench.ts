import { readFile } from 'node:fs/promises'
import { projectRoot } from '../../../core/base/version.ts'
import type { Bench } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { runScenario } from '../run/run-scenario.ts'
import { capacityOf, type MeasuredBridge, measuredBridge, type ScaleRun } from './capacity.ts'
import { scaleReport } from './report.ts'
import { perDeviceS, scaleScenario } from './scale-scenario.ts'

const sizes = [100, 1_000, 10_000, 100_000]
/** Virtual seconds: fewer of larger fleets, so that memory and time are bounded. */
const windowS = { quick: [30, 15, 8, 3], full: [60, 30, 15, 6] }

export const scaleBench: Bench = {
  name: 'simulate-scale',
  commandLine: 'brim simulate scale',
  quickLimit: '2 minutes',
  options: {},
  examples: [],
  goals: {},
  async run({ quick, io, progress }) {
    const bridge: MeasuredBridge = measuredBridge(
      JSON.parse(await readFile(new URL('docs/results/fleet/fleet.json', projectRoot), 'utf8')),
    )
    const runs: ScaleRun[] = []
    // One after the other: each states its memory.
    for (const [i, devices] of sizes.entries()) {
      const seconds = (quick ? windowS.quick : windowS.full)[i]!
      progress(`${devices} devices, ${devices * perDeviceS} requests/s, ${seconds} s`)
      const begunMs = performance.now()
      const scenario = scaleScenario(devices, seconds)
      const result = await runScenario(scenario, { signal: io.signal })
      io.signal.throwIfAborted()
      const rssMb = process.memoryUsage.rss() / 1e6
      runs.push(capacityOf(devices, result, bridge, { rssMb, tookS: (performance.now() - begunMs) / 1_000 }))
    }
    const largest = runs.at(-1)!
    return {
      conditions: { bridge },
      summary: {
        bridgesAt100k: largest.bridges,
        gpusAt100k: largest.gpus,
        requestsPerSAt100k: largest.requestsPerS,
        rssMbAt100k: largest.rssMb,
      },
      runs,
    }
  },
  report: scaleReport,
}

/** `brim simulate scale` */
export const command = benchCommand(scaleBench)
