import { Worker } from 'node:worker_threads'
import { BrimError } from '../../kit/base/errors.ts'
import type { GrammarQuestion, GrammarReply, GrammarWorkerData } from './grammar-worker.ts'

const entry = new URL('./grammar-worker.js', import.meta.url)

/** Heap of the thread. A tokenizer of 150,000 tokens takes 350 MB while it is read. */
const maxHeapMb = 1_024

interface Pending {
  resolve(reply: GrammarReply): void
  reject(error: unknown): void
}

/** One worker thread with compiled grammars and the answers that they constrain. It starts with the first question. */
export class GrammarThread {
  readonly #data: GrammarWorkerData
  #worker: Worker | undefined
  /** In the order of the questions. */
  #pending: Pending[] = []
  /** Of the worker: what is in it is lost with it. */
  #epoch = 0

  constructor(data: GrammarWorkerData) {
    this.#data = data
  }

  /** Counts the workers that have ended: what was compiled in one is unknown to the next. */
  get epoch(): number {
    return this.#epoch
  }

  /**
   * @param limitMs after which the thread ends, with all that it was asked
   * @throws BrimError GRAMMAR_TOO_COMPLEX (after the limit), GRAMMAR_INVALID (the library refuses it)
   */
  async ask(question: GrammarQuestion, limitMs: number): Promise<GrammarReply> {
    let limit: NodeJS.Timeout | undefined
    try {
      const reply = await new Promise<GrammarReply>((resolve, reject) => {
        this.#pending.push({ resolve, reject })
        this.#worker ??= this.#start()
        this.#worker.ref()
        this.#worker.postMessage(question)
        limit = setTimeout(() => this.stop(tooComplex(`it took more than ${limitMs / 1_000} s`)), limitMs)
      })
      if ('ignored' in reply) throw notSupported(reply.ignored)
      if ('slowMs' in reply) throw tooComplex(`each token takes ${Math.round(reply.slowMs)} ms`)
      if (!('aborted' in reply)) return reply
      const error = abortError(reply.aborted)
      this.stop(error)
      throw error
    } finally {
      clearTimeout(limit)
      if (this.#pending.length === 0) this.#worker?.unref()
    }
  }

  /** A question without a reply, if there is a thread. */
  tell(question: GrammarQuestion): void {
    this.#worker?.postMessage(question)
  }

  /** Ends the thread; it starts again with the next question. @param error of what it was asked */
  stop(error: unknown): void {
    if (!this.#worker) return
    void this.#worker.terminate()
    this.#worker = undefined
    this.#epoch += 1
    for (const { reject } of this.#pending.splice(0)) reject(error)
  }

  #start(): Worker {
    const worker = new Worker(entry, {
      workerData: this.#data,
      execArgv: ['--no-warnings'],
      resourceLimits: { maxOldGenerationSizeMb: maxHeapMb },
    })
    worker.on('message', (reply: GrammarReply) => {
      if (worker === this.#worker) this.#pending.shift()?.resolve(reply)
    })
    worker.on('error', (cause) => {
      if (worker === this.#worker)
        this.stop(new BrimError('RUNTIME_FAILED', `the thread that checks grammars ended: ${cause.message}`, { cause }))
    })
    return worker
  }
}

export const tooComplex = (why: string): BrimError =>
  new BrimError('GRAMMAR_TOO_COMPLEX', `the schema or grammar is too complex: ${why}`, {
    hint: 'shorten it: fewer alternatives, nested objects and large repetitions',
  })

/** The library prints "[FATAL] file:line: Check failed: (…) is false: reason", and what memory it lacks. */
function abortError(printed: string): BrimError {
  if (/memory|bad_alloc|RangeError/i.test(printed)) return tooComplex('it needs too much memory')
  return notSupported(printed)
}

/** The library prints "[WARNING] file:line: reason" for what it ignores. */
function notSupported(printed: string): BrimError {
  const reason = /(?:is false|\[\w+\] [^:]*:\d+): (.*)/s.exec(printed)?.[1] ?? printed
  return new BrimError('GRAMMAR_INVALID', `the schema or grammar is not supported: ${reason.trim().slice(0, 300)}`, {
    hint: 'correct it, or leave out what is not supported; a schema that is not strict is kept to as far as it is supported',
  })
}
