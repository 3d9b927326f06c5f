import { z } from 'zod'
import { jobOperations } from '../../../core/protocol/http/jobs.ts'
import { printable } from '../figures.ts'

const Failure = z.looseObject({ code: z.string(), message: z.string() }).nullish()

/** A job in the bridge's list. */
export const Job = z.looseObject({
  id: z.string(),
  kind: z.string(),
  state: z.string(),
  attempt: z.number(),
  device: z.string().nullish(),
  submittedAt: z.string(),
  error: Failure,
})
export type Job = z.infer<typeof Job>

/** An entry of a job's history. */
export const JobEvent = z.looseObject({
  type: z.string(),
  seq: z.number(),
  at: z.string(),
  attempt: z.number(),
  device: z.string().nullish(),
  data: z.looseObject({
    text: z.string().optional(),
    error: Failure,
    doneBytes: z.number().optional(),
    totalBytes: z.number().optional(),
  }),
})
export type JobEvent = z.infer<typeof JobEvent>

export const idOption = z.string().describe('id of the job, as "brim job submit" prints it')

export const jobPath = (id: string) => `${jobOperations.list.path}/${encodeURIComponent(id)}`

export function eventLine({ at, type, attempt, device, data }: JobEvent): string {
  const failure = data.error ? `: ${failureText(data.error)}` : ''
  const mb = (bytes = 0) => (bytes / 1e6).toFixed(1)
  const done = data.totalBytes === undefined ? '' : `: ${mb(data.doneBytes)} of ${mb(data.totalBytes)} MB`
  return printable(`${at}  ${type.padEnd(10)}attempt ${attempt}${device == null ? '' : ` at ${device}`}${done}${failure}`)
}

export const failureText = ({ code, message }: NonNullable<Job['error']>) => `${message} [${code}]`
