import type { IncomingMessage, ServerResponse } from 'node:http'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { isTerminal, jobStates } from '../../core/policy/jobs/job.ts'
import { JobSubmission, jobKinds, maxInputBytes } from '../../core/protocol/jobs.ts'
import { reasonOf } from '../../core/protocol/read-message.ts'
import { type Batch, EventStreams } from '../http/event-stream.ts'
import type { Handler } from '../http/http-server.ts'
import { answer, bodyOf, noSuchPath } from '../http/json.ts'
import type { Call } from '../identity/callers.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'

export const jobsPath = '/v1/jobs'
/** Of a batch. */
const maxBodyBytes = 8 * 2 ** 20
const maxBatch = 1_000
/** Of one answer; a watcher reads on. */
const eventsAtOnce = 500

const Query = z.object({
  state: z.enum(jobStates).optional(),
  kind: z.enum(jobKinds).optional(),
  dead: z.literal('true').optional(),
  limit: z.coerce.number().int().min(1).max(1_000).default(50),
})

export interface JobsHttp extends Handler {
  /** Ends the streams of those who watch. */
  close(): void
}

/** `/v1/jobs…`: submit, list, show, watch, cancel, retry. What is submitted here is visible to the bridge. */
export function createJobsHttp(queue: JobQueue, jobs: JobStore): JobsHttp {
  const streams = new EventStreams()

  async function submit(request: IncomingMessage, call: Call): Promise<unknown> {
    call.describe('job.submit', jobsPath)
    const body = await bodyOf(request, maxBodyBytes)
    const key = request.headers['idempotency-key']
    const isBatch = typeof body === 'object' && body !== null && 'jobs' in body
    const raw: unknown[] = isBatch && Array.isArray(body.jobs) ? body.jobs : [body]
    if (raw.length === 0 || raw.length > maxBatch) throw invalid(`"jobs": 1 to ${maxBatch} at once, not ${raw.length}`)
    if (isBatch && key !== undefined) throw invalid('a batch has a key in each job, not one in its header')
    const submissions = raw.map((one, at) =>
      understood(one, typeof key === 'string' ? key : undefined, isBatch ? ['jobs', at] : []),
    )
    // Whoever repeats what may have got lost pays once.
    call.requireJobs(submissions.filter((one) => one.key === undefined || !jobs.hasKey(one.key)).length)
    const submitted = queue.submit(submissions).map(({ id, isNew }) => ({ id, isNew, visibleToBridge: true }))
    const taken = submitted.filter(({ isNew }) => isNew).length
    call.countJobs(taken)
    call.describe('job.submit', submitted[0]!.id, { jobs: submitted.length, new: taken })
    return isBatch ? { jobs: submitted } : submitted[0]
  }

  function list(url: URL): unknown {
    const query = Query.safeParse(Object.fromEntries(url.searchParams))
    if (!query.success) throw invalid(reasonOf(query.error))
    const { state, kind, dead, limit } = query.data
    return { jobs: jobs.list({ state, kind, dead: dead !== undefined, limit }) }
  }

  function show(id: string): unknown {
    return { ...existing(id), visibleToBridge: true }
  }

  const existing = (id: string) => {
    const job = jobs.find(id)
    if (job) return job
    throw new BrimError('JOB_UNKNOWN', `there is no job "${id}"`, { hint: 'brim job list shows the latest' })
  }

  /** The events after `Last-Event-ID` (or ?after=), then those to come, until the job has ended. */
  function stream(id: string, after: number, response: ServerResponse): void {
    existing(id)
    let seq = after
    const next = (): Batch => {
      const events = jobs.events(id, seq, eventsAtOnce)
      seq = events.at(-1)?.seq ?? seq
      const said = events.map((event) => ({ id: event.seq, data: event }))
      if (events.length === eventsAtOnce) return { events: said, after: 'more' }
      const job = existing(id)
      if (!isTerminal(job.state)) return { events: said, after: 'wait' }
      return { events: [...said, { data: { type: 'end', job } }], after: 'end' }
    }
    let wake = () => {}
    const stop = queue.watch(id, () => wake())
    wake = streams.open(response, next, stop).wake
  }

  async function route(request: IncomingMessage, response: ServerResponse, call: Call): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const [id, verb, ...rest] = url.pathname.slice(jobsPath.length).split('/').slice(1)
    const what = `${request.method} ${verb ?? (id === undefined ? 'all' : 'one')}`
    if (rest.length > 0) throw noSuchPath
    if (what === 'POST all') return answer(response, 202, await submit(request, call))
    if (what === 'GET all') return answer(response, 200, list(url))
    if (id === undefined) throw noSuchPath
    switch (what) {
      case 'GET one':
        return answer(response, 200, show(id))
      case 'GET events': {
        const after = Number(request.headers['last-event-id'] ?? url.searchParams.get('after') ?? 0)
        if (!Number.isInteger(after) || after < 0) throw invalid('"after" is the sequence number of an event')
        if (request.headers.accept?.includes('text/event-stream')) return stream(id, after, response)
        existing(id)
        return answer(response, 200, { events: jobs.events(id, after, eventsAtOnce) })
      }
      case 'POST cancel': {
        call.describe('job.cancel', id)
        const canceled = queue.cancel(existing(id).id) === true
        return answer(response, 200, { canceled, state: existing(id).state })
      }
      case 'POST retry': {
        call.describe('job.retry', id)
        const { state } = existing(id)
        if (isTerminal(state)) call.requireJobs(1)
        const again = queue.retry(id)
        if (again) {
          call.countJobs(1)
          call.describe('job.retry', id, { newJob: again.id })
          return answer(response, 202, { id: again.id, retryOf: id })
        }
        throw new BrimError('REQUEST_INVALID', `job ${id} has not ended: it is ${state}`, {
          hint: 'cancel it first, or wait',
        })
      }
      default:
        throw noSuchPath
    }
  }

  return {
    handle: route,
    close() {
      streams.endAll()
    },
  }
}

function understood(body: unknown, key: string | undefined, at: readonly PropertyKey[]): JobSubmission {
  const whole = key !== undefined && typeof body === 'object' ? { key, ...body } : body
  const submission = JobSubmission.safeParse(whole)
  if (!submission.success) throw invalid(reasonOf(submission.error, at))
  const bytes = Buffer.byteLength(JSON.stringify(submission.data.input))
  if (bytes > maxInputBytes) throw invalid(`"input" has ${bytes} bytes; the limit is ${maxInputBytes}`)
  return submission.data
}

const invalid = (message: string) => new BrimError('REQUEST_INVALID', message, { hint: 'brim job submit --help has examples' })
