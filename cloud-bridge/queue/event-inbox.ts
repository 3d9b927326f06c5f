import type { Logger } from '../../core/kit/base/logger.ts'
import { type JobAck, JobEvent } from '../../core/wire/protocol/jobs.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'
import { reportOf } from './device-report.ts'
import type { JobStore } from './job-store.ts'
import type { DeviceReport, StoredReports } from './reports.ts'

export interface EventInboxOptions {
  readonly store: JobStore
  readonly bridge: string
  readonly wallMs: () => number
  readonly sendAck: (device: string, ack: JobAck) => void
  /** Called after the commit and the acknowledgements. */
  readonly onStored: (reports: readonly DeviceReport[], stored: StoredReports) => void
  readonly onUnreadable: OnUnreadable
  readonly logger: Logger
}

/** Reads devices' events and stores those of one turn of the event loop in one commit. Acknowledges them after it. */
export function createEventInbox(options: EventInboxOptions) {
  const { store, bridge, wallMs, sendAck, onStored, onUnreadable, logger } = options
  let received: DeviceReport[] = []
  let isClosed = false

  function storeReceived(): void {
    const reports = received
    received = []
    if (isClosed) return
    try {
      const stored = store.storeReports(reports, wallMs())
      acknowledge(reports.filter((report) => !stored.gaps.has(report)))
      for (const device of stored.exhausted)
        logger.warn({ device }, 'device has stored its bytes of job events for today: it gets no jobs until tomorrow (UTC)')
      onStored(reports, stored)
    } catch (err) {
      // A full disk must not end the bridge: unacknowledged events come again.
      logger.error({ err }, 'job events not stored')
    }
  }

  /** Sends one acknowledgement for each attempt. */
  function acknowledge(reports: readonly DeviceReport[]): void {
    const acks = new Map<string, { device: string; ack: JobAck }>()
    for (const { device, job, attempt, n, report } of reports) {
      const key = `${device} ${job} ${attempt}`
      const last = acks.get(key)?.ack.n ?? 0
      acks.set(key, { device, ack: { v: 1, bridge, job, attempt, n: Math.max(n, last) } })
      if (report.type === 'failed') logger.info({ device, job, attempt, code: report.error.code }, 'attempt failed')
    }
    for (const { device, ack } of acks.values()) sendAck(device, ack)
  }

  return {
    /** An event as the broker delivered it. */
    onJobEvent(device: string, payload: Uint8Array) {
      const read = readMessage(JobEvent, payload)
      if (read.kind === 'unreadable') return onUnreadable(device, 'events', read.reason)
      const event = read.message
      if (event.bridge !== bridge) return
      if (received.length === 0) setImmediate(storeReceived)
      received.push(reportOf(device, event))
    },
    close() {
      isClosed = true
    },
  }
}
