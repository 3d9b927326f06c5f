import { fork } from 'node:child_process'
import { once } from 'node:events'
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

/** A first run compiles shaders, which takes minutes on a slow machine. */
const timeoutMs = 5 * 60_000

const worker = fileURLToPath(new URL('dist/core/model/engine/provider-trial-worker.js', projectRoot))

/**
 * Tries a provider with parts of a bundle in a process of its own: a driver may crash, or not return. It has to start, to give
 * the golden results, and is measured beside the CPU.
 * @throws the signal's reason
 */
export async function tryProvider(request: TrialRequest, signal?: AbortSignal): Promise<TrialReply> {
  signal?.throwIfAborted()
  const child = fork(worker, { execArgv: [], serialization: 'advanced', stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
  const timeout = AbortSignal.timeout(timeoutMs)
  const ended = AbortSignal.any(signal ? [signal, timeout] : [timeout])
  try {
    const reply = once(child, 'message', { signal: ended })
    // The system kills with SIGKILL where memory runs out.
    const exit = once(child, 'exit', { signal: ended }).then(([code, by]): [TrialReply] => [
      {
        kind: by === 'SIGKILL' ? 'not tried' : 'failed',
        reason: `its process ended early (${by ?? `exit code ${code}`})`,
      },
    ])
    exit.catch(() => {})
    child.send(request)
    const [first] = (await Promise.race([reply, exit])) as [TrialReply]
    return first
  } catch (error) {
    signal?.throwIfAborted()
    if (timeout.aborted) return { kind: 'failed', reason: `it did not end within ${timeoutMs / 1_000} s` }
    return { kind: 'not tried', reason: `its process cannot be started: ${failureOf(error)}` }
  } finally {
    child.kill('SIGKILL')
  }
}
