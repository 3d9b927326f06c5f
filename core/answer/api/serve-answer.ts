import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { FastifyReply } from 'fastify'
import { BrimError } from '../../kit/base/errors.ts'
import type { Logger } from '../../kit/base/logger.ts'
import { passingTracer, type SpanAttributes, type Tracer } from '../../kit/trace/tracer.ts'
import {
  type FinishReason,
  namedById,
  type ResponseFormat,
  type ResponseHead,
  type ResponsePiece,
  type ResponseSummary,
  tokenText,
} from '../../wire/openai/response-formats.ts'
import type { Usage } from '../../wire/openai/responses.ts'
import { type SseWriter, startSse } from '../../wire/openai/sse-writer.ts'
import type { AnswerRequest } from '../endpoint/endpoint.ts'
import {
  type AnswerSummary,
  type CollectedAnswer,
  collectAnswer,
  type StreamOptions,
  streamAnswer,
  type TextPiece,
} from '../endpoint/stream-answer.ts'
import type { ApiRequest } from './request.ts'

export interface ServeOptions extends Omit<StreamOptions, 'endpoint'> {
  /** Whether the answers to one request are made at once: where one does not slow the other down. */
  readonly parallel: boolean
  readonly logger: Logger
  /** Absent: `traceparent` of requests is handed on as it is. */
  readonly tracer?: Tracer | undefined
  /** Aborted when the server stops. */
  readonly stopping: AbortSignal
}

/** A stream of one answer that its client can continue on another connection. Its events carry ids. */
export interface ResumableStream {
  readonly head: ResponseHead
  /** Tokens of the answer whose text the client has already; undefined: the client has received nothing. */
  readonly after: number | undefined
}

export const newHead = (format: ResponseFormat, { model }: ApiRequest): ResponseHead => ({
  id: `${format.idPrefix}${randomUUID()}`,
  created: Math.floor(Date.now() / 1000),
  model,
})

/**
 * The answers to one request over HTTP, whole or as a stream. Failures before the first token are HTTP errors; later ones are an
 * event of the stream. The work stops when the client disconnects.
 * @param requestId as in the header x-request-id
 */
export async function serveAnswers(
  options: ServeOptions,
  format: ResponseFormat,
  request: ApiRequest,
  reply: FastifyReply,
  requestId: string,
  resumable?: ResumableStream,
): Promise<void> {
  const { clock, meter, stopping, parallel, tracer = passingTracer } = options
  const head = resumable?.head ?? newHead(format, request)
  const operation = format.idPrefix === 'cmpl-' ? 'text_completion' : 'chat'
  const span = tracer.begin(`${operation} ${request.model}`, reply.request.headers.traceparent, {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': 'brim',
    'gen_ai.request.model': request.model,
    'gen_ai.response.id': head.id,
    'brim.request_id': requestId,
  })
  const { traceparent, traceId } = span
  const log = options.logger.child({ request: requestId, answer: head.id, ...(traceId && { trace: traceId }) })
  const made: { readonly asked: AnswerRequest; readonly answer: CollectedAnswer }[] = []
  const disconnected = new AbortController()
  const failed = new AbortController()
  const onClose = () => {
    if (!reply.raw.writableFinished) disconnected.abort(new BrimError('CANCELED', 'the client disconnected'))
  }
  reply.raw.once('close', onClose)
  // Where streams find it too: they bypass Fastify.
  if (request.ignored.length > 0) reply.raw.setHeader('x-brim-ignored', headerOf(request.ignored))
  const signal = AbortSignal.any([disconnected.signal, stopping, failed.signal])
  // Each answer listens; beyond ten Node warns of a leak.
  setMaxListeners(0, signal)
  const work: Work = {
    async answer(asked, onText) {
      const traced = traceparent === undefined ? asked : { ...asked, traceparent }
      const answer = await collectAnswer(streamAnswer({ endpoint: request.endpoint, clock, meter }, traced, signal), onText)
      made.push({ asked, answer })
      logAnswer(log, answer, usageOf([asked], [answer]))
      return answer
    },
    async answerAll(make) {
      const answers: CollectedAnswer[] = []
      if (parallel && request.answers.length > 1) return settleAll(request.answers.map(make), failed)
      for (const [index, asked] of request.answers.entries()) answers.push(await make(asked, index))
      return answers
    },
    format,
    head,
    request,
    reply,
    resumable,
    signal,
  }
  let failure: unknown
  try {
    await (request.stream ? sendStream(work) : sendWhole(work))
  } catch (err) {
    failure = err
    if (disconnected.signal.aborted) log.info('the client disconnected before the end of its answer')
    else if (reply.sent) log.warn({ err }, 'answer failed after its first token')
    else throw err
  } finally {
    reply.raw.off('close', onClose)
    span.end(spanOf(made), failure)
  }
}

/** What the answers of one request were; of several, the figures of the first. */
function spanOf(made: readonly { readonly asked: AnswerRequest; readonly answer: CollectedAnswer }[]): SpanAttributes {
  const [first] = made
  if (!first) return {}
  const { ttftMs, tpotMs, mode, sources, acceptLength, rounds, bytesUp, bytesDown, failovers } = first.answer.report
  const answers = made.map(({ answer }) => answer)
  const usage = usageOf(
    made.map(({ asked }) => asked),
    answers,
  )
  return {
    'gen_ai.response.model': sources[0]?.model,
    'gen_ai.response.finish_reasons': answers.map(finishOf),
    'gen_ai.usage.input_tokens': usage.prompt_tokens,
    'gen_ai.usage.output_tokens': usage.completion_tokens,
    'brim.mode': mode,
    'brim.ttft_ms': ttftMs,
    'brim.tpot_ms': tpotMs ?? undefined,
    ...(rounds > 0 && {
      'brim.accept_length': acceptLength ?? undefined,
      'brim.verifications': rounds,
      'brim.bytes_up': bytesUp,
      'brim.bytes_down': bytesDown,
      'brim.failovers': failovers,
    }),
  }
}

/** Waits for all answers; one that fails ends the others. @throws the first failure */
async function settleAll(
  answers: readonly Promise<CollectedAnswer>[],
  failed: AbortController,
): Promise<readonly CollectedAnswer[]> {
  let failure: unknown
  const settled = answers.map((answer) =>
    answer.catch((error: unknown) => {
      if (failed.signal.aborted) return undefined
      failure = error
      failed.abort(new BrimError('CANCELED', 'another answer to the same request failed'))
      return undefined
    }),
  )
  const made = (await Promise.all(settled)).filter((answer) => answer !== undefined)
  if (failed.signal.aborted) throw failure
  return made
}

type MakeAnswer = (asked: AnswerRequest, index: number) => Promise<CollectedAnswer>

interface Work {
  /** @param onText receives each piece of text before the next is read */
  answer(asked: AnswerRequest, onText?: (piece: TextPiece) => Promise<void>): Promise<CollectedAnswer>
  /** Every answer that the request asks for, in their order. */
  answerAll(make: MakeAnswer): Promise<readonly CollectedAnswer[]>
  readonly format: ResponseFormat
  readonly head: ResponseHead
  readonly request: ApiRequest
  readonly reply: FastifyReply
  readonly resumable: ResumableStream | undefined
  /** Aborted when the client disconnects, the server stops, or another answer fails. */
  readonly signal: AbortSignal
}

async function sendWhole({ answer, answerAll, format, head, request, reply }: Work): Promise<void> {
  const response = format.open(head, false)
  const made = await answerAll((asked, index) =>
    answer(asked, async (piece) => {
      response.text(index, pieceOf(request, asked, piece, 0))
    }),
  )
  const choiceOf = ({ tokenIds, logprobs, ...answer }: CollectedAnswer) => ({
    ...answer,
    finishReason: finishOf(answer),
    logprobs: request.tokensAsIds ? namedById(logprobs) : logprobs,
    ...(request.returnTokenIds && { tokenIds }),
  })
  const choices = made.map((each) => ({ ...choiceOf(each), ...(made.length > 1 && { brim: reportOf(request, each) }) }))
  await reply.send(response.whole(choices, summaryOf(request, made)))
}

async function sendStream({ answer, answerAll, format, head, request, reply, resumable, signal }: Work): Promise<void> {
  let sse: SseWriter | undefined
  const response = format.open(head, request.includeUsage)
  /** The response begins with the first token: failures before it are HTTP errors. */
  const begin = (): SseWriter => {
    reply.hijack()
    return startSse(reply.raw, signal)
  }
  const sendAll = async (events: readonly object[], id?: string): Promise<void> => {
    for (const event of events) await sse?.send(event, id, format.isTyped ? (event as { type: string }).type : undefined)
  }
  const after = resumable?.after ?? -1
  const eventId = (tokens: number) => resumable && `${head.id}/${tokens}`
  const send = async (index: number, asked: AnswerRequest): Promise<CollectedAnswer> => {
    let hasBegun = resumable?.after !== undefined
    let offset = 0
    const onWaiting = () => sse?.comment(waitingForBridge)
    const made = await answer({ ...asked, onWaiting }, async (read) => {
      sse ??= begin()
      if (!hasBegun) await sendAll(response.first(index), eventId(0))
      hasBegun = true
      const piece = pieceOf(request, asked, read, offset)
      const { text, reasoning, calls, logprobs, tokenIds, sketch } = piece
      const isEmpty = !text && !reasoning && !calls?.length
      const isNew = read.tokens > after || (read.tokens === after && isEmpty && read.sketch !== undefined)
      if (isNew && (!isEmpty || logprobs?.length || tokenIds?.length || sketch))
        await sendAll(response.text(index, piece), eventId(read.tokens))
      offset += charactersOf(logprobs)
    })
    await sendAll(response.end(index, finishOf(made), reportOf(request, made)))
    return made
  }
  try {
    const made = await answerAll((asked, index) => send(index, asked))
    await sendAll(response.last(summaryOf(request, made)))
    sse?.end(!format.isTyped)
  } catch (error) {
    await sendAll([response.failed(error)])
    sse?.end(false)
    throw error
  }
}

function pieceOf(
  request: ApiRequest,
  asked: AnswerRequest,
  { tokenIds, sketch, ...piece }: TextPiece,
  offset: number,
): ResponsePiece {
  return {
    ...piece,
    logprobs: request.tokensAsIds ? namedById(piece.logprobs) : piece.logprobs,
    tokenIds: request.returnTokenIds ? tokenIds : undefined,
    offset,
    // Clients that name no mode get the events that they know.
    sketch: asked.mode ? sketch : undefined,
  }
}

const maxNameLength = 64

/** Names as a header: what a header cannot hold becomes "?". */
const headerOf = (names: readonly string[]): string =>
  names.map((name) => name.slice(0, maxNameLength).replace(/[^\w.-]/g, '?')).join(', ')

const waitingForBridge = 'the connection to the bridge was lost; the answer waits for a bridge'

const charactersOf = (logprobs: TextPiece['logprobs'] = []) => logprobs.reduce((sum, token) => sum + tokenText(token).length, 0)

function summaryOf(request: ApiRequest, made: readonly CollectedAnswer[]): ResponseSummary {
  const [only, ...others] = made
  return {
    usage: usageOf(request.answers, made),
    brim: only && others.length === 0 ? reportOf(request, only) : undefined,
    cachedTokens: only?.report.reusedTokens ?? 0,
  }
}

const reportOf = ({ tokenIds }: ApiRequest, answer: AnswerSummary): object =>
  tokenIds ? { ...answer.report, tokenIds: answer.tokenIds } : answer.report

const finishOf = ({ finishReason, calls }: Pick<AnswerSummary, 'finishReason' | 'calls'>): FinishReason =>
  finishReason === 'stop' && calls > 0 ? 'tool_calls' : finishReason

/** A prompt with several answers counts once. */
function usageOf(asked: readonly AnswerRequest[], made: readonly AnswerSummary[]): Usage {
  const promptTokens = new Map(made.map((answer, index) => [asked[index]!.prompt, answer.promptTokens]))
  const prompt = [...promptTokens.values()].reduce((sum, tokens) => sum + tokens, 0)
  const completion = made.reduce((sum, { tokens }) => sum + tokens, 0)
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

function logAnswer(log: Logger, answer: AnswerSummary, usage: Usage): void {
  const { ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, sources, fallback, pice } = answer.report
  const { finishReason } = answer
  const figures = { finishReason, ...usage, ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, ...(pice && { pice }) }
  if (fallback) log.warn({ ...figures, sources, fallback }, 'the small model continued the answer')
  else log.info(figures, 'answered')
}
