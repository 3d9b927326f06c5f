import { randomUUID } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { toApiError } from '../../core/openai/api-error.ts'
import type { Identity, Shape } from '../../core/openai/responses.ts'
import { startEventStream } from '../../core/openai/sse-writer.ts'
import type { RoundsOptions } from '../answer/fallback.ts'
import type { AnswerMeter, AnswerSpeed } from '../answer/meter.ts'
import { speedOf } from '../answer/report.ts'
import { type AnswerEvent, streamAnswer } from '../answer/stream-answer.ts'
import type { AnswerRequest } from './request.ts'

export interface ServeOptions extends RoundsOptions {
  readonly model: string
  /** Is told of every answer's beginning and end. */
  readonly answers: AnswerMeter
  readonly logger: Logger
  /** Aborted when the agent stops. */
  readonly stopping: AbortSignal
}

type End = Extract<AnswerEvent, { kind: 'end' }>

/**
 * One answer over HTTP, whole or as a stream. Until the first token is certain, failures are HTTP errors; later ones
 * are an event of the stream. Whoever leaves stops the session.
 */
export async function serveAnswer(
  options: ServeOptions,
  shape: Shape,
  request: AnswerRequest,
  reply: FastifyReply,
  acceptedMs: number,
): Promise<void> {
  const id = `${shape.idPrefix}-${randomUUID()}`
  const of: Identity = { id, created: Math.floor(Date.now() / 1000), model: options.model }
  const log = options.logger.child({ request: id })
  const left = new AbortController()
  const onClose = () => {
    if (!reply.raw.writableFinished) left.abort(new BrimError('CANCELED', 'the client left'))
  }
  reply.raw.once('close', onClose)
  const signal = AbortSignal.any([left.signal, options.stopping])
  const events = streamAnswer(options, request, acceptedMs, signal)
  const ended = options.answers.begin()
  let speed: AnswerSpeed | undefined
  try {
    const end = request.stream
      ? await sendStream(events, shape, of, request, reply, signal)
      : await sendWhole(events, shape, of, reply)
    const { ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, sources, fallback } = end.report
    speed = speedOf(end.report, end.usage.completion_tokens)
    const figures = { finishReason: end.finishReason, ...end.usage, ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown }
    if (fallback) log.warn({ ...figures, sources, fallback }, 'no bridge could be had: the small model of this device went on')
    else log.info(figures, 'answered')
  } catch (err) {
    if (left.signal.aborted) log.info('the client left before the end of its answer')
    else if (reply.sent) log.warn({ err }, 'answer broken off')
    else throw err
  } finally {
    reply.raw.off('close', onClose)
    await events.return(undefined)
    ended(speed)
  }
}

async function sendWhole(events: AsyncGenerator<AnswerEvent>, shape: Shape, of: Identity, reply: FastifyReply): Promise<End> {
  let text = ''
  for await (const event of events) {
    if (event.kind === 'text') {
      text += event.text
    } else {
      await reply.send({ ...shape.whole(of, text, event.finishReason), usage: event.usage, brim: event.report })
      return event
    }
  }
  throw new Error('an answer without an end')
}

async function sendStream(
  events: AsyncGenerator<AnswerEvent>,
  shape: Shape,
  of: Identity,
  request: AnswerRequest,
  reply: FastifyReply,
  signal: AbortSignal,
): Promise<End> {
  // What fails before this is an HTTP error.
  let next = await events.next()
  reply.hijack()
  const stream = startEventStream(reply.raw, signal)
  const usage = request.includeUsage ? { usage: null } : {}
  try {
    const first = shape.first(of)
    if (first) await stream.send({ ...first, ...usage })
    for (; !next.done; next = await events.next()) {
      const event = next.value
      if (event.kind === 'end') {
        await stream.send({ ...shape.last(of, event.finishReason), ...usage, brim: event.report })
        if (request.includeUsage) await stream.send({ ...shape.figures(of), usage: event.usage, brim: event.report })
        stream.end(true)
        return event
      }
      if (event.text !== '') await stream.send({ ...shape.piece(of, event.text), ...usage })
    }
    throw new Error('an answer without an end')
  } catch (error) {
    await stream.send(toApiError(error))
    stream.end(false)
    throw error
  }
}
