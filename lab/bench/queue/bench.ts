import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench, BenchContext, BenchResult } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { benchDispatch } from './dispatch.ts'
import { queueReport } from './report.ts'
import { batchSize, benchEnqueue, benchFinished, summariseStore } from './store.ts'

export const queueBench: Bench = {
  name: 'queue',
  quickRepetitions: 2,
  options: {},
  examples: [],
  goals: {
    enqueueOverRaw: { min: 0.8 },
    enqueueBatchedOverRaw: { min: 0.8 },
    slowdownAt100k: { max: 1.1 },
    dispatchP50Ms: { max: 5 },
    dispatchP99Ms: { max: 20 },
  },
  run: async (context) => benchQueue(context.quick ? quick : full, await ensureDemoBundle(), context),
  report: queueReport,
}

/** `brim bench queue` */
export const command = benchCommand(queueBench)

interface Effort {
  readonly rounds: number
  /** Of each round, and of the dispatch. */
  readonly jobs: number
  /** Jobs in the full database. */
  readonly finished: number
  readonly devices: number
  /** Submissions per second to the bridge. */
  readonly perS: number
}

const full: Effort = { rounds: 15, jobs: 4_000, finished: 100_000, devices: 200, perS: 100 }
const quick: Effort = { ...full, rounds: 5, jobs: 1_000 }

export async function benchQueue(effort: Effort, bundle: string, { progress, io }: BenchContext): Promise<BenchResult> {
  const { finished, devices, jobs, perS } = effort
  const dir = diskFolder()
  try {
    const rounds = benchEnqueue(dir, effort, progress)
    const lives = benchFinished(dir, effort, progress)
    const dispatch = await benchDispatch({ bundle, dir, devices, jobs, perS }, io, progress)
    const { p50Ms: dispatchP50Ms, p99Ms: dispatchP99Ms, deviceCommitP50Ms: dispatchDeviceCommitP50Ms } = dispatch
    return {
      conditions: { synchronous: 'FULL', journal: 'WAL', batch: batchSize, finished, devices, jobs, perS },
      summary: { ...summariseStore(rounds, lives), dispatchP50Ms, dispatchP99Ms, dispatchDeviceCommitP50Ms },
      runs: [...rounds, ...lives, dispatch],
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** A folder below the project's, which is on a disk; the system's temporary folder may be in memory. */
function diskFolder(): string {
  const cache = fileURLToPath(new URL('.cache/', projectRoot))
  mkdirSync(cache, { recursive: true })
  return mkdtempSync(join(cache, 'bench-queue-'))
}
