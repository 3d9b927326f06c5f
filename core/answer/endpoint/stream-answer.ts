import type { Clock } from '../../kit/base/clock.ts'
import type { ScoredToken } from '../../model/engine/logprobs.ts'
import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import type { ChosenText, ScoredText } from '../../model/text/scored-text.ts'
import { type AnswerPiece, AnswerText } from './answer-text.ts'
import type { AnswerDelta, AnswerRequest, Endpoint } from './endpoint.ts'
import type { AnswerMeter, AnswerSpeed } from './meter.ts'
import { type Output, OutputReader } from './output-reader.ts'
import { type AnswerReport, answerSpeedOf, ReportBuilder } from './report.ts'
import { inTokensOf, type TextModel } from './text-model.ts'

/** `text` holds whole characters; it is empty where a delta completed none. `end` comes last, once. */
export type AnswerEvent = ({ readonly kind: 'text' } & TextPiece) | ({ readonly kind: 'end' } & AnswerSummary)

export interface TextPiece extends Output {
  /** Tokens of the answer so far. All text that they determine has been delivered with this piece. */
  readonly tokens: number
  /** The tokens that are new with this piece, in the vocabulary of their source; empty where another server made the text. */
  readonly tokenIds: readonly number[]
  /** Of the tokens with text, where the request asks for them. Text may come later than its tokens, never earlier. */
  readonly logprobs?: readonly ChosenText[]
  /** The lines of the answer's sketch that the text does not cover yet; absent: as before. */
  readonly sketch?: readonly string[]
}

export interface AnswerSummary {
  readonly finishReason: AnswerEnd
  /** Number of functions that it calls. */
  readonly calls: number
  /** With the beginning of the answer that the request has; 0 where another server made the answer and does not count them. */
  readonly promptTokens: number
  readonly tokens: number
  /** Each in the vocabulary of its source; empty where another server made the answer. */
  readonly tokenIds: readonly number[]
  readonly report: AnswerReport
}

/** A function that an answer calls. */
export interface Call {
  readonly name: string
  /** JSON. */
  readonly arguments: string
}

export interface CollectedAnswer extends AnswerSummary {
  readonly text: string
  readonly reasoning: string
  readonly called: readonly Call[]
  /** Absent where the request does not ask for them. */
  readonly logprobs?: readonly ChosenText[]
}

export interface StreamOptions {
  readonly endpoint: Endpoint
  readonly clock: Clock
  /** Counts the answer while it is being made. */
  readonly meter: AnswerMeter
}

/**
 * One answer as text: an event for each delta, the first when the first token is certain. The endpoint has freed its
 * memory before the last text is delivered, however slowly the client reads.
 * @throws BrimError as the endpoint does
 */
export async function* streamAnswer(
  { endpoint, clock, meter }: StreamOptions,
  request: AnswerRequest,
  signal: AbortSignal,
): AsyncGenerator<AnswerEvent, void> {
  const finished = meter.begin()
  let speed: AnswerSpeed | undefined
  try {
    const report = new ReportBuilder(clock.nowMs())
    const { model } = endpoint
    const answer = new AnswerText(request.answered ?? (model.tokenizer ? { model, ids: [] } : { text: '' }), request.stop)
    const tokenIds: number[] = []
    let tokens = 0
    let promptTokens: number | undefined
    /** That has read the prompt. */
    let reader: TextModel | undefined
    let finishReason: AnswerEnd | undefined
    const output = new OutputReader(request)
    let last: TextPiece = { text: '', tokens, tokenIds: [] }
    for await (const delta of endpoint.answer(request, signal)) {
      const piece = answer.push(delta)
      report.add(delta, piece, clock.nowMs())
      tokens += piece.tokens
      if ('text' in delta) promptTokens = delta.promptTokens ?? promptTokens
      else reader ??= delta.source.model
      const newIds = 'text' in delta ? [] : delta.tokens.slice(0, piece.tokens)
      tokenIds.push(...newIds)
      last = {
        ...output.push(delta, piece.text, piece.end !== undefined),
        tokens,
        tokenIds: newIds,
        ...logprobsOf(delta, piece),
        ...sketchOf(delta),
      }
      finishReason = piece.end
      if (finishReason) break
      yield { kind: 'text', ...last }
    }
    if (!finishReason) throw new Error('the endpoint stopped before the end of its answer')
    if (reader) {
      const begun = request.answered ? inTokensOf(reader, request.answered) : []
      promptTokens = (await request.prompt.idsFor(reader, request.client, signal)).length + begun.length
    }
    const summary = {
      finishReason,
      calls: output.calls,
      promptTokens: promptTokens ?? 0,
      tokens,
      tokenIds,
      report: report.build(),
    }
    speed = answerSpeedOf(summary)
    yield { kind: 'text', ...last }
    yield { kind: 'end', ...summary }
  } finally {
    finished(speed)
  }
}

/** Without those of tokens after a stop string, and of an end-of-text token. */
function logprobsOf(delta: AnswerDelta, { tokens }: AnswerPiece): Pick<TextPiece, 'logprobs'> {
  if ('text' in delta || !delta.logprobs) return {}
  const withText = delta.end === 'stop' ? Math.min(tokens, delta.tokens.length - 1) : tokens
  const { tokenizer } = delta.source.model
  const textOf = ({ token, logprob }: ScoredToken): ScoredText => ({ token, bytes: tokenizer.bytesOf(token), logprob })
  return { logprobs: delta.logprobs.slice(0, withText).map((each) => ({ ...textOf(each), top: each.top.map(textOf) })) }
}

const sketchOf = (delta: AnswerDelta): Pick<TextPiece, 'sketch'> =>
  'text' in delta && delta.sketch ? { sketch: delta.sketch } : {}

/** Reads a whole answer. @param onText receives each piece of text before the next is read */
export async function collectAnswer(
  events: AsyncIterable<AnswerEvent>,
  onText: (piece: TextPiece) => void | Promise<void> = () => {},
): Promise<CollectedAnswer> {
  let text = ''
  let reasoning = ''
  const called: Call[] = []
  let logprobs: ChosenText[] | undefined
  for await (const event of events) {
    if (event.kind === 'end') {
      const { kind: _, ...summary } = event
      return { text, reasoning, called, ...(logprobs && { logprobs }), ...summary }
    }
    text += event.text
    reasoning += event.reasoning ?? ''
    for (const { index, name = '', arguments: part } of event.calls ?? []) {
      const before = called[index] ?? { name, arguments: '' }
      called[index] = { ...before, arguments: before.arguments + part }
    }
    if (event.logprobs) logprobs = [...(logprobs ?? []), ...event.logprobs]
    await onText(event)
  }
  throw new Error('the answer ended without a summary')
}
