import { randomUUID } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import { toErrorBody } from '../../core/openai/api-error.ts'
import type { ResponseFormat, ResponseHead, Usage } from '../../core/openai/responses.ts'
import { type SseWriter, startSse } from '../../core/openai/sse-writer.ts'
import { type AnswerEvent, type AnswerSummary, collectAnswer, type StreamOptions, streamAnswer } from '../answer/stream-answer.ts'
import type { ApiRequest } from './request.ts'

export interface ServeOptions extends Omit<StreamOptions, 'endpoint'> {
  /** The model's name in responses. */
  readonly model: string
  readonly logger: Logger
  /** Aborted when the agent stops. */
  readonly stopping: AbortSignal
}

/**
 * One answer over HTTP, whole or as a stream. Failures before the first token are HTTP errors; later ones are an event
 * of the stream. The answer stops when its client disconnects.
 */
export async function serveAnswer(
  options: ServeOptions,
  format: ResponseFormat,
  request: ApiRequest,
  reply: FastifyReply,
): Promise<void> {
  const { clock, meter, model, stopping } = options
  const id = `${format.idPrefix}-${randomUUID()}`
  const head: ResponseHead = { id, created: Math.floor(Date.now() / 1000), model }
  const log = options.logger.child({ request: id })
  const disconnected = new AbortController()
  const onClose = () => {
    if (!reply.raw.writableFinished) disconnected.abort(new BrimError('CANCELED', 'the client disconnected'))
  }
  reply.raw.once('close', onClose)
  const signal = AbortSignal.any([disconnected.signal, stopping])
  const notices: Notices = { waiting() {} }
  const answer = { ...request.answer, onWaiting: () => notices.waiting() }
  const events = streamAnswer({ endpoint: request.endpoint, clock, meter }, answer, signal)
  const send = request.stream ? sendStream : sendWhole
  try {
    logAnswer(log, await send(events, format, head, request, reply, signal, notices))
  } catch (err) {
    if (disconnected.signal.aborted) log.info('the client disconnected before the end of its answer')
    else if (reply.sent) log.warn({ err }, 'answer failed after its first token')
    else throw err
  } finally {
    reply.raw.off('close', onClose)
    await events.return()
  }
}

type Events = AsyncGenerator<AnswerEvent, void>

/** What a client is told beside its answer. */
interface Notices {
  waiting: () => void
}

async function sendWhole(
  events: Events,
  format: ResponseFormat,
  head: ResponseHead,
  request: ApiRequest,
  reply: FastifyReply,
): Promise<AnswerSummary> {
  const answer = await collectAnswer(events)
  const whole = format.whole(head, answer.text, answer.finishReason)
  await reply.send({ ...whole, usage: usageOf(answer), brim: reportOf(request, answer) })
  return answer
}

async function sendStream(
  events: Events,
  format: ResponseFormat,
  head: ResponseHead,
  request: ApiRequest,
  reply: FastifyReply,
  signal: AbortSignal,
  notices: Notices,
): Promise<AnswerSummary> {
  let sse: SseWriter | undefined
  // OpenAI: with include_usage every event but the last has a null usage.
  const noUsage = request.includeUsage ? { usage: null } : {}
  /** The response begins with the first token: failures before it are HTTP errors. */
  const begin = async (): Promise<SseWriter> => {
    reply.hijack()
    const writer = startSse(reply.raw, signal)
    notices.waiting = () => writer.comment(waitingForBridge)
    const first = format.first(head)
    if (first) await writer.send({ ...first, ...noUsage })
    return writer
  }
  try {
    const answer = await collectAnswer(events, async (text) => {
      sse ??= await begin()
      if (text !== '') await sse.send({ ...format.text(head, text), ...noUsage })
    })
    const brim = reportOf(request, answer)
    await sse?.send({ ...format.end(head, answer.finishReason), ...noUsage, brim })
    if (request.includeUsage) await sse?.send({ ...format.usage(head), usage: usageOf(answer), brim })
    sse?.end(true)
    return answer
  } catch (error) {
    await sse?.send(toErrorBody(error))
    sse?.end(false)
    throw error
  }
}

const waitingForBridge = 'the connection to the bridge was lost; the answer waits for a bridge'

const reportOf = ({ tokenIds }: ApiRequest, answer: AnswerSummary): object =>
  tokenIds ? { ...answer.report, tokenIds: answer.tokenIds } : answer.report

function usageOf({ promptTokens, tokenIds }: AnswerSummary): Usage {
  const { length } = tokenIds
  return { prompt_tokens: promptTokens, completion_tokens: length, total_tokens: promptTokens + length }
}

function logAnswer(log: Logger, answer: AnswerSummary): void {
  const { ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, sources, fallback } = answer.report
  const { finishReason } = answer
  const figures = { finishReason, ...usageOf(answer), ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown }
  if (fallback) log.warn({ ...figures, sources, fallback }, 'no bridge could be reached: the small model continued the answer')
  else log.info(figures, 'answered')
}
