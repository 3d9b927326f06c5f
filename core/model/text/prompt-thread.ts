import { Worker } from 'node:worker_threads'
import { BrimError } from '../../kit/base/errors.ts'
import { clientOf } from '../../policy/fairness/client.ts'
import { RoundRobin } from '../../policy/fairness/round-robin.ts'
import type { PromptResult, PromptTask, WorkerModel } from './prompt-worker.ts'

const entry = new URL('./prompt-worker.js', import.meta.url)

/** The thread holds a second tokenizer, so it ends after this time without a task. */
const idleMs = 60_000

/** Heap of the thread. A prompt of 2 MiB takes 350 MB, a tokenizer of 150,000 tokens about as much. */
const maxHeapMb = 1_024

interface Pending {
  readonly task: PromptTask
  readonly client: string
  resolve(ids: readonly number[]): void
  reject(error: unknown): void
}

/**
 * Tokenises one prompt after the other in a worker thread, which starts with the first. Clients take turns, and of each client the
 * shortest prompt is next.
 */
export class PromptThread {
  readonly #model: WorkerModel
  readonly #waiting = new RoundRobin<Pending>()
  #worker: Worker | undefined
  #current: Pending | undefined
  #idle: NodeJS.Timeout | undefined

  constructor(model: WorkerModel) {
    this.#model = model
  }

  /**
   * On abort a task that runs ends at once, with its thread.
   * @param user as `clientOf`
   * @throws BrimError CANCELED, OUT_OF_MEMORY, and as the task does
   */
  async run(task: PromptTask, user: string, signal: AbortSignal): Promise<readonly number[]> {
    if (signal.aborted) throw canceled()
    const client = clientOf(user)
    let onAbort = () => {}
    try {
      return await new Promise((resolve, reject) => {
        const pending = { task, client, resolve, reject }
        onAbort = () => this.#cancel(pending)
        signal.addEventListener('abort', onAbort, { once: true })
        this.#waiting.add(client, pending, (other) => other.task.prompt.length > task.prompt.length)
        this.#next()
      })
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  #next(): void {
    if (this.#current) return
    this.#current = this.#waiting.next()
    clearTimeout(this.#idle)
    if (this.#current) {
      this.#worker ??= this.#start()
      this.#worker.ref()
      this.#worker.postMessage(this.#current.task)
    } else {
      this.#worker?.unref()
      this.#idle = setTimeout(() => this.#stop(), idleMs).unref()
    }
  }

  #start(): Worker {
    const worker = new Worker(entry, {
      workerData: this.#model,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    })
    worker.on('message', (result: PromptResult) => {
      // The last result of a thread that was ended meanwhile.
      if (worker !== this.#worker) return
      const done = this.#current
      this.#current = undefined
      if ('error' in result) done?.reject(new BrimError(result.error.code, result.error.message, { hint: result.error.hint }))
      else done?.resolve(Array.from(result.ids))
      this.#next()
    })
    worker.on('error', (cause) => {
      if (worker !== this.#worker) return
      const failed = this.#current
      this.#stop()
      failed?.reject(failure(cause))
      this.#next()
    })
    return worker
  }

  #cancel(pending: Pending): void {
    pending.reject(canceled())
    if (pending !== this.#current) return void this.#waiting.remove(pending.client, pending)
    this.#stop()
    // Later: at a shutdown all tasks are canceled in this turn, and each would start a thread first.
    setImmediate(() => this.#next())
  }

  /** Ends the thread and the task that it runs. */
  #stop(): void {
    void this.#worker?.terminate()
    this.#worker = undefined
    this.#current = undefined
  }
}

const canceled = () => new BrimError('CANCELED', 'the prompt was not tokenised to its end: its request was canceled')

function failure(cause: Error): BrimError {
  if ('code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY')
    return new BrimError('OUT_OF_MEMORY', 'the prompt cannot be tokenised: there is not enough memory', {
      cause,
      hint: 'shorten the prompt',
    })
  return new BrimError('TOKENIZER_INVALID', `the prompt cannot be tokenised: ${cause.message}`, { cause })
}
