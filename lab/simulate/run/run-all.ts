import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import type { RecordTarget } from '../results/record-file.ts'
import type { Scenario } from '../scenario/scenario.ts'
import type { ScenarioResult } from './result.ts'
import { type RunScenarioOptions, runScenario } from './run-scenario.ts'
import type { FromWorker, RunTask, ToWorker } from './run-worker.ts'

/** Threads run built JavaScript, also where the tests run the TypeScript sources. */
const entry = import.meta.url.endsWith('.ts')
  ? new URL('dist/lab/simulate/run/run-worker.js', projectRoot)
  : new URL('./run-worker.js', import.meta.url)

export interface RunAllOptions extends Omit<RunScenarioOptions, 'onRecord' | 'records'> {
  /** Threads; as many as there are cores by default. */
  readonly workers?: number
  /** Of each scenario; by default none has records. */
  readonly records?: readonly RecordTarget[] | undefined
  /** Of a scenario, in the error that it ends with; absent: no name. */
  nameOf?(at: number): string
  /** Called with each result, in the order in which the runs end. */
  onResult?(at: number, result: ScenarioResult): void
}

/**
 * Runs scenarios, one on each core. The results are in the order of the scenarios, whichever core had them. The first that
 * fails ends all.
 * @returns undefined for those that had not begun when the run was aborted
 * @throws BrimError as runScenario; OUT_OF_MEMORY, RUNTIME_FAILED where a thread ends
 */
export async function runAll(
  scenarios: readonly Scenario[],
  { workers = availableParallelism(), folders = [], signal, records, nameOf, onProgress, onResult }: RunAllOptions = {},
): Promise<(ScenarioResult | undefined)[]> {
  const results: (ScenarioResult | undefined)[] = scenarios.map(() => undefined)
  const shares = scenarios.map(() => 0)
  const progressed = (at: number, share: number) => {
    shares[at] = share
    // After an interruption there is nothing to wait for.
    if (!signal?.aborted) onProgress?.(shares.reduce((sum, each) => sum + each, 0) / shares.length)
  }
  let begun = 0
  const runRest = async (run: (task: RunTask, onProgress: (share: number) => void) => Promise<ScenarioResult>) => {
    while (begun < scenarios.length && !signal?.aborted) {
      const at = begun++
      const task = { scenario: scenarios[at]!, folders, records: records?.[at] }
      const result = await run(task, (share) => progressed(at, share)).catch((error: unknown) => {
        throw nameOf ? named(error, nameOf(at)) : error
      })
      results[at] = result
      onResult?.(at, result)
      progressed(at, 1)
    }
  }
  const threads = Math.min(workers, scenarios.length)
  if (threads <= 1) {
    await runRest(({ scenario, ...task }, onProgress) =>
      runScenario(scenario, { ...task, onProgress, ...(signal && { signal }) }),
    )
    return results
  }
  const running = Array.from({ length: threads }, () => new Worker(entry, { execArgv: [] }))
  const stop = () => {
    for (const worker of running) worker.postMessage('stop' satisfies ToWorker)
  }
  signal?.addEventListener('abort', stop)
  try {
    await Promise.all(running.map((worker) => runRest((task, onProgress) => runInThread(worker, task, onProgress))))
  } finally {
    // Where one has failed, the others are at work.
    begun = scenarios.length
    signal?.removeEventListener('abort', stop)
    await Promise.all(running.map((worker) => worker.terminate()))
  }
  return results
}

const named = (error: unknown, name: string): unknown =>
  error instanceof BrimError && name !== ''
    ? new BrimError(error.code, `${name}: ${error.message}`, { cause: error.cause, hint: error.hint })
    : error

/** @throws BrimError */
function runInThread(worker: Worker, task: RunTask, onProgress: (share: number) => void): Promise<ScenarioResult> {
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      worker.off('message', onMessage).off('error', onError).off('exit', onExit)
      settle()
    }
    const onMessage = (message: FromWorker) => {
      if ('share' in message) return onProgress(message.share)
      end(() => {
        if ('result' in message) resolve(message.result)
        else reject(new BrimError(message.failure.code, message.failure.message, { hint: message.failure.hint }))
      })
    }
    const onError = (error: Error) => end(() => reject(outOfMemory(error) ?? error))
    const onExit = (code: number) =>
      end(() => reject(new BrimError('RUNTIME_FAILED', `a thread of the simulator has ended with code ${code}`)))
    worker.on('message', onMessage).on('error', onError).on('exit', onExit)
    worker.postMessage(task)
  })
}

function outOfMemory(error: Error & { readonly code?: string }): BrimError | undefined {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return undefined
  return new BrimError('OUT_OF_MEMORY', 'a thread of the simulator has no memory left', {
    cause: error,
    hint: 'simulate fewer requests or devices, or less at once with --workers 1',
  })
}
