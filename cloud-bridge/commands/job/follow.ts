import { z } from 'zod'
import { BrimError } from '../../../core/base/errors.ts'
import type { Io } from '../../../core/base/io.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { printable } from '../figures.ts'
import { eventLine, failureText, Job, JobEvent, jobPath } from './job.ts'

const Result = z.looseObject({ text: z.string().optional() }).nullish()
const JobEnd = z.looseObject({ type: z.literal('end'), job: z.looseObject({ ...Job.shape, result: Result }) })

/**
 * Prints a job's text as it arrives, until the job ends. A new attempt starts the text again.
 * @throws BrimError JOB_FAILED, LINK_LOST, and as the client does
 */
export async function followJob(client: BridgeClient, id: string, json: boolean, io: Io): Promise<void> {
  let shown = ''
  for await (const raw of eventsOf(client, id, io.signal)) {
    if (json) io.out(JSON.stringify(raw))
    const end = JobEnd.safeParse(raw)
    if (end.success) return printEnd(end.data.job, shown, json, io)
    if (json) continue
    const event = JobEvent.parse(raw)
    if (event.type === 'text') {
      shown += event.data.text ?? ''
      io.write(event.data.text ?? '')
      continue
    }
    if (event.type === 'queued' && shown !== '') {
      io.write('\n')
      shown = ''
    }
    io.err(eventLine(event))
  }
  throw connectionLost(id)
}

/** @param shown text that is already printed. @throws BrimError JOB_FAILED */
function printEnd({ id, state, error, result }: z.infer<typeof JobEnd>['job'], shown: string, json: boolean, io: Io): void {
  if (state !== 'SUCCEEDED')
    throw new BrimError('JOB_FAILED', printable(`job ${id} is ${state}${error ? `: ${failureText(error)}` : ''}`), {
      hint: `"brim job show ${id}" shows its history; "brim job retry ${id}" submits it again`,
    })
  if (json) return
  // A kind without text shows its result.
  const text = result?.text ?? JSON.stringify(result)
  io.write(`${text.startsWith(shown) ? text.slice(shown.length) : `\n${text}`}\n`)
}

async function* eventsOf(client: BridgeClient, id: string, signal: AbortSignal): AsyncGenerator<unknown> {
  try {
    yield* client.events(`${jobPath(id)}/events`)
  } catch (cause) {
    signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : connectionLost(id, cause)
  }
}

const connectionLost = (id: string, cause?: unknown) =>
  new BrimError('LINK_LOST', 'the connection to the bridge broke; the job goes on', { cause, hint: `brim job watch ${id}` })
