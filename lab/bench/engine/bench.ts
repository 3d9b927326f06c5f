import type { Bench } from '../frame/bench.ts'
import { benchCommand } from '../frame/command.ts'
import { engineReport } from './report.ts'
import { benchEngine } from './run.ts'

export const engineBench: Bench = {
  name: 'engine',
  options: {},
  examples: [],
  goals: {
    inPlaceOverCopyingFp32: { min: 2 },
    inPlaceOverCopyingInt4: { min: 3 },
    packed8OverSeparateInt4: { min: 1.6 },
    packed8OverSeparateFp32: { min: 3.5 },
    qwenDecodeTokensPerS: { min: 40 },
    qwenBuildS: { max: 60 },
  },
  run: benchEngine,
  report: engineReport,
}

/** `brim bench engine` */
export const command = benchCommand(engineBench)
