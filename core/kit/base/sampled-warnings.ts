import type { Clock } from './clock.ts'
import type { Logger } from './logger.ts'

export interface SamplingLimits {
  readonly windowMs: number
  /** Lines of one message within one window. */
  readonly max: number
}

const defaultLimits: SamplingLimits = { windowMs: 60_000, max: 10 }

/** @param message constant: messages are counted by it */
export type Warn = (fields: Readonly<Record<string, unknown>>, message: string) => void

/**
 * Logs warnings that clients can cause as often as they like: of each message only the first in each window. The next line
 * after them says how many were left out.
 */
export function sampledWarnings(logger: Logger, clock: Clock, { windowMs, max } = defaultLimits): Warn {
  const windows = new Map<string, { sinceMs: number; count: number }>()
  return (fields, message) => {
    const nowMs = clock.nowMs()
    const known = windows.get(message)
    if (known && nowMs - known.sinceMs < windowMs) {
      known.count += 1
      if (known.count <= max) logger.warn(fields, message)
      return
    }
    const leftOut = Math.max(0, (known?.count ?? 0) - max)
    windows.set(message, { sinceMs: nowMs, count: 1 })
    logger.warn(leftOut > 0 ? { ...fields, leftOut } : fields, message)
  }
}

const maxTextLength = 100

/** Text of a client for the log: at most 100 characters, and how long it was. */
export const cutText = (text: string): string =>
  text.length <= maxTextLength ? text : `${text.slice(0, maxTextLength)}… (${text.length} characters)`
