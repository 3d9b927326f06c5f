import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { quantile } from '../../core/base/statistics.ts'
import { type AttemptFailure, attemptFailures } from '../../core/policy/jobs/retry.ts'
import { type JobAck, JobEvent, type JobSubmission, maxEventBytes, type ToJobDevice } from '../../core/protocol/jobs.ts'
import type { DeviceState } from '../../core/protocol/messages.ts'
import { readMessage } from '../../core/protocol/read-message.ts'
import type { OnUnreadable } from '../link/faults.ts'
import { EventLimit } from './answer-bound.ts'
import type { AttemptEffect, Cutoffs, DeviceReport, Dispatch, JobStore, Retention, Submitted } from './job-store.ts'
import { newJob } from './job-tables.ts'

/**
 * Jobs that one device may have: one at work, the next at hand, so that it need not wait for a round trip. More would only
 * wait behind the first; even that one is taken back where another device has nothing to do.
 */
const perDevice = 2
/** Deadlines are looked at so often. */
const tickMs = 100
/** What is kept no longer is looked for so often, and removed for so long at a time: nobody waits for that. */
const retentionMs = 60_000
const pruneMs = 10
/** Dispatches that the figures are of. */
const mostMeasured = 10_000

export interface JobQueueOptions {
  readonly jobs: JobStore
  readonly retention: Retention
  readonly bridge: string
  readonly clock: Clock
  /** UTC ms: deadlines outlive this process. */
  readonly wallMs: () => number
  /** To a device, at least once while the broker is there; whatever is lost is said again. */
  readonly publish: (device: string, leaf: 'jobs' | 'acks', message: string) => void
  readonly onUnreadable: OnUnreadable
  readonly logger: Logger
}

/** The shell around the store: who is there, what is said, who watches. */
export interface JobQueue {
  /** Nobody counts as present until heard of; begins to look at deadlines. */
  start(): void
  submit(submissions: readonly JobSubmission[]): Submitted[]
  /** @returns undefined where there is no such job; false where it had ended */
  cancel(id: string): boolean | undefined
  retry(id: string): Submitted | undefined
  /** Nobody can be heard: whoever has a job may be at it and counts as away, nobody is given one until heard of again. */
  onBrokerLost(): void
  /** A device's retained state. */
  onDeviceState(device: string, state: DeviceState): void
  /** An event as it came from the broker. */
  onJobEvent(device: string, payload: Uint8Array): void
  /** Calls back when the job has changed; once more than needed is possible. @returns ends it */
  watch(id: string, changed: () => void): () => void
  /** Of the latest dispatches: from sending a job to the commit of its acceptance; null where there were none. */
  readonly dispatchMs: { readonly p50: number | null; readonly p99: number | null; readonly count: number }
  close(): Promise<void>
}

export function createJobQueue(options: JobQueueOptions): JobQueue {
  const { jobs, retention, bridge, clock, wallMs, publish, onUnreadable, logger } = options
  /** Devices that take jobs, and what they can do: those that drain finish what they have. */
  const takers = new Map<string, readonly string[]>()
  const watchers = new Map<string, Set<() => void>>()
  const bound = new EventLimit()
  const stopping = new AbortController()
  /** When each attempt that is not yet accepted was sent. */
  const sentMs = new Map<string, number>()
  let roundTripsMs: number[] = []
  let heardNow: { said: DeviceReport; event: JobEvent }[] = []
  let isPumpDue = false
  let ticking: Promise<void> | undefined

  const changed = (id: string) => {
    for (const tell of [...(watchers.get(id) ?? [])]) tell()
  }
  const send = ({ device, job, attempt, kind, input }: Dispatch) =>
    publish(device, 'jobs', JSON.stringify({ v: 1, type: 'run', bridge, job, attempt, kind, input } satisfies ToJobDevice))

  function carryOut(orders: readonly AttemptEffect[]): void {
    for (const { kind, job, device, attempt } of orders) {
      if (kind === 'cancelAttempt') {
        publish(device, 'jobs', JSON.stringify({ v: 1, type: 'cancel', bridge, job, attempt } satisfies ToJobDevice))
        continue
      }
      const dispatch = jobs.dispatchOf(job)
      if (dispatch?.attempt === attempt) send(dispatch)
    }
  }

  /** Gives away what waits, once for all that has happened in this turn. */
  function pump(): void {
    if (isPumpDue || stopping.signal.aborted) return
    isPumpDue = true
    setImmediate(() => {
      isPumpDue = false
      if (stopping.signal.aborted || takers.size === 0) return
      guarded('jobs not dispatched', () => {
        const loads = jobs.loads()
        const free = [...takers].map(([device, kinds]) => ({ device, kinds, freeSlots: perDevice - (loads.get(device) ?? 0) }))
        const claimed = jobs.claim(free, wallMs())
        const busy = new Set(claimed.map(({ device }) => device))
        const idle = free.filter(({ device, freeSlots }) => freeSlots === perDevice && !busy.has(device))
        const { dispatched, orders } = jobs.rebalance(idle, wallMs())
        carryOut(orders)
        for (const dispatch of [...claimed, ...dispatched]) {
          sentMs.set(`${dispatch.job} ${dispatch.attempt}`, clock.nowMs())
          send(dispatch)
          changed(dispatch.job)
        }
      })
    })
  }

  /** A disk that is full is no reason to end: whatever was not stored was not acknowledged either, and comes again. */
  function guarded(what: string, work: () => void): void {
    try {
      work()
    } catch (err) {
      logger.error({ err }, what)
    }
  }

  function takeEvents(): void {
    const taken = heardNow
    heardNow = []
    if (stopping.signal.aborted) return
    guarded('job events not stored', () => {
      const {
        orders,
        gaps,
        changed: ids,
      } = jobs.storeReports(
        taken.map(({ said }) => said),
        wallMs(),
      )
      const acks = new Map<string, { device: string; ack: JobAck }>()
      for (const { said, event } of taken) {
        if (gaps.has(said)) continue
        const { device, job, attempt, n } = said
        measured(`${job} ${attempt}`)
        const last = acks.get(`${device} ${job} ${attempt}`)?.ack.n ?? 0
        acks.set(`${device} ${job} ${attempt}`, { device, ack: { v: 1, bridge, job, attempt, n: Math.max(n, last) } })
        if (event.type === 'failed') logger.info({ device, job, attempt, code: event.error.code }, 'attempt failed')
      }
      for (const { device, ack } of acks.values()) publish(device, 'acks', JSON.stringify(ack))
      carryOut(orders)
      for (const id of ids) changed(id)
      pump()
    })
  }

  /** The first that is stored of an attempt. */
  function measured(attempt: string): void {
    const atMs = sentMs.get(attempt)
    if (atMs === undefined) return
    sentMs.delete(attempt)
    roundTripsMs.push(clock.nowMs() - atMs)
    if (roundTripsMs.length >= 2 * mostMeasured) roundTripsMs = roundTripsMs.slice(-mostMeasured)
  }

  let cutoffs: Cutoffs | undefined
  let retainedMs = Number.NEGATIVE_INFINITY

  /** Some of what is kept no longer. */
  function prune(): void {
    const startedMs = clock.nowMs()
    if (startedMs - retainedMs >= retentionMs) {
      cutoffs = jobs.cutoffs(retention, wallMs())
      retainedMs = startedMs
    }
    while (cutoffs && clock.nowMs() - startedMs < pruneMs) if (jobs.prune(cutoffs) === 0) cutoffs = undefined
  }

  async function tick(): Promise<void> {
    while (!stopping.signal.aborted) {
      guarded('deadlines not looked at', () => {
        const nowMs = wallMs()
        if ((jobs.nextDeadlineMs() ?? Number.POSITIVE_INFINITY) > nowMs) return
        const { orders, changed: ids } = jobs.applyDeadlines(nowMs)
        // What never was accepted is no longer waited for.
        if (sentMs.size > mostMeasured) sentMs.clear()
        carryOut(orders)
        for (const id of ids) changed(id)
        pump()
      })
      guarded('old jobs not removed', prune)
      await clock.sleep(tickMs, stopping.signal).catch(() => {})
    }
  }

  return {
    start() {
      jobs.markAllAbsent(wallMs())
      ticking = tick()
    },
    onBrokerLost() {
      takers.clear()
      guarded('presence not stored', () => jobs.markAllAbsent(wallMs()).forEach(changed))
    },
    submit(submissions) {
      const submitted = jobs.submit(submissions.map(newJob), wallMs())
      pump()
      return submitted
    },
    cancel(id) {
      const done = jobs.cancel(id, wallMs())
      if (!done) return undefined
      carryOut(done.orders)
      changed(id)
      pump()
      return done.canceled
    },
    retry(id) {
      const again = jobs.retry(id, wallMs())
      pump()
      return again
    },
    onDeviceState(device, { state, jobs: kinds = [] }) {
      const isPresent = state === 'ready' || state === 'draining'
      if (state === 'ready') takers.set(device, kinds)
      else takers.delete(device)
      guarded('presence not stored', () => {
        carryOut(jobs.setPresence(device, isPresent, wallMs()))
        for (const { id } of jobs.heldBy(device)) changed(id)
      })
      pump()
    },
    onJobEvent(device, payload) {
      const read = readMessage(JobEvent, payload)
      if (read.kind === 'unreadable') return onUnreadable(device, 'events', read.reason)
      if (read.message.bridge !== bridge) return
      const event = bound.isExceededBy(device, read.message) ? tooMuch(read.message) : read.message
      if (heardNow.length === 0) setImmediate(takeEvents)
      heardNow.push({ said: saidOf(device, event), event })
    },
    watch(id, tell) {
      const all = watchers.get(id) ?? new Set()
      watchers.set(id, all.add(tell))
      return () => {
        all.delete(tell)
        if (all.size === 0) watchers.delete(id)
      }
    },
    get dispatchMs() {
      const latest = roundTripsMs.slice(-mostMeasured)
      const at = (q: number) => (latest.length === 0 ? null : quantile(latest, q))
      return { p50: at(0.5), p99: at(0.99), count: latest.length }
    },
    async close() {
      stopping.abort()
      await ticking
    },
  }
}

function tooMuch({ v, bridge, job, attempt, n, at }: JobEvent): JobEvent {
  const error = { code: 'REQUEST_INVALID', message: `an answer of more than the ${maxEventBytes} bytes that a result may have` }
  return { v, bridge, job, attempt, n, at, type: 'failed', failure: 'refused', error }
}

function saidOf(device: string, event: JobEvent): DeviceReport {
  const { job, attempt, n } = event
  const of = { job, device, attempt, n }
  switch (event.type) {
    case 'text': {
      const { text, from, sentence } = event
      return { ...of, report: { type: 'progress' }, data: { text, from, ...(sentence === undefined ? {} : { sentence }) } }
    }
    case 'progress': {
      const { doneBytes, totalBytes } = event
      return { ...of, report: { type: 'progress' }, data: { doneBytes, totalBytes } }
    }
    case 'succeeded':
      return { ...of, report: { type: 'succeeded' }, data: event.result }
    case 'failed':
      return { ...of, report: { type: 'failed', failure: failureOf(event.failure), error: event.error }, data: {} }
    case 'accepted':
    case 'running':
    case 'canceled':
      return { ...of, report: { type: event.type }, data: {} }
    default:
      return event satisfies never
  }
}

/** A newer device may know more kinds of failure. */
const failureOf = (name: string): AttemptFailure => attemptFailures.find((known) => known === name) ?? 'failed'
