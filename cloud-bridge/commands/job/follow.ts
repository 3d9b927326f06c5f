import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { type JobDetails, jobOperations } from '../../../core/wire/protocol/http/jobs.ts'
import type { BridgeClient } from '../bridge-client.ts'
import { eventData, eventLine, failureText } from './job.ts'
import { resultText } from './result.ts'

/**
 * Prints a job's text as it arrives, until the job ends. A new attempt starts the text again.
 * @throws BrimError JOB_FAILED, LINK_LOST, and as the client does
 */
export async function followJob(client: BridgeClient, id: string, json: boolean, io: Io): Promise<void> {
  let shown = ''
  for await (const { raw, value: event } of eventsOf(client, id, io.signal)) {
    if (json) io.out(JSON.stringify(raw))
    if ('job' in event) return printEnd(event.job, shown, json, io)
    if (json) continue
    if (event.type === 'text') {
      const { text } = eventData(event)
      shown += text
      io.write(text)
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
function printEnd({ id, kind, state, error, result }: JobDetails, shown: string, json: boolean, io: Io): void {
  if (state !== 'SUCCEEDED')
    throw new BrimError('JOB_FAILED', `job ${id} is ${state}${error ? `: ${failureText(error)}` : ''}`, {
      hint: `"brim job show ${id}" shows its history; "brim job retry ${id}" submits it again`,
    })
  if (json) return
  const text = resultText(kind, result)
  io.write(`${text.startsWith(shown) ? text.slice(shown.length) : `\n${text}`}\n`)
}

async function* eventsOf(client: BridgeClient, id: string, signal: AbortSignal) {
  try {
    yield* client.events(jobOperations.events, { params: { id } })
  } catch (cause) {
    signal.throwIfAborted()
    throw cause instanceof BrimError ? cause : connectionLost(id, cause)
  }
}

const connectionLost = (id: string, cause?: unknown) =>
  new BrimError('LINK_LOST', 'the connection to the bridge broke; the job continues', {
    cause,
    hint: `"brim job show ${id}" shows how far it is`,
  })
