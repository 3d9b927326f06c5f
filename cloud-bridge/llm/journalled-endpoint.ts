import type { AnswerRequest, Endpoint, TokenDelta, TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { inTokensOf, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import type { TokenLogprobs } from '../../core/model/engine/logprobs.ts'
import type { AnswerEnd } from '../../core/model/text/answer-stream.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'

/** From which a prompt is made again: token ids of the bridge's own model, or a conversation. */
export type JournalledPrompt =
  | {
      readonly ids: readonly number[]
      /** The beginning of the answer that the request has; absent: none. */
      readonly answered?: readonly number[]
    }
  | { readonly messages: readonly ChatMessage[] }

/** Where one answer is written before it is sent. */
export interface AnswerLog {
  /** The answer's name. */
  readonly id: string
  /** What was written when the answer was interrupted; empty for a new answer. */
  readonly written: readonly object[]
  /** The first record of a new answer follows. */
  begin(prompt: JournalledPrompt): void
  append(record: object): void
}

/** Makes answers that can go on after an interruption. */
export interface ResumableEndpoint extends Endpoint {
  /** The same endpoint for one answer, which begins as the log says and is written to it. */
  logged(log: AnswerLog): Endpoint
}

/** Tokens of an answer that became certain at once. */
interface TokenRecord {
  readonly tokens: readonly number[]
  readonly logprobs?: readonly TokenLogprobs[] | undefined
  readonly end?: AnswerEnd | undefined
}

/** Answers in tokens of the bridge's own model. */
export const resumable = (endpoint: TokenEndpoint): TokenEndpoint & ResumableEndpoint => ({
  ...endpoint,
  logged: (log) => journalled(endpoint, log),
})

/** Answers that begin with the tokens of the log, as if they were being made again, and go on with new ones. */
export function journalled(endpoint: TokenEndpoint, log: AnswerLog): TokenEndpoint {
  const { model } = endpoint
  return {
    model,
    async *answer(request, signal) {
      const ids: number[] = []
      for (const { tokens, logprobs, end } of log.written as readonly TokenRecord[])
        for (const [at, token] of tokens.entries()) {
          ids.push(token)
          const isLast = at === tokens.length - 1
          yield {
            source: { kind: 'bridge', model },
            tokens: [token],
            end: isLast ? end : undefined,
            ...(logprobs && { logprobs: logprobs.slice(at, at + 1) }),
          }
          if (isLast && end) return
        }
      for await (const delta of endpoint.answer(restOf(request, endpoint, ids), signal)) {
        if (ids.length === 0)
          log.begin({ ids: await request.prompt.idsFor(model, request.client, signal), answered: begunBy(request, model) })
        log.append(recordOf(delta))
        ids.push(...delta.tokens)
        yield delta
      }
    },
  }
}

function restOf(request: AnswerRequest, { model }: TokenEndpoint, ids: readonly number[]): AnswerRequest {
  if (ids.length === 0) return request
  const { maxTokens } = request
  const answered = { model, ids: [...begunBy(request, model), ...ids] }
  return { ...request, answered, ...(maxTokens === undefined ? {} : { maxTokens: maxTokens - ids.length }) }
}

/** The beginning of the answer that the request has. */
const begunBy = ({ answered }: AnswerRequest, model: TextModel): readonly number[] =>
  answered ? inTokensOf(model, answered) : []

const recordOf = ({ tokens, logprobs, end }: TokenDelta): TokenRecord => ({ tokens, logprobs, end })
