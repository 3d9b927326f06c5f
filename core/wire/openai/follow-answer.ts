import type { z } from 'zod'
import type { BrimReport, SketchProgress, StreamEvent, Usage } from './responses.ts'
import { readSse } from './sse-reader.ts'

export interface StreamedAnswer {
  readonly text: string
  readonly finishReason: string | undefined
  readonly usage: Usage | undefined
  readonly report: BrimReport
}

export interface AnswerListeners {
  /** Receives each piece of text as it arrives. @param tokens of the answer up to it; undefined where the server does not tell */
  onText?(piece: string, tokens: number | undefined): void
  /** Receives the lines of the answer's sketch that the text does not cover yet, before the text that changes them. */
  onSketch?(lines: readonly string[]): void
  /** Receives what is reported beside the answer: that it waits for a bridge, that the connection was lost. */
  onNotice?(text: string): void
}

/** How a program or a page asks for one streamed answer. */
export interface AnswerTransport {
  /** Sends the question. @returns the events of the response */
  ask(): Promise<AsyncIterable<Uint8Array>>
  /** Asks for the rest of the answer, after the event with this id. */
  rest(after: string): Promise<AsyncIterable<Uint8Array>>
  /** @throws for what is no event of an answer */
  parse(data: string): z.infer<typeof StreamEvent>
  /** The error that a stream reports, or that it ended early. */
  failureOf(reported: NonNullable<z.infer<typeof StreamEvent>['error']> | 'ended early'): Error
  /** What an error of the stream's body means. */
  brokenBy(cause: unknown): unknown
  /** Whether the error may be gone soon: the bridge restarts. */
  isPassing(error: unknown): boolean
  nowMs(): number
  sleep(ms: number): Promise<void>
}

/** A bridge is given as long to come back as it keeps an interrupted answer by default. */
const patienceMs = 60_000
const reconnectEveryMs = 500

/**
 * Reads one streamed answer. Where a bridge's connection is lost, the rest is read from another one.
 * @throws what the transport throws
 */
export async function followAnswer(
  transport: AnswerTransport,
  signal: AbortSignal,
  { onText = () => {}, onSketch = () => {}, onNotice = () => {} }: AnswerListeners = {},
): Promise<StreamedAnswer> {
  let text = ''
  let finishReason: string | undefined
  let usage: Usage | undefined
  let report: BrimReport | undefined
  let lastId: string | undefined
  /** Tokens so far, where each event names its own. */
  let counted: number | undefined
  const onId = (id: string) => {
    lastId = id
  }

  async function* eventsOf(body: AsyncIterable<Uint8Array>) {
    try {
      for await (const data of readSse(body, { onComment: onNotice, onId })) {
        if (data === '[DONE]') return
        yield transport.parse(data)
      }
    } catch (cause) {
      signal.throwIfAborted()
      throw transport.brokenBy(cause)
    }
  }

  async function read(body: AsyncIterable<Uint8Array>): Promise<StreamedAnswer> {
    for await (const event of eventsOf(body)) {
      if (event.error) throw transport.failureOf(event.error)
      const { brim } = event
      if (brim && isSketch(brim)) onSketch(brim.sketch)
      else report = brim ?? report
      const [choice] = event.choices
      const piece = choice?.delta?.content ?? choice?.text ?? ''
      text += piece
      if (choice?.token_ids) counted = (counted ?? 0) + choice.token_ids.length
      if (piece !== '') onText(piece, tokensOf(lastId) ?? counted)
      finishReason = choice?.finish_reason ?? finishReason
      usage = event.usage ?? usage
    }
    if (!report) throw transport.failureOf('ended early')
    return { text, finishReason, usage, report }
  }

  /** Opens the rest, and waits for a bridge that is being restarted. @param sinceMs when the connection was lost */
  async function reopen(after: string, sinceMs: number): Promise<AsyncIterable<Uint8Array>> {
    for (;;) {
      try {
        return await transport.rest(after)
      } catch (error) {
        if (!transport.isPassing(error) || transport.nowMs() - sinceMs > patienceMs) throw error
      }
      await transport.sleep(reconnectEveryMs)
    }
  }

  let body = await transport.ask()
  let lostMs: number | undefined
  for (;;) {
    const idBefore: string | undefined = lastId
    try {
      return await read(body)
    } catch (error) {
      signal.throwIfAborted()
      if (lastId === undefined || !transport.isPassing(error)) throw error
      // Connections that carry nothing do not extend the patience.
      if (lostMs === undefined || lastId !== idBefore) lostMs = transport.nowMs()
      else if (transport.nowMs() - lostMs > patienceMs) throw error
      else await transport.sleep(reconnectEveryMs)
      onNotice('the connection to the bridge was lost; the answer goes on when the bridge is back')
      body = await reopen(lastId, lostMs)
    }
  }
}

/** Path of the rest of an answer. @param after id of an event: that of the answer, a slash and a number of tokens */
export const restPath = (after: string): string =>
  `/v1/answers/${encodeURIComponent(after.slice(0, after.lastIndexOf('/')))}/events`

const tokensOf = (id: string | undefined): number | undefined =>
  id === undefined ? undefined : Number(id.slice(id.lastIndexOf('/') + 1))

const isSketch = (brim: BrimReport | SketchProgress): brim is SketchProgress => Array.isArray(brim.sketch)
