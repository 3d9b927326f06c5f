import type { Random } from '../../base/random.ts'
import { type AttemptFailure, retryDelayMs } from './retry.ts'

export const liveStates = ['SENT', 'ACCEPTED', 'RUNNING'] as const
export const terminalStates = ['SUCCEEDED', 'FAILED', 'REJECTED', 'TIMED_OUT', 'CANCELED'] as const
export const jobStates = ['QUEUED', ...liveStates, ...terminalStates] as const
export type JobState = (typeof jobStates)[number]

/** What the submitter has decided; durations in ms. */
export interface JobTerms {
  /** Most attempts that may fail, however they do. */
  readonly attempts: number
  /** SENT: until the device says that it has the job. */
  readonly acceptMs: number
  /** ACCEPTED: until the work begins; then it is taken back, which is no failure: its device was at other work. */
  readonly startMs: number
  /** RUNNING: from one sign of progress to the next. */
  readonly stepMs: number
  /** RUNNING: the whole attempt. */
  readonly runMs: number
  /** How long a device that has vanished may take to come back. */
  readonly lostAfterMs: number
  /** Whether another device may take the place of one that has vanished or failed. */
  readonly replace: boolean
  /** Whose result counts once there is a replacement: of any attempt the first, or the replacement's alone. */
  readonly keep: 'any' | 'replacement'
}

/** All that a decision rests on. Times are the bridge's own wall clock in ms: they outlive a restart. */
export interface Job {
  readonly state: JobState
  /** 1-based; 0 before the first. */
  readonly attempt: number
  /** Who was given each attempt. */
  readonly devices: readonly string[]
  /** How often attempts have failed, by kind. */
  readonly failures: Readonly<Partial<Record<AttemptFailure, number>>>
  readonly terms: JobTerms
  /** The whole job's deadline. */
  readonly endsByMs: number
  /** When something must have happened; null in a terminal state alone. */
  readonly dueMs: number | null
  /** QUEUED: not sent before; null: at once. */
  readonly notBeforeMs: number | null
  /** RUNNING: end of the attempt's time. */
  readonly runByMs: number | null
  /** Since when the device of this attempt is away; null while it is there. */
  readonly lostAtMs: number | null
  readonly error: JobError | null
}

export interface JobError {
  readonly code: string
  readonly message: string
}

/** What a device says of an attempt. */
export type JobReport =
  | { readonly type: 'accepted' }
  | { readonly type: 'running' }
  | { readonly type: 'progress' }
  | { readonly type: 'succeeded' }
  | { readonly type: 'canceled' }
  | { readonly type: 'failed'; readonly failure: AttemptFailure; readonly error: JobError }

export type JobInput =
  | { readonly kind: 'dispatch'; readonly device: string }
  | { readonly kind: 'report'; readonly device: string; readonly attempt: number; readonly report: JobReport }
  | { readonly kind: 'present' | 'absent'; readonly device: string }
  /** Another device is idle. */
  | { readonly kind: 'requeue' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'tick' }

export type JobEffect =
  /** The attempt goes to its device, for the first time or again. */
  | { readonly kind: 'send'; readonly device: string; readonly attempt: number }
  /** Nobody waits for that attempt any more. */
  | { readonly kind: 'cancelAttempt'; readonly device: string; readonly attempt: number }
  /** The result that came with the report is the job's. */
  | { readonly kind: 'storeResult' }

export interface JobStep {
  readonly job: Job
  readonly effects: readonly JobEffect[]
}

export const isTerminal = (state: JobState): boolean => terminalStates.some((terminal) => terminal === state)
export const isLive = (state: JobState): boolean => liveStates.some((live) => live === state)

/** The device that has the current attempt. */
export const holderOf = ({ state, devices }: Job): string | null => (isLive(state) ? (devices.at(-1) ?? null) : null)

export function queuedJob(terms: JobTerms, endsByMs: number): Job {
  const times = { dueMs: endsByMs, notBeforeMs: null, runByMs: null, lostAtMs: null }
  return { state: 'QUEUED', attempt: 0, devices: [], failures: {}, terms, endsByMs, ...times, error: null }
}

/**
 * The job's next state and what must be done once that is stored. Terminal states are final: the first result that is
 * valid wins. What an attempt says counts only if that device was given that attempt, and only a result if a later one
 * has been begun.
 */
export function nextJob(job: Job, input: JobInput, nowMs: number, random: Random): JobStep {
  switch (input.kind) {
    case 'dispatch':
      return job.state === 'QUEUED' && job.notBeforeMs === null && nowMs < job.endsByMs
        ? dispatched(job, input.device, nowMs)
        : unchanged(job)
    case 'report':
      return job.devices[input.attempt - 1] === input.device ? reported(job, input, nowMs, random) : unchanged(job)
    case 'present':
      return returned(job, input.device, nowMs)
    case 'absent':
      return holderOf(job) === input.device && job.lostAtMs === null
        ? step(due({ ...job, lostAtMs: nowMs }, nowMs))
        : unchanged(job)
    case 'requeue':
      return job.state === 'ACCEPTED' ? takenBack(job, null, nowMs) : unchanged(job)
    case 'cancel':
      return isTerminal(job.state)
        ? unchanged(job)
        : ended(job, 'CANCELED', { code: 'CANCELED', message: 'canceled by an operator' })
    case 'tick':
      return job.dueMs === null || nowMs < job.dueMs ? unchanged(job) : overdue(job, nowMs, random)
    default:
      return input satisfies never
  }
}

const step = (job: Job, ...effects: JobEffect[]): JobStep => ({ job, effects })
const unchanged = (job: Job): JobStep => step(job)

function dispatched(job: Job, device: string, nowMs: number): JobStep {
  const attempt = job.attempt + 1
  const sent = { ...job, state: 'SENT' as const, attempt, devices: [...job.devices, device], lostAtMs: null, runByMs: null }
  return step(due(sent, nowMs), { kind: 'send', device, attempt })
}

function reported(
  job: Job,
  { device, attempt, report }: Extract<JobInput, { kind: 'report' }>,
  nowMs: number,
  random: Random,
): JobStep {
  if (isTerminal(job.state)) return isFinal(report) ? unchanged(job) : step(job, { kind: 'cancelAttempt', device, attempt })
  const isCurrent = attempt === job.attempt && isLive(job.state)
  if (report.type === 'succeeded') {
    // The only attempt there is may be late: nobody has replaced it.
    const counts = attempt === job.attempt || job.terms.keep === 'any'
    if (!counts) return unchanged(job)
    const { job: done, effects } = ended(job, 'SUCCEEDED', null)
    return step(done, ...effects.filter((effect) => !isCurrent || effect.kind !== 'cancelAttempt'), { kind: 'storeResult' })
  }
  if (!isCurrent) {
    // It may still win, unless the replacement's alone counts.
    return isFinal(report) || job.terms.keep === 'any' ? unchanged(job) : step(job, { kind: 'cancelAttempt', device, attempt })
  }
  // Who speaks is there.
  const heard = { ...job, lostAtMs: null }
  switch (report.type) {
    case 'accepted':
      return step(due(job.state === 'SENT' ? { ...heard, state: 'ACCEPTED' } : heard, nowMs))
    case 'running':
    case 'progress':
      return step(due({ ...heard, state: 'RUNNING', runByMs: job.runByMs ?? nowMs + job.terms.runMs }, nowMs))
    case 'failed':
      return failed(heard, report.failure, report.error, nowMs, random, false)
    case 'canceled':
      // Nobody here has canceled it: its owner on the device has.
      return failed(heard, 'refused', { code: 'CANCELED', message: 'stopped at the device' }, nowMs, random, false)
    default:
      return report satisfies never
  }
}

/** Whether the attempt has ended with it. */
export const isFinal = ({ type }: { readonly type: string }): boolean =>
  type === 'succeeded' || type === 'failed' || type === 'canceled'

function returned(job: Job, device: string, nowMs: number): JobStep {
  if (holderOf(job) !== device) return unchanged(job)
  const back = job.lostAtMs === null ? job : due({ ...job, lostAtMs: null }, nowMs)
  // It may never have come, or its acceptance may not: a repeat is harmless.
  return job.state === 'SENT' ? step(back, { kind: 'send', device, attempt: job.attempt }) : step(back)
}

function overdue(job: Job, nowMs: number, random: Random): JobStep {
  if (nowMs >= job.endsByMs)
    return ended(job, 'TIMED_OUT', job.error ?? { code: 'TIMED_OUT', message: `not done by its deadline: it was ${job.state}` })
  if (job.state === 'QUEUED') return step(due({ ...job, notBeforeMs: null }, nowMs))
  const device = holderOf(job)
  if (job.runByMs !== null && nowMs >= job.runByMs)
    return failed(job, 'timeout', { code: 'TIMED_OUT', message: `${device} was not done in time` }, nowMs, random, true)
  if (job.lostAtMs !== null)
    return failed(job, 'lost', { code: 'DEVICE_LOST', message: `${device} went away and did not come back` }, nowMs, random, true)
  if (job.state === 'SENT')
    return failed(job, 'undelivered', { code: 'DEVICE_LOST', message: `${device} did not take it` }, nowMs, random, true)
  if (job.state === 'ACCEPTED') return takenBack(job, { code: 'TIMED_OUT', message: `${device} did not begin in time` }, nowMs)
  return failed(job, 'timeout', { code: 'TIMED_OUT', message: `no word from ${device} while RUNNING` }, nowMs, random, true)
}

/** Nobody has begun it: it waits as if it had never been given away. */
function takenBack(job: Job, error: JobError | null, nowMs: number): JobStep {
  const device = holderOf(job)
  const waiting = due({ ...job, state: 'QUEUED', notBeforeMs: null, runByMs: null, lostAtMs: null, error }, nowMs)
  return device === null ? step(waiting) : step(waiting, { kind: 'cancelAttempt', device, attempt: job.attempt })
}

/** @param recall whether the device may still be at it */
function failed(job: Job, failure: AttemptFailure, error: JobError, nowMs: number, random: Random, recall: boolean): JobStep {
  const count = (job.failures[failure] ?? 0) + 1
  const failures: Job['failures'] = { ...job.failures, [failure]: count }
  const counted = { ...job, failures, error }
  const all = Object.values(failures).reduce((sum, some) => sum + some, 0)
  const delayMs = all < job.terms.attempts ? retryDelayMs(failure, count, random) : undefined
  if (delayMs === undefined) {
    const state = failure === 'timeout' ? 'TIMED_OUT' : failure === 'refused' ? 'REJECTED' : 'FAILED'
    const { job: dead, effects } = ended(counted, state, error)
    return recall ? step(dead, ...effects) : step(dead)
  }
  const device = holderOf(job)
  const waiting = { ...counted, state: 'QUEUED' as const, notBeforeMs: nowMs + delayMs, runByMs: null, lostAtMs: null }
  // An attempt that was only lost from sight may still give the first result.
  const mayWin = job.terms.keep === 'any' && (failure === 'lost' || failure === 'undelivered')
  const effects: JobEffect[] =
    recall && !mayWin && device !== null ? [{ kind: 'cancelAttempt', device, attempt: job.attempt }] : []
  return step(due(waiting, nowMs), ...effects)
}

function ended(job: Job, state: JobState, error: JobError | null): JobStep {
  const device = holderOf(job)
  const done = { ...job, state, dueMs: null, notBeforeMs: null, runByMs: null, lostAtMs: null, error }
  return device === null ? step(done) : step(done, { kind: 'cancelAttempt', device, attempt: job.attempt })
}

/** The job with the deadline of the state that it has just entered or shown a sign of life in. */
function due(job: Job, nowMs: number): Job {
  const { terms, endsByMs, notBeforeMs, runByMs, lostAtMs } = job
  const earliest = (...times: (number | null)[]) => Math.min(endsByMs, ...times.filter((time) => time !== null))
  // Whoever is away cannot show signs of life: only its return is waited for.
  if (lostAtMs !== null) return { ...job, dueMs: earliest(lostAtMs + terms.lostAfterMs, runByMs) }
  switch (job.state) {
    case 'QUEUED':
      return { ...job, dueMs: earliest(notBeforeMs) }
    case 'SENT':
      return { ...job, dueMs: earliest(nowMs + terms.acceptMs) }
    case 'ACCEPTED':
      return { ...job, dueMs: earliest(nowMs + terms.startMs) }
    case 'RUNNING':
      return { ...job, dueMs: earliest(nowMs + terms.stepMs, runByMs) }
    default:
      return { ...job, dueMs: null }
  }
}
