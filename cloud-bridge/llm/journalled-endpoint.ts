import type { AnswerRequest, TokenDelta, TokenEndpoint } from '../../core/answer/endpoint.ts'
import type { JournalDelta } from './answer-journal.ts'

/** Where the tokens of one answer are written before they are sent. */
export interface AnswerLog {
  /** Those that were written when the answer was interrupted; empty for a new answer. */
  readonly written: readonly JournalDelta[]
  /** The first token of a new answer is certain. */
  begin(promptIds: readonly number[]): void
  /** @param at index of its first token in the answer */
  append(at: number, delta: JournalDelta): void
}

/** Answers that begin with the tokens of the log, as if they were being made again, and go on with new ones. */
export function journalled(endpoint: TokenEndpoint, log: AnswerLog): TokenEndpoint {
  const { model } = endpoint
  return {
    model,
    async *answer(request, signal) {
      const ids: number[] = []
      for (const { tokens, logprobs, end } of log.written)
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
        if (ids.length === 0) log.begin(await request.prompt.idsFor(model, signal))
        log.append(ids.length, journalDeltaOf(delta))
        ids.push(...delta.tokens)
        yield delta
      }
    },
  }
}

function restOf(request: AnswerRequest, { model }: TokenEndpoint, ids: readonly number[]): AnswerRequest {
  if (ids.length === 0) return request
  const { maxTokens } = request
  return { ...request, answered: { model, ids }, ...(maxTokens === undefined ? {} : { maxTokens: maxTokens - ids.length }) }
}

const journalDeltaOf = ({ tokens, logprobs, end }: TokenDelta): JournalDelta => ({ tokens, logprobs, end })
