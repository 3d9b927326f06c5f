import type { Clock } from './clock.ts'

/**
 * Waits for `awaited`, but at most `ms`.
 * @returns whether it resolved in time
 * @throws the signal's reason; what `awaited` rejects with
 */
export async function withTimeout(
  ms: number,
  awaited: Promise<unknown>,
  clock: Clock,
  signal: AbortSignal = new AbortController().signal,
): Promise<boolean> {
  const done = new AbortController()
  const timeout = clock.sleep(ms, AbortSignal.any([done.signal, signal])).then(
    () => false,
    () => false,
  )
  try {
    return await Promise.race([awaited.then(() => true), timeout])
  } finally {
    done.abort()
    signal.throwIfAborted()
  }
}
