import { z } from 'zod'
import { JobSubmission, jobKinds } from '../jobs.ts'
import { openEnum } from './open-enum.ts'
import { get, type Operations, post } from './operation.ts'

export const jobStates = [
  'QUEUED',
  'SENT',
  'ACCEPTED',
  'RUNNING',
  'SUCCEEDED',
  'FAILED',
  'REJECTED',
  'TIMED_OUT',
  'CANCELED',
] as const
const JobState = openEnum(jobStates)
const at = z.iso.datetime()

const JobError = z.object({ code: z.string(), message: z.string() })

/** A job as lists show it. */
export const JobSummary = z.object({
  id: z.string(),
  kind: z.string(),
  state: JobState,
  attempt: z.int().min(0).describe('Counts from 1; 0 before the first dispatch.'),
  device: z.string().nullable().describe('Device that holds the job now.'),
  lastDevice: z.string().nullable().default(null).describe('Device of the latest attempt.'),
  boundTo: z.string().nullable().describe('The only device that may run it.'),
  priority: z.int().min(0).max(9),
  key: z.string().nullable().describe('Idempotency key.'),
  submittedAt: at,
  deadlineAt: at,
  finishedAt: at.nullable(),
  retryOf: z.string().nullable().describe('Job that this one repeats.'),
  failures: z.record(z.string(), z.int().min(1)).describe('Failed attempts by kind of failure.'),
  error: JobError.nullable(),
})
export type JobSummary = z.infer<typeof JobSummary>

export const JobDetails = JobSummary.extend({
  input: z.unknown(),
  result: z.unknown().describe('Null until the job has succeeded.'),
  devices: z.array(z.string()).describe('Device of each attempt.'),
})
export type JobDetails = z.infer<typeof JobDetails>

/** One entry of a job's history. */
export const StoredJobEvent = z.object({
  seq: z.int().min(1).describe('Counts the events of one job, from 1.'),
  at,
  attempt: z.int().min(0),
  device: z.string().nullable(),
  type: z.string(),
  data: z.unknown(),
})
export type StoredJobEvent = z.infer<typeof StoredJobEvent>

export const EndEvent = z.object({ type: z.literal('end'), job: JobDetails })
const waitsFor = z.string().nullable().default(null).describe('Why no device can take the job now; null: one can, or has it.')

export const Submitted = z.object({
  id: z.string(),
  isNew: z.boolean().describe('False: a job with this idempotency key existed already.'),
  visibleToBridge: z.literal(true).describe('Input and result are stored at the bridge in plain text.'),
  waitsFor,
})

export const maxBatchJobs = 1_000
export const JobBatch = z.strictObject({ jobs: z.array(JobSubmission).min(1).max(maxBatchJobs) })

export const jobOperations = {
  submit: post('/v1/jobs', 'operate', 'Submit one job, or a batch of jobs; `software.install` needs an admin', {
    body: z.union([JobSubmission, JobBatch]),
    maxBodyBytes: 8 * 2 ** 20,
    status: 202,
    response: z.union([Submitted, z.object({ jobs: z.array(Submitted) })]),
  }),
  list: get('/v1/jobs', 'operate', 'Jobs, newest first', {
    query: z.object({
      state: z.enum(jobStates).optional(),
      kind: z.enum(jobKinds).optional(),
      dead: z.literal('true').optional().describe('Only failed, rejected and timed-out jobs.'),
      limit: z.coerce.number().int().min(1).max(1_000).default(50),
    }),
    response: z.object({ jobs: z.array(JobSummary) }),
  }),
  show: get('/v1/jobs/:id', 'operate', 'One job with its input and result', {
    response: JobDetails.extend({ visibleToBridge: z.literal(true), waitsFor }),
  }),
  events: get('/v1/jobs/:id/events', 'operate', 'Events of one job; as a stream, later events too, until the job has ended', {
    query: z.object({
      after: z.coerce.number().int().min(0).default(0).describe('Sequence number; a stream also reads the Last-Event-ID header.'),
    }),
    response: z.object({ events: z.array(StoredJobEvent) }),
    event: z.union([EndEvent, StoredJobEvent]),
  }),
  cancel: post('/v1/jobs/:id/cancel', 'operate', 'Cancel a job', {
    response: z.object({ canceled: z.boolean().describe('False: the job had ended before.'), state: JobState }),
  }),
  retry: post('/v1/jobs/:id/retry', 'operate', 'Submit the same work again as a new job; `software.install` needs an admin', {
    status: 202,
    response: z.object({ id: z.string(), retryOf: z.string() }),
  }),
} satisfies Operations
