import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { repeatEvery } from '../../core/base/repeat.ts'
import { tryOrLog } from '../../core/base/try-or-log.ts'
import { AttemptOutbox } from './attempt-outbox.ts'
import type { JobHandlers } from './job-handler.ts'
import { JobInbox } from './job-inbox.ts'
import { JobRunner } from './job-runner.ts'
import type { JobLedger } from './ledger.ts'

/** The job messages of one broker. */
export interface JobPort {
  /** Published in the device's state. */
  readonly kinds: readonly string[]
  /** The job is on disk on return. @throws if it is not; the message must then not be acknowledged */
  onJob(payload: Uint8Array): void
  onAck(payload: Uint8Array): void
  /** @param publish sends an event; undefined: the connection ended */
  onLink(publish: ((event: string) => void) | undefined): void
}

export interface DeviceJobs {
  /** @param link address of the broker; results go where the job came from */
  port(link: string): JobPort
  /** Number of jobs on the device; null if the ledger is not readable. */
  readonly counts: { readonly waiting: number | null; readonly running: number | null }
  /** Runs the waiting jobs. The ports announce no kinds before it. */
  start(handlers: JobHandlers): void
  /** Interrupts the job that runs. Waiting jobs run after the next start. */
  close(): Promise<void>
}

export interface DeviceJobsOptions {
  readonly ledger: JobLedger
  readonly clock: Clock
  readonly logger: Logger
}

/** Interval of the outbox. */
const resendMs = 2_000

/** The jobs of a device: durable in the ledger, run one at a time, reported until acknowledged. */
export function createDeviceJobs({ ledger, clock, logger }: DeviceJobsOptions): DeviceJobs {
  const outbox = new AttemptOutbox(ledger, logger)
  const runner = new JobRunner({ ledger, outbox, clock, logger })
  const inbox = new JobInbox({ ledger, outbox, runner, logger })
  let kinds: readonly string[] = []
  let stopResending: (() => Promise<void>) | undefined
  return {
    port: (link) => ({
      get kinds() {
        return kinds
      },
      onJob: (payload) => inbox.onJob(link, payload),
      onAck: (payload) => inbox.onAck(link, payload),
      onLink: (publish) => outbox.onConnection(link, publish),
    }),
    get counts() {
      try {
        return ledger.counts
      } catch {
        return { waiting: null, running: null }
      }
    },
    start(handlers) {
      kinds = Object.keys(handlers)
      for (const entry of ledger.open()) {
        if (entry.state === 'running') tryOrLog(logger, 'interrupted job not stored', () => outbox.interrupt(entry))
        else if (entry.state === 'waiting') outbox.open(entry)
      }
      runner.start(handlers)
      stopResending ??= repeatEvery(clock, resendMs, () => outbox.resendDue())
    },
    async close() {
      await Promise.all([stopResending?.(), runner.close()])
    },
  }
}
