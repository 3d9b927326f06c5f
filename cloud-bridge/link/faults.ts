import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'
import type { MessageFault } from '../../core/wire/protocol/messages.ts'
import type { DeviceTopic } from '../../core/wire/protocol/topics.ts'

/** A device's message on the topic `leaf` is unreadable. */
export type OnUnreadable = (device: string, leaf: DeviceTopic, reason: string) => void

export interface FaultReporterOptions {
  readonly bridge: string
  readonly publish: (device: string, message: string) => void
  readonly clock: Clock
  readonly logger: Logger
}

export interface FaultReporter {
  /** Reports an unreadable message to its device and to the log. */
  readonly onUnreadable: OnUnreadable
  /** Asks a device for a complete telemetry sample: the bridge lacks the one that a delta builds on. */
  readonly onBaseless: (device: string) => void
}

/** Reports for one topic of one device: more of them would repeat the same mistake. */
const reportLimits = { windowMs: 60_000, max: 10, maxKeys: 10_000 }

/** Reports messages that the bridge cannot use. */
export function createFaultReporter({ bridge, publish, clock, logger }: FaultReporterOptions): FaultReporter {
  const reports = new CountWindow(reportLimits)
  const mayReport = (topic: string) => reports.take(topic, clock.nowMs())
  const report = (device: string, fault: Pick<MessageFault, 'leaf' | 'reason' | 'needsFullSample'>) =>
    publish(device, JSON.stringify({ v: 1, bridge, at: nowIso(), ...fault } satisfies MessageFault))
  return {
    onUnreadable(device, leaf, reason) {
      if (!mayReport(`${device} ${leaf}`)) return
      logger.warn({ device, leaf, reason }, 'unreadable device message ignored')
      report(device, { leaf, reason })
    },
    onBaseless(device) {
      if (!mayReport(`${device} telemetry base`)) return
      logger.debug({ device }, 'telemetry delta without its complete sample ignored')
      const reason = 'the complete sample that this delta builds on has not arrived'
      report(device, { leaf: 'telemetry', reason, needsFullSample: true })
    },
  }
}
