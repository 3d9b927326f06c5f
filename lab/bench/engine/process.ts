import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import type { WorkerReply, WorkerRequest } from './worker.ts'

export type Style = 'in-place' | 'copying' | 'growing'

/** An engine in a separate process. */
export interface EngineProcess extends AsyncDisposable {
  readonly onnxruntime: string
  /** @returns samples in ms, by name */
  ask(request: WorkerRequest): Promise<Readonly<Record<string, readonly number[]>>>
}

/** @throws BrimError RUNTIME_FAILED when the process does not start, or later when it dies */
export async function startEngine(style: Style, bundle: string, threads: number, io: Io): Promise<EngineProcess> {
  const worker = fileURLToPath(new URL('./worker.js', import.meta.url))
  const child = fork(worker, [style, bundle, String(threads), io.env.ORT_LIB ?? ''], {
    env: io.env,
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ready = await nextReply(child, io.signal)
  if (ready.kind !== 'ready') throw new Error('the first message of a benchmark process must be its ready message')
  return {
    onnxruntime: ready.onnxruntime,
    async ask(request) {
      child.send(request)
      const reply = await nextReply(child, io.signal)
      if (reply.kind !== 'done') throw new Error(`unexpected ${reply.kind} message of a benchmark process`)
      return reply.samples
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const exited = once(child, 'exit')
      child.disconnect()
      await exited
    },
  }
}

async function nextReply(child: ChildProcess, signal: AbortSignal): Promise<WorkerReply> {
  const settled = new AbortController()
  const stop = AbortSignal.any([signal, settled.signal])
  try {
    const died = once(child, 'exit', { signal: stop }).then(([code, by]) => {
      throw new BrimError('RUNTIME_FAILED', `a benchmark process exited early (${by ?? code})`)
    })
    const [reply] = (await Promise.race([once(child, 'message', { signal: stop }), died])) as [WorkerReply]
    if (reply.kind === 'failed') throw new BrimError('RUNTIME_FAILED', `a benchmark process failed: ${reply.message}`)
    return reply
  } catch (error) {
    child.kill('SIGKILL')
    throw signal.aborted ? signal.reason : error
  } finally {
    settled.abort()
  }
}
