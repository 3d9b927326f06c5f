import { type Clock, nowIso } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { MessageFault } from '../../core/protocol/messages.ts'
import type { DeviceTopic } from '../../core/protocol/topics.ts'

/** What a device has said there could not be read, because … */
export type OnUnreadable = (device: string, leaf: DeviceTopic, reason: string) => void

export interface FaultOptions {
  readonly bridge: string
  readonly publish: (device: string, message: string) => void
  readonly clock: Clock
  readonly logger: Logger
}

const windowMs = 60_000
/** Of one device and leaf: who says the same wrong thing every second learns nothing more by the eleventh answer. */
const faultsPerWindow = 10
/** Beyond so many leaves of devices all are forgotten: memory is bounded. */
const mostKnown = 10_000

/** Tells devices, and the log, what of theirs could not be read and why. */
export function createFaultReporter({ bridge, publish: tell, clock, logger }: FaultOptions): OnUnreadable {
  const windows = new Map<string, { sinceMs: number; count: number }>()

  function isTold(of: string): boolean {
    const nowMs = clock.nowMs()
    const known = windows.get(of)
    if (known && nowMs - known.sinceMs < windowMs) {
      known.count += 1
      return known.count <= faultsPerWindow
    }
    if (windows.size >= mostKnown) windows.clear()
    windows.set(of, { sinceMs: nowMs, count: 1 })
    return true
  }

  return (device, leaf, reason) => {
    if (!isTold(`${device} ${leaf}`)) return
    logger.warn({ device, leaf, reason }, 'unreadable message of a device ignored')
    tell(device, JSON.stringify({ v: 1, bridge, leaf, reason, at: nowIso() } satisfies MessageFault))
  }
}
