import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import type { AnswerStream } from '../../core/text/answer-stream.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { HatRequest, HatRound } from '../hat/session.ts'
import type { HatSummary } from '../hat/summary.ts'
import { answerLocally } from '../slm/local-answer.ts'
import type { LocalModel } from '../slm/local-model.ts'
import { handOver, isBridgeGone, type LocalPrompt } from './hand-over.ts'

/** Tokens that became certain at once. */
interface Round {
  /** The name of the model that chose them. */
  readonly model: string
  readonly tokens: readonly number[]
}

/** 'hat': of the split model, with a bridge; 'slm': of the device's own small model, because of `cause`. */
export type AnswerRound =
  | (Round & { readonly source: 'hat'; summary(): HatSummary })
  | (Round & { readonly source: 'slm'; readonly cause: BrimError })

export interface RoundsOptions {
  /** Of the split model, as is the tokenizer. */
  readonly manifest: Manifest
  readonly tokenizer: TextTokenizer
  readonly clock: Clock
  /** Goes on where no bridge does. */
  readonly local?: LocalModel | undefined
  run(request: HatRequest, signal: AbortSignal): AsyncGenerator<HatRound, void>
}

/**
 * The rounds of one answer: HAT's, and where no bridge can be had for it the local model's from there on, each from its
 * own end of text and context. One session's memory is free before the other's is taken.
 * @param answer takes the tokens of every round before the next is asked for; is told of the change
 * @param fallback the prompt for the local model; absent: the answer ends with its bridges
 * @throws BrimError what the session throws; OUT_OF_MEMORY, RUNTIME_FAILED, CANCELED
 */
export async function* answerRounds(
  { manifest, tokenizer, clock, local, run }: RoundsOptions,
  request: HatRequest,
  answer: AnswerStream,
  fallback: LocalPrompt | undefined,
  signal: AbortSignal,
): AsyncGenerator<AnswerRound, void> {
  let cause: BrimError
  try {
    const model = manifest.card.name
    for await (const { tokens, summary } of run(request, signal)) yield { source: 'hat', model, tokens, summary }
    return
  } catch (error) {
    if (signal.aborted || !local || !fallback || !isBridgeGone(error)) throw error
    cause = error
  }
  const { name: model, chain, sameVocabulary } = local
  const { tokenIds } = answer
  const over = handOver(local, { prompt: fallback, tokenIds, tokenizer, maxTokens: request.maxTokens, cause })
  const limits = { maxTokens: tokenIds.length + over.maxTokens, eos: chain.manifest.tokens.eos }
  answer.handOver(limits, sameVocabulary ? undefined : { tokenizer: local.tokenizer, tokenIds: over.answerIds })
  const { promptIds, maxTokens } = over
  const { sampling } = request
  for await (const event of answerLocally(local, undefined, { promptIds, maxTokens, sampling, signal, clock })) {
    if (event.kind === 'token') yield { source: 'slm', model, tokens: [event.token], cause }
    else if (event.summary.finishReason === 'canceled') throw new BrimError('CANCELED', 'the answer was stopped')
  }
}
