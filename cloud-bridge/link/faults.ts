import { type Clock, nowIso } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'
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

/** Reports for one topic of one device: more of them would repeat the same mistake. */
const reportLimits = { windowMs: 60_000, max: 10, maxKeys: 10_000 }

/** Reports unreadable messages to their devices and to the log. */
export function createFaultReporter({ bridge, publish, clock, logger }: FaultReporterOptions): OnUnreadable {
  const reports = new CountWindow(reportLimits)
  return (device, leaf, reason) => {
    const [topic, nowMs] = [`${device} ${leaf}`, clock.nowMs()]
    if (reports.isFull(topic, nowMs)) return
    reports.add(topic, nowMs)
    logger.warn({ device, leaf, reason }, 'unreadable device message ignored')
    publish(device, JSON.stringify({ v: 1, bridge, leaf, reason, at: nowIso() } satisfies MessageFault))
  }
}
