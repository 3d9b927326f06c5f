import type { z } from 'zod'
import { BrimError } from '../base/errors.ts'
import { ErrorBody, fromErrorDetail } from './api-error.ts'
import type { ChatRequest, CompletionRequest } from './request.ts'
import { type BrimReport, StreamEvent, type Usage } from './responses.ts'
import { readSse } from './sse-reader.ts'

/** What a client sends: messages make a chat request, a prompt a completion request. */
export type AnswerBody = z.input<typeof ChatRequest> | z.input<typeof CompletionRequest>

export interface AgentApi {
  /** Base URL, e.g. http://127.0.0.1:7071 */
  readonly url: string
  /** Absent: the agent requires none. */
  readonly key?: string | undefined
}

export interface StreamedAnswer {
  readonly text: string
  readonly finishReason: string | undefined
  readonly usage: Usage | undefined
  readonly report: BrimReport
}

/**
 * Asks an agent for an answer and reads it as a stream.
 * @param onText receives each piece of text as it arrives
 * @param onNotice receives what the agent reports beside the answer: that it waits for a bridge
 * @throws BrimError AGENT_UNREACHABLE, LINK_LOST (the stream broke), the agent's own errors; the signal's reason
 */
export async function streamFromAgent(
  api: AgentApi,
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
  for await (const event of eventsOf(response, onNotice)) {
    if (event.error) throw fromErrorDetail(event.error)
    const [choice] = event.choices
    const piece = choice?.delta?.content ?? choice?.text ?? ''
    text += piece
    if (piece !== '') onText(piece)
    finishReason = choice?.finish_reason ?? finishReason
    usage = event.usage ?? usage
    report = event.brim ?? report
  }
  if (!report) throw new BrimError('LINK_LOST', 'the answer ended early', { hint: "the agent's log has the reason; ask again" })
  return { text, finishReason, usage, report }
}

async function post({ url, key }: AgentApi, body: AnswerBody, signal: AbortSignal): Promise<Response> {
  const path = 'messages' in body ? 'chat/completions' : 'completions'
  const response = await fetch(`${url.replace(/\/$/, '')}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    signal,
  }).catch((cause: unknown) => {
    signal.throwIfAborted()
    throw new BrimError('AGENT_UNREACHABLE', `no agent or bridge responds at ${url}`, {
      cause: cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause,
      hint: 'start one with "brim agent run" or "brim bridge run", or give its URL with --api or --bridge',
    })
  })
  if (response.ok) return response
  const parsed = ErrorBody.safeParse(await response.json().catch(() => undefined))
  if (parsed.success) throw fromErrorDetail(parsed.data.error)
  throw new BrimError('AGENT_UNREACHABLE', `${url} responds with status ${response.status}, but is no agent or bridge`, {
    hint: 'check --api or --bridge: is another server on that port?',
  })
}

async function* eventsOf(response: Response, onNotice: (text: string) => void): AsyncGenerator<z.infer<typeof StreamEvent>> {
  if (!response.body) return
  try {
    for await (const data of readSse(response.body, { onComment: onNotice })) {
      if (data === '[DONE]') return
      yield StreamEvent.parse(JSON.parse(data))
    }
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('LINK_LOST', 'the connection to the agent broke during the answer', { cause })
  }
}
