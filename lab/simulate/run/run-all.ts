import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { BrimError } from '../../../core/base/errors.ts'
import { projectRoot } from '../../../core/base/version.ts'
import type { Scenario } from '../scenario/scenario.ts'
import type { ScenarioResult } from './result.ts'
import { type RunScenarioOptions, runScenario } from './run-scenario.ts'
import type { FromWorker, ToWorker } from './run-worker.ts'

/** Threads run built JavaScript, also where the tests run the TypeScript sources. */
const entry = import.meta.url.endsWith('.ts')
  ? new URL('dist/lab/simulate/run/run-worker.js', projectRoot)
  : new URL('./run-worker.js', import.meta.url)

export interface RunAllOptions extends Omit<RunScenarioOptions, 'onRecord'> {
  /** Threads; as many as there are cores by default. */
  readonly workers?: number
}

/**
 * Runs scenarios, one on each core. The results are in the order of the scenarios, whichever core had them.
 * @returns undefined for those that had not begun when the run was aborted
 * @throws BrimError as runScenario
 */
export async function runAll(
  scenarios: readonly Scenario[],
  { workers = availableParallelism(), folders = [], signal, onProgress }: RunAllOptions = {},
): Promise<(ScenarioResult | undefined)[]> {
  const results: (ScenarioResult | undefined)[] = scenarios.map(() => undefined)
  const shares = scenarios.map(() => 0)
  const progressed = (at: number, share: number) => {
    shares[at] = share
    onProgress?.(shares.reduce((sum, each) => sum + each, 0) / shares.length)
  }
  let begun = 0
  const runRest = async (run: (scenario: Scenario, onProgress: (share: number) => void) => Promise<ScenarioResult>) => {
    while (begun < scenarios.length && !signal?.aborted) {
      const at = begun++
      results[at] = await run(scenarios[at]!, (share) => progressed(at, share))
      progressed(at, 1)
    }
  }
  const threads = Math.min(workers, scenarios.length)
  if (threads <= 1)
    await runRest((scenario, onProgress) => runScenario(scenario, { folders, onProgress, ...(signal && { signal }) }))
  else
    await Promise.all(
      Array.from({ length: threads }, async () => {
        const worker = new Worker(entry, { execArgv: [] })
        const stop = () => worker.postMessage('stop' satisfies ToWorker)
        signal?.addEventListener('abort', stop)
        try {
          await runRest((scenario, onProgress) => runInThread(worker, { scenario, folders }, onProgress))
        } finally {
          signal?.removeEventListener('abort', stop)
          await worker.terminate()
        }
      }),
    )
  return results
}

/** @throws BrimError and what else the run threw */
function runInThread(
  worker: Worker,
  task: Exclude<ToWorker, 'stop'>,
  onProgress: (share: number) => void,
): Promise<ScenarioResult> {
  return new Promise((resolve, reject) => {
    const heard = (message: FromWorker) => {
      if ('share' in message) return onProgress(message.share)
      worker.off('message', heard).off('error', reject)
      if ('result' in message) resolve(message.result)
      else reject(new BrimError(message.failure.code, message.failure.message, { hint: message.failure.hint }))
    }
    worker.on('message', heard).on('error', reject)
    worker.postMessage(task)
  })
}
