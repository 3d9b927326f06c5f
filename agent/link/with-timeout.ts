import type { Clock } from '../../core/base/clock.ts'

/** Resolves when `awaited` does, or after `ms`. @throws the signal's reason; what `awaited` rejects with */
export async function withTimeout(ms: number, awaited: Promise<void>, clock: Clock, signal: AbortSignal): Promise<void> {
  const done = new AbortController()
  const late = clock.sleep(ms, AbortSignal.any([done.signal, signal])).catch(() => {})
  try {
    await Promise.race([awaited, late])
  } finally {
    done.abort()
  }
  signal.throwIfAborted()
}
