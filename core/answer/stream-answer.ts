import type { Clock } from '../base/clock.ts'
import type { AnswerEnd } from '../text/answer-stream.ts'
import { AnswerText } from './answer-text.ts'
import type { AnswerRequest, Endpoint } from './endpoint.ts'
import type { AnswerMeter, AnswerSpeed } from './meter.ts'
import { type AnswerReport, ReportBuilder, speedOf } from './report.ts'

/** `text` holds whole characters; it is empty where a delta completed none. `end` comes last, once. */
export type AnswerEvent = { readonly kind: 'text'; readonly text: string } | ({ readonly kind: 'end' } & AnswerSummary)

export interface AnswerSummary {
  readonly finishReason: AnswerEnd
  /** 0 where another server made the answer and does not count them. */
  readonly promptTokens: number
  readonly tokens: number
  /** Each in the vocabulary of its source; empty where another server made the answer. */
  readonly tokenIds: readonly number[]
  readonly report: AnswerReport
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
    const answer = new AnswerText(request.answered ?? (model.tokenizer && { model, ids: [] }), request.stop)
    const tokenIds: number[] = []
    let tokens = 0
    let promptTokens: number | undefined
    let finishReason: AnswerEnd | undefined
    let text = ''
    for await (const delta of endpoint.answer(request, signal)) {
      const piece = answer.push(delta)
      report.add(delta, piece, clock.nowMs())
      tokens += piece.tokens
      if ('text' in delta) promptTokens = delta.promptTokens ?? promptTokens
      else tokenIds.push(...delta.tokens.slice(0, piece.tokens))
      text = piece.text
      finishReason = piece.end
      if (finishReason) break
      yield { kind: 'text', text }
    }
    if (!finishReason) throw new Error('the endpoint stopped before the end of its answer')
    if (model.tokenizer) promptTokens = (await request.prompt.idsFor(model, signal)).length
    const summary = { finishReason, promptTokens: promptTokens ?? 0, tokens, tokenIds, report: report.build() }
    speed = speedOf(summary)
    yield { kind: 'text', text }
    yield { kind: 'end', ...summary }
  } finally {
    finished(speed)
  }
}

/** Reads a whole answer. @param onText receives each piece of text before the next is read */
export async function collectAnswer(
  events: AsyncIterable<AnswerEvent>,
  onText: (text: string) => void | Promise<void> = () => {},
): Promise<AnswerSummary & { readonly text: string }> {
  let text = ''
  for await (const event of events) {
    if (event.kind === 'end') {
      const { kind: _, ...summary } = event
      return { text, ...summary }
    }
    text += event.text
    await onText(event.text)
  }
  throw new Error('the answer ended without a summary')
}
