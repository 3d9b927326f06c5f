import { randomUUID } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import type { AnswerRequest } from '../answer/endpoint.ts'
import { type AnswerSummary, collectAnswer, type StreamOptions, streamAnswer } from '../answer/stream-answer.ts'
import { BrimError } from '../base/errors.ts'
import type { Logger } from '../base/logger.ts'
import { toErrorBody } from '../openai/api-error.ts'
import type { ResponseFormat, ResponseHead, Usage } from '../openai/responses.ts'
import { type SseWriter, startSse } from '../openai/sse-writer.ts'
import type { ApiRequest } from './request.ts'

export interface ServeOptions extends Omit<StreamOptions, 'endpoint'> {
  /** The model's name in responses. */
  readonly model: string
  readonly logger: Logger
  /** Aborted when the agent stops. */
  readonly stopping: AbortSignal
}

/**
 * The answers to one request over HTTP, whole or as a stream, made one after the other. Failures before the first token are HTTP
 * errors; later ones are an event of the stream. The work stops when the client disconnects.
 * @param requestId as in the header x-request-id
 */
export async function serveAnswers(
  options: ServeOptions,
  format: ResponseFormat,
  request: ApiRequest,
  reply: FastifyReply,
  requestId: string,
): Promise<void> {
  const { clock, meter, model, stopping } = options
  const id = `${format.idPrefix}-${randomUUID()}`
  const head: ResponseHead = { id, created: Math.floor(Date.now() / 1000), model }
  const log = options.logger.child({ request: requestId, answer: id })
  const disconnected = new AbortController()
  const onClose = () => {
    if (!reply.raw.writableFinished) disconnected.abort(new BrimError('CANCELED', 'the client disconnected'))
  }
  reply.raw.once('close', onClose)
  const signal = AbortSignal.any([disconnected.signal, stopping])
  const work: Work = {
    async answer(asked, onText) {
      const answer = await collectAnswer(streamAnswer({ endpoint: request.endpoint, clock, meter }, asked, signal), onText)
      logAnswer(log, answer, usageOf([asked], [answer]))
      return answer
    },
    format,
    head,
    request,
    reply,
    signal,
  }
  try {
    await (request.stream ? sendStream(work) : sendWhole(work))
  } catch (err) {
    if (disconnected.signal.aborted) log.info('the client disconnected before the end of its answer')
    else if (reply.sent) log.warn({ err }, 'answer failed after its first token')
    else throw err
  } finally {
    reply.raw.off('close', onClose)
  }
}

interface Work {
  /** @param onText receives each piece of text before the next is read */
  answer(asked: AnswerRequest, onText?: (text: string) => Promise<void>): Promise<Answer>
  readonly format: ResponseFormat
  readonly head: ResponseHead
  readonly request: ApiRequest
  readonly reply: FastifyReply
  /** Aborted when the client disconnects or the agent stops. */
  readonly signal: AbortSignal
}

type Answer = AnswerSummary & { readonly text: string }

async function sendWhole({ answer, format, head, request, reply }: Work): Promise<void> {
  const made: Answer[] = []
  for (const asked of request.answers) made.push(await answer(asked))
  const usage = usageOf(request.answers, made)
  const [only, ...others] = made
  if (only && others.length === 0)
    return void (await reply.send({ ...format.whole(head, [only]), usage, brim: reportOf(request, only) }))
  const choices = made.map((each) => ({ ...each, brim: reportOf(request, each) }))
  await reply.send({ ...format.whole(head, choices), usage })
}

async function sendStream({ answer, format, head, request, reply, signal }: Work): Promise<void> {
  let sse: SseWriter | undefined
  // OpenAI: with include_usage every event but the last has a null usage.
  const noUsage = request.includeUsage ? { usage: null } : {}
  /** The response begins with the first token: failures before it are HTTP errors. */
  const begin = (): SseWriter => {
    reply.hijack()
    return startSse(reply.raw, signal)
  }
  const made: Answer[] = []
  try {
    for (const [index, asked] of request.answers.entries()) {
      let hasBegun = false
      const onWaiting = () => sse?.comment(waitingForBridge)
      const each = await answer({ ...asked, onWaiting }, async (text) => {
        sse ??= begin()
        const first = hasBegun ? undefined : format.first(head, index)
        hasBegun = true
        if (first) await sse.send({ ...first, ...noUsage })
        if (text !== '') await sse.send({ ...format.text(head, index, text), ...noUsage })
      })
      made.push(each)
      await sse?.send({ ...format.end(head, index, each.finishReason), ...noUsage, brim: reportOf(request, each) })
    }
    const [only, ...others] = made
    const brim = only && others.length === 0 ? { brim: reportOf(request, only) } : {}
    if (request.includeUsage) await sse?.send({ ...format.usage(head), usage: usageOf(request.answers, made), ...brim })
    sse?.end(true)
  } catch (error) {
    await sse?.send(toErrorBody(error))
    sse?.end(false)
    throw error
  }
}

const waitingForBridge = 'the connection to the bridge was lost; the answer waits for a bridge'

const reportOf = ({ tokenIds }: ApiRequest, answer: AnswerSummary): object =>
  tokenIds ? { ...answer.report, tokenIds: answer.tokenIds } : answer.report

/** A prompt with several answers counts once. */
function usageOf(asked: readonly AnswerRequest[], made: readonly AnswerSummary[]): Usage {
  const promptTokens = new Map(made.map((answer, index) => [asked[index]!.prompt, answer.promptTokens]))
  const prompt = [...promptTokens.values()].reduce((sum, tokens) => sum + tokens, 0)
  const completion = made.reduce((sum, { tokens }) => sum + tokens, 0)
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
}

function logAnswer(log: Logger, answer: AnswerSummary, usage: Usage): void {
  const { ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown, sources, fallback } = answer.report
  const { finishReason } = answer
  const figures = { finishReason, ...usage, ttftMs, tbtMs, acceptLength, rounds, bytesUp, bytesDown }
  if (fallback) log.warn({ ...figures, sources, fallback }, 'no bridge could be reached: the small model continued the answer')
  else log.info(figures, 'answered')
}
