import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { StorageWatch } from '../../core/kit/store/storage-watch.ts'
import { lanes } from '../../core/policy/jobs/assign-jobs.ts'
import type { ControlService, Publisher } from '../link/ports.ts'
import { AttemptOutbox } from './attempt-outbox.ts'
import type { JobHandlers } from './job-handler.ts'
import { JobInbox } from './job-inbox.ts'
import { JobRunner } from './job-runner.ts'
import type { JobLedger } from './ledger.ts'

interface JobService extends Required<ControlService> {
  readonly handlers: Readonly<Record<'jobs' | 'acks', (payload: Uint8Array) => void>>
  readonly stateFields: () => { readonly jobs: string[] }
}

export interface DeviceJobs {
  /** The job messages of one broker. @param link its address; results go where the job came from */
  service(link: string): JobService
  /** Number of jobs on the device; null if the ledger is not readable. */
  readonly counts: { readonly waiting: number | null; readonly running: number | null }
  /** Why the disk stores no jobs; null: it does. */
  readonly storageFailure: string | null
  /** Runs the waiting jobs. The services announce no kinds before it. */
  start(handlers: JobHandlers): void
  /** The kinds of jobs have changed, because the device has another model. Jobs that run are not affected. */
  replaceHandlers(handlers: JobHandlers): void
  /** Begins no further job: waiting jobs run after the next start. @returns resolves when none runs */
  drain(): Promise<void>
  /** Interrupts the jobs that run. Waiting jobs run after the next start. */
  close(): Promise<void>
}

export interface DeviceJobsOptions {
  readonly ledger: JobLedger
  readonly clock: Clock
  readonly logger: Logger
}

/** Interval of the outbox, and of the attempts to write to a disk that fails. */
const resendMs = 2_000

/** The jobs of a device: durable in the ledger, run one at a time in each lane, reported until acknowledged. */
export function createDeviceJobs({ ledger, clock, logger }: DeviceJobsOptions): DeviceJobs {
  const publishers = new Map<string, Publisher>()
  const storage = new StorageWatch({
    requireSpace: () => ledger.requireSpace(),
    requireWritable: () => ledger.requireWritable(),
    code: 'STORE_FAILED',
    what: 'the device cannot store jobs',
    onChange() {
      for (const publisher of publishers.values()) void publisher.publishState()
    },
    logger,
  })
  const outbox = new AttemptOutbox(ledger, clock, logger)
  const runners = lanes.map((lane) => new JobRunner(lane, { ledger, outbox, storage, clock, logger }))
  const inbox = new JobInbox({ ledger, outbox, runners, storage, logger })
  let current: JobHandlers = {}
  let stopResending: (() => Promise<void>) | undefined
  return {
    service: (link) => ({
      handlers: { jobs: (payload) => inbox.onJob(link, payload), acks: (payload) => inbox.onAck(link, payload) },
      stateFields: () => ({ jobs: storage.isFailing ? [] : Object.keys(current) }),
      onConnection(publisher: Publisher | undefined) {
        if (publisher) publishers.set(link, publisher)
        else publishers.delete(link)
        outbox.onConnection(link, publisher)
      },
    }),

    get counts() {
      try {
        return ledger.counts
      } catch {
        return { waiting: null, running: null }
      }
    },

    get storageFailure(): string | null {
      return storage.failure ?? null
    },

    start(handlers: JobHandlers): void {
      current = handlers
      storage.check()
      for (const entry of ledger.open()) {
        if (entry.state === 'running') tryOrLog(logger, 'interrupted job not stored', () => outbox.interrupt(entry))
        else if (entry.state === 'waiting') outbox.open(entry)
      }
      for (const runner of runners) runner.start(() => current)
      stopResending ??= repeatEvery(clock, resendMs, () => {
        storage.check()
        outbox.resendDue()
      })
    },

    replaceHandlers(handlers: JobHandlers): void {
      current = handlers
    },

    async drain(): Promise<void> {
      await Promise.all(runners.map((runner) => runner.drain()))
    },

    async close(): Promise<void> {
      await Promise.all([stopResending?.(), ...runners.map((runner) => runner.close())])
    },
  }
}
