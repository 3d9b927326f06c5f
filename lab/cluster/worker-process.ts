import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Io } from '../../core/kit/base/io.ts'

type WorkerReply<Reply> = { readonly reply: Reply } | { readonly failure: string }

/** A process that answers requests by `serveRequests`, so that its work is not counted as that of the process that measures. */
export class WorkerProcess<Request extends object, Reply> implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #signal: AbortSignal

  /** @param script compiled */
  constructor(script: URL, { env, signal }: Io) {
    this.#child = fork(script, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#signal = signal
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** One request at a time. @throws BrimError RUNTIME_FAILED when the process fails, dies or does not reply in time */
  async ask(request: Request, withinMs = 600_000): Promise<Reply> {
    const [late, settled] = [AbortSignal.timeout(withinMs), new AbortController()]
    const signal = AbortSignal.any([this.#signal, late, settled.signal])
    const failed = (how: string) => new BrimError('RUNTIME_FAILED', `a process of the benchmark ${how}`)
    try {
      if (this.#hasEnded) throw failed('has ended')
      const died = once(this.#child, 'exit', { signal }).then(([code, by]) => {
        throw failed(`ended early (${by ?? code})`)
      })
      this.#child.send(request, () => {})
      const [reply] = (await Promise.race([once(this.#child, 'message', { signal }), died])) as [WorkerReply<Reply>]
      if ('failure' in reply) throw failed(`failed: ${reply.failure}`)
      return reply.reply
    } catch (error) {
      this.#child.kill('SIGKILL')
      this.#signal.throwIfAborted()
      throw late.aborted ? failed(`did not reply within ${withinMs / 1_000} s`) : error
    } finally {
      settled.abort()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hasEnded) return
    const exited = once(this.#child, 'exit')
    if (this.#child.connected) this.#child.disconnect()
    await exited
  }
}

/** Answers the requests of a `WorkerProcess`, and ends with it. */
export function serveRequests<Request, Reply>(answer: (request: Request) => Reply | Promise<Reply>): void {
  const replyTo = async (request: Request): Promise<WorkerReply<Reply>> => {
    try {
      return { reply: await answer(request) }
    } catch (error) {
      return { failure: String(error) }
    }
  }
  process.on('message', async (request: Request) => process.send?.(await replyTo(request)))
  process.on('disconnect', () => process.exit(0))
}
