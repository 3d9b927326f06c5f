import type { Random } from '../../kit/base/random.ts'
import {
  holderOf,
  isFinalState,
  isLive,
  isTerminal,
  type Job,
  type JobEffect,
  type JobError,
  type JobInput,
  type JobState,
  type JobStep,
} from './job.ts'
import { type AttemptFailure, retryDelayMs } from './retry.ts'

/**
 * The job's next state, and the effects to run once that state is stored. Terminal states are final: the first valid
 * result wins. A report counts only from the device of its attempt. A report on a replaced attempt counts only if it
 * is a result.
 * @param random jitter of retry delays
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
      return deviceReturned(job, input.device, nowMs)
    case 'absent':
      return holderOf(job) === input.device && job.lostAtMs === null
        ? step(withDeadline({ ...job, lostAtMs: nowMs }, nowMs))
        : unchanged(job)
    case 'requeue':
      return job.state === 'ACCEPTED' ? requeued(job, null, nowMs) : unchanged(job)
    case 'cancel':
      return isTerminal(job.state)
        ? unchanged(job)
        : ended(job, 'CANCELED', { code: 'CANCELED', message: 'canceled at the bridge' })
    case 'tick':
      return job.dueMs === null || nowMs < job.dueMs ? unchanged(job) : expired(job, nowMs, random)
    default:
      return input satisfies never
  }
}

const step = (job: Job, ...effects: JobEffect[]): JobStep => ({ job, effects })
const unchanged = (job: Job): JobStep => step(job)

function dispatched(job: Job, device: string, nowMs: number): JobStep {
  const attempt = job.attempt + 1
  const sent = { ...job, state: 'SENT' as const, attempt, devices: [...job.devices, device], lostAtMs: null, runByMs: null }
  return step(withDeadline(sent, nowMs), { kind: 'send', device, attempt })
}

function reported(
  job: Job,
  { device, attempt, report }: Extract<JobInput, { kind: 'report' }>,
  nowMs: number,
  random: Random,
): JobStep {
  if (isTerminal(job.state)) return isFinalState(report) ? unchanged(job) : step(job, { kind: 'cancelAttempt', device, attempt })
  const isCurrent = attempt === job.attempt && isLive(job.state)
  if (report.type === 'succeeded') {
    // The latest attempt may report late, after it failed here: no other attempt has replaced it.
    const counts = attempt === job.attempt || job.terms.keep === 'any'
    if (!counts) return unchanged(job)
    const { job: done, effects } = ended(job, 'SUCCEEDED', null)
    return step(done, ...effects.filter((effect) => !isCurrent || effect.kind !== 'cancelAttempt'), { kind: 'storeResult' })
  }
  if (!isCurrent) {
    // Under `keep: any` a replaced attempt may still yield the first result.
    return isFinalState(report) || job.terms.keep === 'any'
      ? unchanged(job)
      : step(job, { kind: 'cancelAttempt', device, attempt })
  }
  // A device that reports is present.
  const present = { ...job, lostAtMs: null }
  switch (report.type) {
    case 'accepted':
      return step(withDeadline(job.state === 'SENT' ? { ...present, state: 'ACCEPTED' } : present, nowMs))
    case 'running':
    case 'progress':
      return step(withDeadline({ ...present, state: 'RUNNING', runByMs: job.runByMs ?? nowMs + job.terms.runMs }, nowMs))
    case 'failed':
      return failed(present, report.failure, report.error, nowMs, random, { isDeviceBusy: false })
    case 'canceled': {
      // The bridge did not cancel it, so the device's owner did.
      const error = { code: 'CANCELED', message: 'canceled at the device' }
      return failed(present, 'refused', error, nowMs, random, { isDeviceBusy: false })
    }
    default:
      return report satisfies never
  }
}

function deviceReturned(job: Job, device: string, nowMs: number): JobStep {
  if (holderOf(job) !== device) return unchanged(job)
  const present = job.lostAtMs === null ? job : withDeadline({ ...job, lostAtMs: null }, nowMs)
  // The job or its acceptance may have been lost on the way. Sending it again is harmless.
  return job.state === 'SENT' ? step(present, { kind: 'send', device, attempt: job.attempt }) : step(present)
}

function expired(job: Job, nowMs: number, random: Random): JobStep {
  if (nowMs >= job.endsByMs)
    return ended(job, 'TIMED_OUT', job.error ?? { code: 'TIMED_OUT', message: `deadline passed while ${job.state}` })
  if (job.state === 'QUEUED') return step(withDeadline({ ...job, notBeforeMs: null }, nowMs))
  const device = holderOf(job)
  const fail = (failure: AttemptFailure, code: string, message: string) =>
    failed(job, failure, { code, message }, nowMs, random, { isDeviceBusy: true })
  if (job.runByMs !== null && nowMs >= job.runByMs) return fail('timeout', 'TIMED_OUT', `${device} did not finish in time`)
  if (job.lostAtMs !== null) return fail('lost', 'DEVICE_LOST', `${device} disconnected and did not return in time`)
  if (job.state === 'SENT') return fail('undelivered', 'DEVICE_LOST', `${device} did not accept the job in time`)
  if (job.state === 'ACCEPTED')
    return requeued(job, { code: 'TIMED_OUT', message: `${device} did not start the job in time` }, nowMs)
  return fail('timeout', 'TIMED_OUT', `${device} reported no progress in time`)
}

/** No work has begun, so the attempt counts as no failure. */
function requeued(job: Job, error: JobError | null, nowMs: number): JobStep {
  const device = holderOf(job)
  const queued = withDeadline({ ...job, state: 'QUEUED', notBeforeMs: null, runByMs: null, lostAtMs: null, error }, nowMs)
  return device === null ? step(queued) : step(queued, { kind: 'cancelAttempt', device, attempt: job.attempt })
}

/** @param isDeviceBusy whether the device may still be running the attempt, so that it must be asked to stop */
function failed(
  job: Job,
  failure: AttemptFailure,
  error: JobError,
  nowMs: number,
  random: Random,
  { isDeviceBusy }: { isDeviceBusy: boolean },
): JobStep {
  const count = (job.failures[failure] ?? 0) + 1
  const failures: Job['failures'] = { ...job.failures, [failure]: count }
  const counted = { ...job, failures, error }
  const total = Object.values(failures).reduce((sum, ofKind) => sum + ofKind, 0)
  const delayMs = total < job.terms.attempts ? retryDelayMs(failure, count, random) : undefined
  if (delayMs === undefined) {
    const state = failure === 'timeout' ? 'TIMED_OUT' : failure === 'refused' ? 'REJECTED' : 'FAILED'
    const { job: dead, effects } = ended(counted, state, error)
    return isDeviceBusy ? step(dead, ...effects) : step(dead)
  }
  const device = holderOf(job)
  const queued = { ...counted, state: 'QUEUED' as const, notBeforeMs: nowMs + delayMs, runByMs: null, lostAtMs: null }
  // An attempt that only lost contact may still yield the first result.
  const mayWin = job.terms.keep === 'any' && (failure === 'lost' || failure === 'undelivered')
  const effects: JobEffect[] =
    isDeviceBusy && !mayWin && device !== null ? [{ kind: 'cancelAttempt', device, attempt: job.attempt }] : []
  return step(withDeadline(queued, nowMs), ...effects)
}

function ended(job: Job, state: JobState, error: JobError | null): JobStep {
  const device = holderOf(job)
  const done = { ...job, state, dueMs: null, notBeforeMs: null, runByMs: null, lostAtMs: null, error }
  return device === null ? step(done) : step(done, { kind: 'cancelAttempt', device, attempt: job.attempt })
}

/** Sets the deadline of the state that the job has entered, or has just reported progress in. */
function withDeadline(job: Job, nowMs: number): Job {
  const { terms, endsByMs, notBeforeMs, runByMs, lostAtMs } = job
  const earliest = (...times: (number | null)[]) => Math.min(endsByMs, ...times.filter((time) => time !== null))
  // An absent device cannot report progress, so only its return has a deadline.
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
