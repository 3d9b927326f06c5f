import { z } from 'zod'
import { visibleLine } from '../../../core/kit/base/visible-text.ts'
import type { JobSummary, StoredJobEvent } from '../../../core/wire/protocol/http/jobs.ts'

export const idOption = z.string().describe('id of the job, as "brim job submit" prints it')

export const failureText = ({ code, message }: NonNullable<JobSummary['error']>): string => `${message} [${code}]`

/** What the command shows of the data of an event. */
const EventData = z.object({
  text: z.string().default(''),
  error: z.object({ code: z.string(), message: z.string() }).nullish(),
  doneBytes: z.number().default(0),
  totalBytes: z.number().optional(),
})
/** Nothing of data that a newer release has changed. */
export const eventData = ({ data }: StoredJobEvent) => EventData.safeParse(data ?? {}).data ?? EventData.parse({})

export function eventLine(event: StoredJobEvent): string {
  const { at, type, attempt, device } = event
  const { error, doneBytes, totalBytes } = eventData(event)
  const mb = (bytes: number) => (bytes / 1e6).toFixed(1)
  const place = `attempt ${attempt}${device === null ? '' : ` at ${device}`}`
  const done = totalBytes === undefined ? '' : `: ${mb(doneBytes)} of ${mb(totalBytes)} MB`
  return visibleLine(`${at}  ${type.padEnd(10)}${place}${done}${error ? `: ${failureText(error)}` : ''}`)
}
