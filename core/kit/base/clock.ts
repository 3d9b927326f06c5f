import { setTimeout as delay } from 'node:timers/promises'

/** Monotonic time for durations. Timestamps that leave the process are UTC ISO 8601 (`nowIso`), never subtracted. */
export interface Clock {
  nowMs(): number
  /** Resolves after `ms`, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** Longer timers of Node end at once. */
const maxTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  sleep: async (ms, signal) => {
    let leftMs = ms
    for (; leftMs > maxTimerMs; leftMs -= maxTimerMs) await delay(maxTimerMs, undefined, signal ? { signal } : {})
    await delay(leftMs, undefined, signal ? { signal } : {})
  },
}

/** @param wallMs of the wall clock */
export const isoOf = (wallMs: number): string => new Date(wallMs).toISOString()

export const nowIso = (): string => isoOf(Date.now())

/** False on a device without a battery-backed clock until it has been set from the network. */
export const clockIsSet = (wallMs = Date.now()): boolean => new Date(wallMs).getUTCFullYear() >= 2026

/** Resolves when the signal is aborted; at once if it already is. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
