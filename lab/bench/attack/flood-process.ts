import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import type { FloodReply, FloodRequest } from './flood-worker.ts'

const worker = fileURLToPath(new URL('dist/lab/bench/attack/flood-worker.js', projectRoot))
/** Floods end at their signal; one that does not within this time is a fault of the benchmark. */
const graceMs = 30_000

/**
 * Runs floods in a process of their own.
 * @throws BrimError RUNTIME_FAILED when the process dies or does not end
 */
export async function runFloods(request: FloodRequest, { env, signal }: Io): Promise<FloodReply> {
  const child = fork(worker, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const stop = AbortSignal.any([signal, AbortSignal.timeout(request.ms + graceMs)])
  try {
    child.send(request)
    const ended = once(child, 'exit', { signal: stop }).then(() => {
      throw new BrimError('RUNTIME_FAILED', 'the process of the floods ended early')
    })
    const [reply] = (await Promise.race([once(child, 'message', { signal: stop }), ended])) as [FloodReply]
    return reply
  } catch (cause) {
    if (signal.aborted || cause instanceof BrimError) throw cause
    throw new BrimError('RUNTIME_FAILED', 'the floods did not end in time', { cause })
  } finally {
    child.kill('SIGKILL')
  }
}
