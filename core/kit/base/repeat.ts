import type { Clock } from './clock.ts'

/**
 * Runs `work` every `everyMs` until stopped; the first time after `everyMs`. `work` must not throw.
 * @returns stops the loop, and resolves when the current run of `work` has ended
 */
export function repeatEvery(clock: Clock, everyMs: number, work: () => void | Promise<void>): () => Promise<void> {
  const stopping = new AbortController()
  const pause = () => clock.sleep(everyMs, stopping.signal).catch(() => {})
  async function loop(): Promise<void> {
    for (await pause(); !stopping.signal.aborted; await pause()) await work()
  }
  const looping = loop()
  return () => {
    stopping.abort()
    return looping
  }
}
