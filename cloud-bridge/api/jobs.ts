import { z } from 'zod'
import '../../core/kit/base/plain-messages.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { withShownUrls } from '../../core/kit/base/shown-url.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import { type JobDetails, jobOperations, maxBatchJobs } from '../../core/wire/protocol/http/jobs.ts'
import { InstallInput, JobSubmission, maintenanceKinds, maxInputBytes } from '../../core/wire/protocol/jobs.ts'
import { reasonOf } from '../../core/wire/protocol/read-message.ts'
import type { EventBatch, EventSource } from '../http/event-streams.ts'
import type { RouteRequest, Routes } from '../http/router.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import { type FindBundle, requireBundle } from './offered.ts'
import { downgradeOf, requireAdminFor } from './require-admin.ts'

/** Events of one response, or of one batch of a stream. */
const eventsAtOnce = 500

/** The handler reads each job itself, so that an error names the one that is wrong. */
const submitAny = { ...jobOperations.submit, body: z.unknown() }

/** What a job may refer to. */
export interface JobTargets {
  /** Whether a device of this name has ever connected, or is enrolled. */
  isKnown(device: string): boolean
  readonly findBundle: FindBundle
}

/** `/v1/jobs…`. Input and result of a job are visible to the bridge. */
export function jobRoutes(queue: JobQueue, jobs: JobStore, targets: JobTargets): Routes {
  function existing(id: string) {
    const job = jobs.find(id)
    // Only the devices need what the URL of an installation holds beside its address.
    if (job) return maintenanceKinds.has(job.kind) ? { ...job, input: withShownUrls(job.input) } : job
    throw new BrimError('JOB_UNKNOWN', `there is no job "${id}"`, { hint: '"brim job list" shows the latest jobs' })
  }

  const isNew = ({ key }: JobSubmission) => key === undefined || jobs.idOfKey(key) === undefined

  /** @throws BrimError DEVICE_UNKNOWN, MODEL_UNKNOWN: the job would wait for its deadline, or fail at the device */
  async function requireTargets(submissions: readonly JobSubmission[]): Promise<void> {
    for (const device of new Set(submissions.map((submission) => submission.device)))
      if (device !== undefined && !targets.isKnown(device)) throw unknownDevice(device)
    const installs = submissions.filter(({ kind }) => kind === 'bundle.install').map(({ input }) => InstallInput.parse(input))
    for (const wanted of installs) await requireBundle(targets.findBundle, wanted)
  }

  async function submit({ body, headers, caller }: RouteRequest<typeof submitAny>) {
    caller.auditAs('job.submit', jobOperations.submit.path)
    const { submissions, isBatch } = submissionsOf(body, headers['idempotency-key'])
    for (const { kind, input } of submissions) requireAdminFor(kind, input, caller)
    await requireTargets(submissions.filter(isNew))
    // A client that repeats a request after a lost response is charged once.
    caller.requireJobs(submissions.filter(isNew).length)
    const submitted = queue.submit(submissions).map(({ id, isNew }, at) => {
      const { kind, device = null } = submissions[at]!
      return { id, isNew, visibleToBridge: true as const, waitsFor: isNew ? queue.lacksDevice(kind, device) : null }
    })
    const newJobs = submitted.filter(({ isNew }) => isNew).length
    caller.countJobs(newJobs)
    caller.auditAs('job.submit', submitted[0]!.id, {
      jobs: submitted.length,
      new: newJobs,
      ...submissions.map(({ input }) => downgradeOf(input)).find(({ allowDowngrade }) => allowDowngrade),
    })
    return isBatch ? { jobs: submitted } : submitted[0]!
  }

  /** The events after `after`, then later ones, until the job has ended. */
  function eventsOf(id: string, after: number): EventSource {
    let seq = after
    return {
      next(): EventBatch {
        const stored = jobs.events(id, seq, eventsAtOnce)
        seq = stored.at(-1)?.seq ?? seq
        const events = stored.map((event) => ({ id: event.seq, data: event }))
        if (stored.length === eventsAtOnce) return { events, after: 'more' }
        const job = existing(id)
        if (!isTerminal(job.state)) return { events, after: 'wait' }
        return { events: [...events, { data: { type: 'end', job } }], after: 'end' }
      },
      subscribe: (wake) => queue.watch(id, wake),
    }
  }

  return (router) => {
    router.serve(submitAny, submit)
    router.serve(jobOperations.list, ({ query: { dead, ...query } }) => ({
      jobs: jobs.list({ ...query, dead: dead !== undefined }),
    }))
    router.serve(jobOperations.show, ({ params: { id } }) => {
      const job = existing(id)
      const waitsFor = job.state === 'QUEUED' ? queue.lacksDevice(job.kind, job.boundTo) : null
      return { ...job, visibleToBridge: true as const, waitsFor }
    })
    router.serve(jobOperations.events, ({ params: { id }, query, headers, acceptsEvents, events }) => {
      existing(id)
      if (!acceptsEvents) return { events: jobs.events(id, query.after, eventsAtOnce) }
      return events(eventsOf(id, lastEventId(headers['last-event-id']) ?? query.after))
    })
    router.serve(jobOperations.cancel, ({ params: { id }, caller }) => {
      caller.auditAs('job.cancel', id)
      const canceled = queue.cancel(existing(id).id) === true
      return { canceled, state: existing(id).state }
    })
    router.serve(jobOperations.retry, ({ params: { id }, caller }) => {
      caller.auditAs('job.retry', id)
      const { state, boundTo, kind, input } = existing(id)
      requireAdminFor(kind, input, caller)
      if (boundTo !== null && !targets.isKnown(boundTo)) throw unknownDevice(boundTo)
      if (isTerminal(state)) caller.requireJobs(1)
      const again = queue.retry(id)
      if (!again) throw notEnded(id, state)
      caller.countJobs(1)
      caller.auditAs('job.retry', id, { newJob: again.id })
      return { id: again.id, retryOf: id }
    })
  }
}

/** @throws BrimError REQUEST_INVALID naming the job and field that are wrong */
function submissionsOf(body: unknown, key: string | string[] | undefined) {
  const isBatch = typeof body === 'object' && body !== null && 'jobs' in body
  const all: unknown[] = isBatch && Array.isArray(body.jobs) ? body.jobs : [body]
  if (all.length === 0 || all.length > maxBatchJobs)
    throw invalid(`"jobs": a batch has 1 to ${maxBatchJobs} jobs, not ${all.length}`)
  if (isBatch && key !== undefined) throw invalid('a batch has a key in each job, not one in the Idempotency-Key header')
  const read = (job: unknown, index: number) => readSubmission(withKey(job, key), isBatch ? ['jobs', index] : [])
  return { isBatch, submissions: all.map(read) }
}

const withKey = (job: unknown, key: string | string[] | undefined): unknown =>
  typeof key === 'string' && typeof job === 'object' ? { key, ...job } : job

function readSubmission(job: unknown, at: readonly PropertyKey[]): JobSubmission {
  // Before the input is checked, which takes long where every value of millions is wrong.
  if (typeof job === 'object' && job !== null && 'input' in job) requireInputSize(job.input)
  const submission = JobSubmission.safeParse(job)
  if (!submission.success) throw invalid(reasonOf(submission.error, at))
  requireInputSize(submission.data.input)
  return submission.data
}

function requireInputSize(input: unknown): void {
  const bytes = Buffer.byteLength(JSON.stringify(input))
  if (bytes > maxInputBytes) throw invalid(`"input" has ${bytes} bytes; the limit is ${maxInputBytes}`)
}

function lastEventId(header: string | string[] | undefined): number | undefined {
  if (header === undefined) return undefined
  const seq = Number(header)
  if (Number.isInteger(seq) && seq >= 0) return seq
  throw invalid('Last-Event-ID is not the sequence number of an event')
}

const unknownDevice = (device: string) =>
  new BrimError('DEVICE_UNKNOWN', `this bridge knows no device "${device}"`, {
    hint: '"brim device list" lists them; a device is known once it is enrolled or has connected',
  })

const notEnded = (id: string, state: JobDetails['state']) =>
  new BrimError('REQUEST_INVALID', `job ${id} has not ended: it is ${state}`, { hint: 'cancel it first, or wait for its end' })

const invalid = (message: string) => new BrimError('REQUEST_INVALID', message, { hint: 'brim job submit --help has examples' })
