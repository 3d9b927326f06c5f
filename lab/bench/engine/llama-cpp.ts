import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'

const Completion = z.object({
  tokens: z.array(z.int()).default([]),
  timings: z.object({
    prompt_n: z.int(),
    prompt_ms: z.number(),
    predicted_n: z.int(),
    predicted_ms: z.number(),
  }),
})

interface Setting {
  /** The server's program: llama-server of llama.cpp. */
  readonly program: string
  readonly gguf: string
  readonly threads: number
  readonly context: number
}

const startMs = 120_000

/** llama.cpp's server in a process of its own, which measures itself. */
export class LlamaCpp implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #url: string
  readonly #signal: AbortSignal

  private constructor(child: ChildProcess, url: string, signal: AbortSignal) {
    this.#child = child
    this.#url = url
    this.#signal = signal
  }

  /** @throws BrimError RUNTIME_UNAVAILABLE */
  static async start({ program, gguf, threads, context }: Setting, { env, signal }: Io): Promise<LlamaCpp> {
    const port = await freePort()
    const argv = ['-m', gguf, '-t', `${threads}`, '-c', `${context}`, '-np', '1', '--host', '127.0.0.1', '--port', `${port}`]
    const child = spawn(program, argv, { env, stdio: ['ignore', 'ignore', 'ignore'] })
    const ended = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(error.message))
      child.once('exit', (code, by) => resolve(`it ended (${by ?? code})`))
    })
    const server = new LlamaCpp(child, `http://127.0.0.1:${port}`, signal)
    const why = await Promise.race([ended, server.#untilReady()])
    if (why === undefined) return server
    child.kill('SIGKILL')
    signal.throwIfAborted()
    throw new BrimError('RUNTIME_UNAVAILABLE', `${program} does not serve ${gguf}: ${why}`, {
      hint: "install llama.cpp, and name its server's program with --llama-server",
    })
  }

  /** @returns ms of a prompt of these tokens */
  async prefill(ids: readonly number[]): Promise<number> {
    const { timings } = await this.#complete(ids, 1)
    return timings.prompt_ms
  }

  /** @returns mean ms of a token after these, and the tokens */
  async decode(ids: readonly number[], tokens: number): Promise<{ readonly ms: number; readonly ids: readonly number[] }> {
    const { timings, tokens: answered } = await this.#complete(ids, tokens)
    return { ms: timings.predicted_ms / timings.predicted_n, ids: answered }
  }

  /** Bytes of memory of its process; undefined where the system does not tell. */
  async memoryBytes(): Promise<number | undefined> {
    const status = await readFile(`/proc/${this.#child.pid}/status`, 'utf8').catch(() => '')
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1_024
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await exited
  }

  async #complete(prompt: readonly number[], n_predict: number): Promise<z.infer<typeof Completion>> {
    const response = await fetch(`${this.#url}/completion`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt, n_predict, temperature: 0, cache_prompt: false, ignore_eos: true, return_tokens: true }),
      signal: this.#signal,
    })
    if (!response.ok) throw new BrimError('RUNTIME_FAILED', `llama.cpp answered with status ${response.status}`)
    return Completion.parse(await response.json())
  }

  /** @returns undefined, or why it is not ready */
  async #untilReady(): Promise<string | undefined> {
    const late = AbortSignal.timeout(startMs)
    while (!late.aborted && !this.#signal.aborted) {
      const response = await fetch(`${this.#url}/health`, { signal: this.#signal }).catch(() => undefined)
      if (response?.ok) return undefined
      await sleep(200)
    }
    return `it was not ready within ${startMs / 1_000} s`
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}
