import type { Clock } from '../../core/kit/base/clock.ts'

export interface FakeClock extends Clock {
  /** Moves time forward, and ends the sleeps that are over, in order. */
  advance(ms: number): Promise<void>
}

/** A clock whose time moves by `advance` only. */
export function fakeClock(startMs = 0): FakeClock {
  let now = startMs
  let sleepers: { atMs: number; wake: () => void }[] = []
  return {
    nowMs: () => now,
    sleep(ms, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason)
        const abort = () => {
          sleepers = sleepers.filter((other) => other !== sleeper)
          reject(signal?.reason)
        }
        const wake = () => {
          signal?.removeEventListener('abort', abort)
          resolve()
        }
        const sleeper = { atMs: now + ms, wake }
        sleepers.push(sleeper)
        signal?.addEventListener('abort', abort)
      })
    },
    async advance(ms) {
      const end = now + ms
      for (;;) {
        const next = sleepers.filter((sleeper) => sleeper.atMs <= end).sort((a, b) => a.atMs - b.atMs)[0]
        if (!next) break
        sleepers = sleepers.filter((other) => other !== next)
        now = Math.max(now, next.atMs)
        next.wake()
        // The awakened code runs, and may sleep again, before time moves on.
        await new Promise((turn) => setImmediate(turn))
      }
      // The awakened code may itself have advanced the clock.
      now = Math.max(now, end)
    },
  }
}
