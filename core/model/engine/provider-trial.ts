import { type ChildProcess, fork } from 'node:child_process'
import { on, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../kit/base/version.ts'
import type { PartName } from '../bundle/manifest.ts'
import { failureOf, type Provider } from './provider.ts'

export interface TrialRequest {
  readonly folder: string
  readonly parts: readonly PartName[]
  readonly threads: number
  readonly library: string | undefined
  readonly provider: Provider
}

export type TrialReply =
  | {
      readonly kind: 'measured'
      /** Seconds for the same chunks and single rows, there and on the CPU. */
      readonly seconds: { readonly provider: number; readonly cpu: number }
    }
  | { readonly kind: 'failed'; readonly reason: string }
  /** For want of memory or processes, which says nothing of the provider. */
  | { readonly kind: 'not tried'; readonly reason: string }

/** Comes first where the CPU could be measured. */
export type TrialMessage = TrialReply | { readonly kind: 'cpu'; readonly seconds: number }

/** Loading and measuring on the CPU. */
const cpuTimeoutMs = 5 * 60_000
/** A first run compiles shaders. Beyond it, and so many times what the CPU took, a provider is not what `auto` looks for. */
const minTimeoutMs = 60_000
const timesOfCpu = 10

const worker = fileURLToPath(new URL('dist/core/model/engine/provider-trial-worker.js', projectRoot))

/**
 * Tries a provider with parts of a bundle in a process of its own: a driver may crash, or not return. It has to start, to give
 * the golden results, and is measured beside the CPU.
 * @throws the signal's reason
 */
export async function tryProvider(request: TrialRequest, signal?: AbortSignal): Promise<TrialReply> {
  signal?.throwIfAborted()
  const child = fork(worker, { execArgv: [], serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  try {
    const messages = on(child, 'message')
    child.send(request)
    const first = await replyOf(child, messages, cpuTimeoutMs, signal)
    if (first.kind !== 'cpu') return first
    const limitMs = Math.max(minTimeoutMs, timesOfCpu * 1_000 * first.seconds)
    return (await replyOf(child, messages, limitMs, signal)) as TrialReply
  } catch (error) {
    signal?.throwIfAborted()
    return { kind: 'not tried', reason: `its process cannot be started: ${failureOf(error)}` }
  } finally {
    child.kill('SIGKILL')
  }
}

/** The next message, or why there is none. @throws the signal's reason, and what starting the process throws */
async function replyOf(
  child: ChildProcess,
  messages: AsyncIterator<unknown[]>,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<TrialMessage> {
  const timeout = AbortSignal.timeout(timeoutMs)
  const ended = AbortSignal.any(signal ? [signal, timeout] : [timeout])
  // The system kills with SIGKILL where memory runs out.
  const exit = once(child, 'exit', { signal: ended }).then(
    ([code, by]): TrialMessage => ({
      kind: by === 'SIGKILL' ? 'not tried' : 'failed',
      reason: `its process ended early (${by ?? `exit code ${code}`})`,
    }),
  )
  exit.catch(() => {})
  try {
    return await Promise.race([messages.next().then(({ value }) => value[0] as TrialMessage), exit])
  } catch (error) {
    if (!timeout.aborted) throw error
    return { kind: 'failed', reason: `it did not end within ${Math.round(timeoutMs / 1_000)} s` }
  }
}
