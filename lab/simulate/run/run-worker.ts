import { parentPort } from 'node:worker_threads'
import { BrimError, type ErrorCode } from '../../../core/kit/base/errors.ts'
import type { RecordTarget } from '../results/record-file.ts'
import type { Scenario } from '../scenario/scenario.ts'
import type { ScenarioResult } from './result.ts'
import { runScenario } from './run-scenario.ts'

export interface RunTask {
  readonly scenario: Scenario
  readonly folders: readonly string[]
  /** Undefined: only the result is of interest. */
  readonly records: RecordTarget | undefined
}

/** A thread that runs one scenario after the other. `stop`: the one that runs ends with what it has. */
export type ToWorker = RunTask | 'stop'

export type FromWorker =
  | { readonly share: number }
  | { readonly result: ScenarioResult }
  /** Of a BrimError, which keeps no class on its way. */
  | { readonly failure: { readonly code: ErrorCode; readonly message: string; readonly hint: string | undefined } }

const port = parentPort!
const post = (message: FromWorker): void => port.postMessage(message)
const stop = new AbortController()

port.on('message', (task: ToWorker) => {
  if (task === 'stop') stop.abort()
  else void run(task)
})

async function run({ scenario, ...task }: RunTask): Promise<void> {
  try {
    const onProgress = (share: number) => post({ share })
    post({ result: await runScenario(scenario, { ...task, signal: stop.signal, onProgress }) })
  } catch (error) {
    if (!(error instanceof BrimError)) throw error
    post({ failure: { code: error.code, message: error.message, hint: error.hint } })
  }
}
