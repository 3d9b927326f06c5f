import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../../core/base/version.ts'
import { ensureDemoBundle } from '../../cluster/demo-bundles.ts'
import type { Bench } from '../../frame/bench.ts'
import { benchCommand } from '../../frame/command.ts'
import { benchDispatch } from './dispatch.ts'
import { queueReport } from './report.ts'
import { batchSize, benchEnqueue, benchFinished, summariseStore } from './store.ts'

const finishedJobs = 100_000
const devices = 200
const submissionsPerS = 100

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
  async run({ quick, progress, io }) {
    const effort = quick ? { rounds: 5, jobs: 1_000 } : { rounds: 15, jobs: 4_000 }
    const dir = diskFolder()
    try {
      const rounds = benchEnqueue(dir, effort, progress)
      const lives = benchFinished(dir, { ...effort, finished: finishedJobs }, progress)
      const bundle = await ensureDemoBundle()
      const dispatch = await benchDispatch({ bundle, dir, devices, jobs: effort.jobs, perS: submissionsPerS }, io, progress)
      const { p50Ms: dispatchP50Ms, p99Ms: dispatchP99Ms } = dispatch
      const store = { synchronous: 'FULL', journal: 'WAL', batch: batchSize, finished: finishedJobs }
      return {
        conditions: { ...store, devices, jobs: effort.jobs, perS: submissionsPerS },
        summary: { ...summariseStore(rounds, lives), dispatchP50Ms, dispatchP99Ms },
        runs: [...rounds, ...lives, dispatch],
      }
    } finally {
      rmSync(dir, { recursive: true, force: true })
    }
  },
  report: queueReport,
}

/** `brim bench queue` */
export const command = benchCommand(queueBench)

/** A folder below the project's, which is on a disk; the system's temporary folder may be in memory. */
function diskFolder(): string {
  const cache = fileURLToPath(new URL('.cache/', projectRoot))
  mkdirSync(cache, { recursive: true })
  return mkdtempSync(join(cache, 'bench-queue-'))
}
