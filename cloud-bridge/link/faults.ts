import { type Clock, nowIso } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { MessageFault } from '../../core/protocol/messages.ts'
import type { DeviceTopic } from '../../core/protocol/topics.ts'

/** A device's message on the topic `leaf` is unreadable. */
export type OnUnreadable = (device: string, leaf: DeviceTopic, reason: string) => void

export interface FaultReporterOptions {
  readonly bridge: string
  readonly publish: (device: string, message: string) => void
  readonly clock: Clock
  readonly logger: Logger
}

const windowMs = 60_000
/** Reports for one topic of one device in one window: a device that repeats a mistake learns nothing from more. */
const maxReports = 10
/** Counted topics. Beyond it all counts are dropped, to bound memory. */
const maxTopics = 10_000

/** Reports unreadable messages to their devices and to the log. */
export function createFaultReporter({ bridge, publish, clock, logger }: FaultReporterOptions): OnUnreadable {
  const windows = new Map<string, { sinceMs: number; count: number }>()

  function isWithinLimit(topic: string): boolean {
    const nowMs = clock.nowMs()
    const window = windows.get(topic)
    if (window && nowMs - window.sinceMs < windowMs) {
      window.count += 1
      return window.count <= maxReports
    }
    if (windows.size >= maxTopics) windows.clear()
    windows.set(topic, { sinceMs: nowMs, count: 1 })
    return true
  }

  return (device, leaf, reason) => {
    if (!isWithinLimit(`${device} ${leaf}`)) return
    logger.warn({ device, leaf, reason }, 'unreadable device message ignored')
    publish(device, JSON.stringify({ v: 1, bridge, leaf, reason, at: nowIso() } satisfies MessageFault))
  }
}
