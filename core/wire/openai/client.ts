import type { IncomingMessage } from 'node:http'
import { json } from 'node:stream/consumers'
import type { z } from 'zod'
import { type Clock, systemClock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { fromErrorDetail } from './api-error.ts'
import { askServer, type BrimServer } from './ask-server.ts'
import type { ChatRequest, CompletionRequest } from './request.ts'
import { type BrimReport, type SketchProgress, StreamEvent, type Usage } from './responses.ts'
import { readSse, type SseOptions } from './sse-reader.ts'

/** What a client sends: messages make a chat request, a prompt a completion request. */
export type AnswerBody = z.input<typeof ChatRequest> | z.input<typeof CompletionRequest>

interface StreamedAnswer {
  readonly text: string
  readonly finishReason: string | undefined
  readonly usage: Usage | undefined
  readonly report: BrimReport
}

export interface AnswerListeners {
  /** Receives each piece of text as it arrives. */
  onText?(piece: string): void
  /** Receives the lines of the answer's sketch that the text does not cover yet, before the text that changes them. */
  onSketch?(lines: readonly string[]): void
  /** Receives what is reported beside the answer: that it waits for a bridge, that the connection was lost. */
  onNotice?(text: string): void
}

/** A bridge is given as long to come back as it keeps an interrupted answer by default. */
const patienceMs = 60_000
const reconnectEveryMs = 500

/**
 * Asks an agent or a bridge for an answer and reads it as a stream. Where a bridge's connection is lost, the rest is read from
 * another one.
 * @throws BrimError AGENT_UNREACHABLE, BRIDGE_UNREACHABLE, IDENTITY_INVALID (another key than the pinned one), LINK_LOST (the
 * stream broke), the server's own errors; the signal's reason
 */
export async function streamAnswerFrom(
  api: BrimServer,
  body: AnswerBody,
  signal: AbortSignal,
  { onText = () => {}, onSketch = () => {}, onNotice = () => {} }: AnswerListeners = {},
  clock: Clock = systemClock,
): Promise<StreamedAnswer> {
  let text = ''
  let finishReason: string | undefined
  let usage: Usage | undefined
  let report: BrimReport | undefined
  let lastId: string | undefined
  const onId = (id: string) => {
    lastId = id
  }

  async function read(response: IncomingMessage): Promise<StreamedAnswer> {
    for await (const event of eventsOf(response, api, signal, { onComment: onNotice, onId })) {
      if (event.error) throw fromErrorDetail(event.error)
      const { brim } = event
      if (brim && isSketch(brim)) onSketch(brim.sketch)
      else report = brim ?? report
      const [choice] = event.choices
      const piece = choice?.delta?.content ?? choice?.text ?? ''
      text += piece
      if (piece !== '') onText(piece)
      finishReason = choice?.finish_reason ?? finishReason
      usage = event.usage ?? usage
    }
    if (!report)
      throw new BrimError('LINK_LOST', 'the answer ended early', { hint: `the ${api.server}'s log has the reason; ask again` })
    return { text, finishReason, usage, report }
  }

  /** Opens the rest, and waits for a bridge that is being restarted. @param sinceMs when the connection was lost */
  async function reopen(after: string, sinceMs: number): Promise<IncomingMessage> {
    for (;;) {
      try {
        return await getRest(api, after, signal)
      } catch (error) {
        if (!isPassing(error) || clock.nowMs() - sinceMs > patienceMs) throw error
      }
      await clock.sleep(reconnectEveryMs, signal)
    }
  }

  let response = await post(api, body, signal)
  let lostMs: number | undefined
  for (;;) {
    const idBefore: string | undefined = lastId
    try {
      return await read(response)
    } catch (error) {
      signal.throwIfAborted()
      if (lastId === undefined || !isPassing(error)) throw error
      // Connections that carry nothing do not extend the patience.
      if (lostMs === undefined || lastId !== idBefore) lostMs = clock.nowMs()
      else if (clock.nowMs() - lostMs > patienceMs) throw error
      else await clock.sleep(reconnectEveryMs, signal)
      onNotice('the connection to the bridge was lost; the answer goes on when the bridge is back')
      response = await reopen(lastId, lostMs)
    }
  }
}

const isSketch = (brim: BrimReport | SketchProgress): brim is SketchProgress => Array.isArray(brim.sketch)

/** CANCELED: the bridge is shutting down. */
const isPassing = (error: unknown): boolean =>
  error instanceof BrimError && ['LINK_LOST', 'BRIDGE_UNREACHABLE', 'CANCELED'].includes(error.code)

const post = (api: BrimServer, body: AnswerBody, signal: AbortSignal): Promise<IncomingMessage> =>
  askServer(api, `/v1/${'messages' in body ? 'chat/completions' : 'completions'}`, {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } }),
    type: 'text/event-stream',
    signal,
  })

/** @param after id of an event: that of the answer, a slash and a number */
const getRest = (api: BrimServer, after: string, signal: AbortSignal): Promise<IncomingMessage> =>
  askServer(api, `/v1/answers/${encodeURIComponent(after.slice(0, after.lastIndexOf('/')))}/events`, {
    headers: { 'last-event-id': after },
    type: 'text/event-stream',
    signal,
  })

/**
 * Asks for something that an API has beside answers.
 * @throws BrimError as `askServer`
 */
export const getJson = async (api: BrimServer, path: string, signal: AbortSignal): Promise<unknown> =>
  json(await askServer(api, path, { type: 'application/json', signal }))

async function* eventsOf(
  response: IncomingMessage,
  { server }: BrimServer,
  signal: AbortSignal,
  listeners: SseOptions,
): AsyncGenerator<z.infer<typeof StreamEvent>> {
  try {
    for await (const data of readSse(response, listeners)) {
      if (data === '[DONE]') return
      yield StreamEvent.parse(JSON.parse(data))
    }
  } catch (cause) {
    signal.throwIfAborted()
    if (cause instanceof BrimError) throw cause
    throw new BrimError('LINK_LOST', `the connection to the ${server} broke during the answer`, { cause })
  }
}
