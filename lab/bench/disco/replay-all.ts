import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import type { BenchContext } from '../../frame/bench.ts'
import type { ReplayTask, ReplayWorkerData } from './replay-worker.ts'
import { type CostRun, mergeSeeds, type SeedRun, type TtftRun } from './runs.ts'

const entry = new URL('./replay-worker.js', import.meta.url)

/** Replays every trace with every seed, a thread on each core. */
export async function replayAll(
  { plan, data }: ReplayWorkerData,
  { io, progress }: Pick<BenchContext, 'io' | 'progress'>,
): Promise<(TtftRun | CostRun)[]> {
  const seeds = Array.from({ length: plan.seeds }, (_, i) => i + 1)
  const tasks = seeds.flatMap((seed) => data.traces.map((_, trace): ReplayTask => ({ trace, seed })))
  const results: (readonly SeedRun[])[] = []
  let begun = 0
  let done = 0
  const work = async () => {
    const worker = new Worker(entry, { workerData: { plan, data } satisfies ReplayWorkerData, execArgv: [] })
    try {
      while (begun < tasks.length) {
        const at = begun++
        worker.postMessage(tasks[at])
        const [runs] = (await once(worker, 'message', { signal: io.signal })) as [SeedRun[]]
        results[at] = runs
        done += 1
        if (done % data.traces.length === 0) progress(`replay: ${done} of ${tasks.length} traces and seeds`)
      }
    } finally {
      await worker.terminate()
    }
  }
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), tasks.length) }, work))
  return mergeSeeds(results)
}
