import { json } from 'node:stream/consumers'
import type { z } from 'zod'
import { systemClock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { fromErrorDetail } from './api-error.ts'
import { askServer, type BrimServer } from './ask-server.ts'
import { type AnswerListeners, followAnswer, restPath, type StreamedAnswer } from './follow-answer.ts'
import type { ChatRequest, CompletionRequest } from './request.ts'
import { StreamEvent } from './responses.ts'

/** What a client sends: messages make a chat request, a prompt a completion request. */
export type AnswerBody = z.input<typeof ChatRequest> | z.input<typeof CompletionRequest>

/**
 * Asks an agent or a bridge for an answer and reads it as a stream. Where a bridge's connection is lost, the rest is read from
 * another one.
 * @throws BrimError AGENT_UNREACHABLE, BRIDGE_UNREACHABLE, IDENTITY_INVALID (another key than the pinned one), LINK_LOST (the
 * stream broke), the server's own errors; the signal's reason
 */
export function streamAnswerFrom(
  api: BrimServer,
  body: AnswerBody,
  signal: AbortSignal,
  listeners: AnswerListeners = {},
): Promise<StreamedAnswer> {
  const { server } = api
  const type = 'text/event-stream'
  const transport = {
    ask: () =>
      askServer(api, `/v1/${'messages' in body ? 'chat/completions' : 'completions'}`, {
        method: 'POST',
        body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
        type,
        signal,
      }),
    rest: (after: string) => askServer(api, restPath(after), { headers: { 'last-event-id': after }, type, signal }),
    parse: (data: string) => StreamEvent.parse(JSON.parse(data)),
    failureOf: (reported: Parameters<typeof fromErrorDetail>[0] | 'ended early') =>
      reported === 'ended early'
        ? new BrimError('LINK_LOST', 'the answer ended early', { hint: `the ${server}'s log has the reason; ask again` })
        : fromErrorDetail(reported),
    brokenBy: (cause: unknown) =>
      cause instanceof BrimError
        ? cause
        : new BrimError('LINK_LOST', `the connection to the ${server} broke during the answer`, { cause }),
    isPassing,
    nowMs: () => systemClock.nowMs(),
    sleep: (ms: number) => systemClock.sleep(ms, signal),
  }
  return followAnswer(transport, signal, listeners)
}

/** CANCELED: the bridge is shutting down. */
const isPassing = (error: unknown): boolean =>
  error instanceof BrimError && ['LINK_LOST', 'BRIDGE_UNREACHABLE', 'CANCELED'].includes(error.code)

/**
 * Asks for something that an API has beside answers.
 * @throws BrimError as `askServer`
 */
export const getJson = async (api: BrimServer, path: string, signal: AbortSignal): Promise<unknown> =>
  json(await askServer(api, path, { type: 'application/json', signal }))
