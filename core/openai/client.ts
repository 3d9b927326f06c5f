import type { IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import type { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import { type BridgeAddress, requestOnce, trustHint } from '../base/pinned-request.ts'
import { ErrorBody, fromErrorDetail } from './api-error.ts'
import type { ChatRequest, CompletionRequest } from './request.ts'
import { type BrimReport, StreamEvent, type Usage } from './responses.ts'
import { readSse } from './sse-reader.ts'

/** What a client sends: messages make a chat request, a prompt a completion request. */
export type AnswerBody = z.input<typeof ChatRequest> | z.input<typeof CompletionRequest>

/** A server with the API, and the credentials for it. */
export interface Api extends BridgeAddress {
  readonly server: 'agent' | 'bridge'
  /** Absent: it requires none. */
  readonly key?: string | undefined
}

export interface StreamedAnswer {
  readonly text: string
  readonly finishReason: string | undefined
  readonly usage: Usage | undefined
  readonly report: BrimReport
}

/**
 * Asks an agent or a bridge for an answer and reads it as a stream.
 * @param onText receives each piece of text as it arrives
 * @param onNotice receives what is reported beside the answer: that it waits for a bridge
 * @throws BrimError AGENT_UNREACHABLE, BRIDGE_UNREACHABLE, IDENTITY_INVALID (another key than the pinned one), LINK_LOST (the
 * stream broke), the server's own errors; the signal's reason
 */
export async function streamAnswerFrom(
  api: Api,
  body: AnswerBody,
  signal: AbortSignal,
  onText: (piece: string) => void = () => {},
  onNotice: (text: string) => void = () => {},
): Promise<StreamedAnswer> {
  const response = await post(api, body, signal)
  let text = ''
  let finishReason: string | undefined
  let usage: Usage | undefined
  let report: BrimReport | undefined
  for await (const event of eventsOf(response, api, signal, onNotice)) {
    if (event.error) throw fromErrorDetail(event.error)
    const [choice] = event.choices
    const piece = choice?.delta?.content ?? choice?.text ?? ''
    text += piece
    if (piece !== '') onText(piece)
    finishReason = choice?.finish_reason ?? finishReason
    usage = event.usage ?? usage
    report = event.brim ?? report
  }
  if (!report)
    throw new BrimError('LINK_LOST', 'the answer ended early', { hint: `the ${api.server}'s log has the reason; ask again` })
  return { text, finishReason, usage, report }
}

async function post(api: Api, body: AnswerBody, signal: AbortSignal): Promise<IncomingMessage> {
  const { server, url, key } = api
  const prefix = new URL(url).pathname.replace(/\/$/, '')
  const path = `${prefix}/v1/${'messages' in body ? 'chat/completions' : 'completions'}`
  const response = await requestOnce(api, path, {
    method: 'POST',
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  }).catch((cause: unknown) => {
    signal.throwIfAborted()
    if (cause instanceof BrimError) throw cause
    throw unreachable(api, `no ${server} responds at ${url}`, trustHint(cause) ?? startHints[server], cause)
  })
  const { statusCode = 0, headers } = response
  if (statusCode === 200 && headers['content-type']?.startsWith('text/event-stream')) return response
  const parsed = ErrorBody.safeParse(await json(response).catch(() => undefined))
  if (parsed.success) throw fromErrorDetail(parsed.data.error)
  const hint = `check ${options[server]}: is another server on that port?`
  throw unreachable(api, `${url} responds with status ${statusCode}, but is no ${server} with the API`, hint)
}

const options = { agent: '--api', bridge: '--bridge' }
const startHints = {
  agent: 'start one with "brim agent run", or give its URL with --api; --bridge asks a bridge',
  bridge: 'start one with "brim bridge run", or give its HTTP URL or the name of a login with --bridge',
}

const unreachable = ({ server }: Api, message: string, hint: string, cause?: unknown) =>
  new BrimError(server === 'agent' ? 'AGENT_UNREACHABLE' : 'BRIDGE_UNREACHABLE', message, { hint, cause })

async function* eventsOf(
  response: IncomingMessage,
  { server }: Api,
  signal: AbortSignal,
  onNotice: (text: string) => void,
): AsyncGenerator<z.infer<typeof StreamEvent>> {
  try {
    for await (const data of readSse(response, { onComment: onNotice })) {
      if (data === '[DONE]') return
      yield StreamEvent.parse(JSON.parse(data))
    }
  } catch (cause) {
    signal.throwIfAborted()
    if (cause instanceof BrimError) throw cause
    throw new BrimError('LINK_LOST', `the connection to the ${server} broke during the answer`, { cause })
  }
}
