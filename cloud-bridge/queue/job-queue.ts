import type { Clock } from '../../core/kit/base/clock.ts'
import { KeyedFeed } from '../../core/kit/base/keyed-feed.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { repeatEvery } from '../../core/kit/base/repeat.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import type { RetentionLimits } from '../../core/policy/jobs/retention.ts'
import type { JobKind, JobSubmission } from '../../core/wire/protocol/jobs.ts'
import type { OnUnreadable } from '../link/faults.ts'
import type { PresenceFeed } from '../presence/presence-feed.ts'
import { type DispatchFigures, DispatchLatency } from './dispatch-latency.ts'
import { createEventInbox } from './event-inbox.ts'
import { JobAssigner } from './job-assigner.ts'
import type { AttemptEffect, JobChange } from './job-database.ts'
import { createJobSender, type PublishToDevice } from './job-sender.ts'
import type { JobStore } from './job-store.ts'
import { Pruner } from './pruner.ts'
import { newJob, type SubmittedJob } from './submissions.ts'

/** Interval between two checks of deadlines. */
const tickMs = 100

export interface JobQueueOptions {
  readonly jobs: JobStore
  readonly retention: RetentionLimits
  readonly bridge: string
  readonly clock: Clock
  /** UTC ms: deadlines outlive this process. */
  readonly wallMs: () => number
  readonly presence: PresenceFeed
  readonly publish: PublishToDevice
  readonly onUnreadable: OnUnreadable
  readonly logger: Logger
}

/** The job store in operation: it follows the devices' presence, dispatches, stores reports and enforces deadlines. */
export interface JobQueue {
  /** Counts every device as absent until it reports, and starts to check deadlines. */
  start(): void
  submit(submissions: readonly JobSubmission[]): SubmittedJob[]
  /** @returns undefined if the job is unknown; false if it had ended */
  cancel(id: string): boolean | undefined
  retry(id: string): SubmittedJob | undefined
  /** An event as the broker delivered it. */
  onJobEvent(device: string, payload: Uint8Array): void
  /** Calls `notify` after each change of the job, once it is stored. @returns a function that ends the subscription */
  watch(id: string, notify: (change: JobChange) => void): () => void
  /** Calls `notify` with the result of each job of this kind that has succeeded. Call it before `start`. */
  onSucceeded(kind: JobKind, notify: (device: string, result: unknown) => void): void
  readonly dispatchMs: DispatchFigures
  /** Why no device can take a job of this kind now, else null. @param target the only device that may run it; null: any */
  lacksDevice(kind: string, target: string | null): string | null
  close(): Promise<void>
}

export function createJobQueue(options: JobQueueOptions): JobQueue {
  const { jobs, retention, bridge, presence, clock, wallMs, publish, onUnreadable, logger } = options
  const feed = new KeyedFeed<JobChange>()
  /** Not yet sent to the subscribers of jobs. */
  let changes: JobChange[] = []
  jobs.follow((change) => void changes.push(change))
  const latency = new DispatchLatency(clock)
  const sender = createJobSender(bridge, jobs, publish)
  const pruner = new Pruner(jobs, retention, clock)
  const dispatcher = new JobAssigner({
    jobs,
    presence,
    wallMs,
    onDispatched(dispatched, effects) {
      sender.runEffects(effects)
      for (const dispatch of dispatched) {
        latency.onSent(dispatch.job, dispatch.attempt)
        sender.send(dispatch)
      }
      publishChanges()
    },
    logger,
  })
  const inbox = createEventInbox({
    store: jobs,
    bridge,
    wallMs,
    sendAck: sender.sendAck,
    onStored(reports, { effects, gaps, succeeded, exhausted }) {
      for (const device of exhausted) dispatcher.removeDevice(device)
      for (const report of reports) if (!gaps.has(report)) latency.onStored(report.job, report.attempt)
      onChanged(effects)
      for (const { job, kind, device } of succeeded) resultReaders.get(kind)?.(device, jobs.find(job)?.result)
    },
    onUnreadable,
    logger,
  })
  const resultReaders = new Map<string, (device: string, result: unknown) => void>()
  let stopTicking: (() => Promise<void>) | undefined

  function onChanged(effects: readonly AttemptEffect[]): void {
    sender.runEffects(effects)
    publishChanges()
    dispatcher.schedule()
  }

  function publishChanges(): void {
    const published = changes
    changes = []
    for (const change of published) {
      feed.publish(change.job, change)
      if (isTerminal(change.state) && logger.isLevelEnabled('info')) logEnd(change.job)
    }
  }

  function logEnd(id: string): void {
    const end = jobs.endOf(id)
    if (end) logger.info(end, 'job ended')
  }

  function applyDeadlines(): void {
    const nowMs = wallMs()
    if ((jobs.nextDeadlineMs() ?? Number.POSITIVE_INFINITY) > nowMs) return
    onChanged(jobs.applyDeadlines(nowMs))
  }

  function onAllAbsent(): void {
    dispatcher.removeAllDevices()
    tryOrLog(logger, 'presence not stored', () => {
      jobs.markAllAbsent(wallMs())
      publishChanges()
    })
  }

  function onPresence(device: string): void {
    // Jobs wait that only a device may run which announces no kinds: its disk is full.
    const kinds = presence.takers.get(device)
    if (kinds) dispatcher.addDevice(device, kinds)
    else dispatcher.removeDevice(device)
    tryOrLog(logger, 'presence not stored', () => {
      onChanged(jobs.setPresence(device, presence.isPresent(device), wallMs()))
    })
    dispatcher.schedule()
  }

  const unsubscribe = presence.subscribe((event) => (event.kind === 'state' ? onPresence(event.device) : onAllAbsent()))

  return {
    start() {
      tryOrLog(logger, 'presence not stored', () => void jobs.markAllAbsent(wallMs()))
      stopTicking ??= repeatEvery(clock, tickMs, () => {
        tryOrLog(logger, 'job deadlines not checked', applyDeadlines)
        tryOrLog(logger, 'quotas of devices not read', () => {
          if (jobs.usage.renew(wallMs())) dispatcher.resumeDevices()
        })
        tryOrLog(logger, 'expired jobs not deleted', () => pruner.prune(wallMs()))
      })
    },
    lacksDevice(kind, target) {
      if (dispatcher.runs(kind, target)) return null
      if (target !== null) return `device "${target}" is not connected, or takes no jobs`
      return `no connected device takes jobs ${kind}${kind === 'slm.generate' ? '; start an agent with --slm' : ''}`
    },
    submit(submissions) {
      const submitted = jobs.submit(submissions.map(newJob), wallMs())
      dispatcher.schedule()
      return submitted
    },
    cancel(id) {
      const done = jobs.cancel(id, wallMs())
      if (done) onChanged(done.effects)
      return done?.canceled
    },
    retry(id) {
      const submitted = jobs.retry(id, wallMs())
      dispatcher.schedule()
      return submitted
    },
    onJobEvent: inbox.onJobEvent,
    watch: (id, notify) => feed.subscribe((_, change) => notify(change), id),
    onSucceeded: (kind, notify) => void resultReaders.set(kind, notify),
    get dispatchMs() {
      return latency.figures
    },
    async close() {
      unsubscribe()
      dispatcher.close()
      inbox.close()
      await stopTicking?.()
    },
  }
}
