import { parentPort, workerData } from 'node:worker_threads'
import type { ReplayData } from './data.ts'
import type { Plan } from './plan.ts'
import { replaySeed } from './replay-seed.ts'

/** A thread that replays one trace with one seed after the other. */
export interface ReplayWorkerData {
  readonly plan: Plan
  readonly data: Pick<ReplayData, 'traces' | 'shapes'>
}

/** Index of the trace, and the seed. */
export interface ReplayTask {
  readonly trace: number
  readonly seed: number
}

const { plan, data } = workerData as ReplayWorkerData
parentPort?.on('message', ({ trace, seed }: ReplayTask) => {
  parentPort?.postMessage(replaySeed(plan, data.traces[trace]!, data.shapes, seed))
})
