import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { AnswerLog } from '../llm/journalled-endpoint.ts'
import type { FullRecord, PiceRecord, TextRecord } from './answer-log.ts'
import type { AnswerRecords } from './answer-records.ts'
import type { Asked, Llm } from './llm.ts'
import { type OpeningPiece, openingText, openingTokens } from './opening.ts'

export interface FullOptions {
  /** The client may have lines of a sketch, which the answer replaces. */
  readonly hidesSketch: boolean
  /** Takes the length of an answer that ends by itself. */
  readonly learn?: ((tokens: number) => void) | undefined
  /** What the client has of it. Absent: nothing. */
  readonly opening?: readonly OpeningPiece[]
}

/** The LLM's own answer, where no sketch is expanded. */
export class FullAnswer {
  readonly #llm: Llm
  readonly #asked: Asked
  readonly #log: AnswerLog
  readonly #records: AnswerRecords
  readonly #signal: AbortSignal

  constructor(llm: Llm, asked: Asked, log: AnswerLog, records: AnswerRecords, signal: AbortSignal) {
    this.#llm = llm
    this.#asked = asked
    this.#log = log
    this.#records = records
    this.#signal = signal
  }

  /** @param reason null: it is not known yet whether it stays full */
  async *deltas(reason: string | null, options: FullOptions): AsyncGenerator<TextDelta, void> {
    const { figures } = this.#records
    figures.reason = reason
    const { opening = [] } = options
    const record: FullRecord = { kind: 'full', figures: { ...figures }, opening }
    this.#records.write(record)
    yield* this.#from(record, [], options)
  }

  /** @param written of the text, before an interruption. @throws BrimError UPSTREAM_FAILED where it cannot go on */
  async *resumed(record: FullRecord, written: readonly PiceRecord[], hidesSketch: boolean): AsyncGenerator<TextDelta, void> {
    const llm = this.#llm
    this.#records.resetFigures(record.figures)
    if (llm.isResumable) {
      yield* openingDeltas(llm, record.opening)
      return yield* this.#from(record, written, { hidesSketch })
    }
    const texts = written as readonly TextRecord[]
    const opening = [...(record.opening ?? []), ...texts]
    yield* openingDeltas(llm, opening)
    if (texts.at(-1)?.end) return
    if (opening.length > 0 && !llm.continues)
      throw new BrimError('UPSTREAM_FAILED', `the answer of ${llm.model.name} was interrupted, and it cannot continue it`, {
        hint: 'ask again',
      })
    yield* this.#from({ ...record, opening }, [], { hidesSketch })
  }

  async *#from(
    { opening = [] }: FullRecord,
    written: readonly PiceRecord[],
    { hidesSketch, learn }: FullOptions,
  ): AsyncGenerator<TextDelta, void> {
    const llm = this.#llm
    const log = { ...this.#log, written, begin: () => {} }
    let tokens = openingTokens(opening)
    let isFirst = true
    for await (const delta of llm.answer(begun(this.#asked, opening, tokens), log, this.#signal)) {
      const { text, tokenCount, end } = delta
      tokens += tokenCount
      this.#records.figures.cloudTokens += tokenCount
      if (!llm.isResumable) this.#records.write({ kind: 'text', text, tokens: tokenCount, end: end ?? null })
      const promptTokens = end && llm.isResumable ? await llm.promptTokens(this.#asked, this.#signal) : {}
      yield { ...delta, ...(isFirst && hidesSketch && { sketch: [] }), ...promptTokens }
      isFirst = false
      if (end === 'stop') learn?.(tokens)
    }
  }
}

/** The opening of an answer as it was sent before an interruption. */
export function* openingDeltas(
  { kind, model }: Llm,
  opening: readonly (OpeningPiece & Partial<TextRecord>)[] = [],
): Generator<TextDelta> {
  for (const { text, tokens, end } of opening) yield { source: { kind, model }, text, tokenCount: tokens, end: end ?? undefined }
}

function begun(asked: Asked, opening: readonly OpeningPiece[], tokens: number): Asked {
  if (opening.length === 0) return asked
  const { maxTokens } = asked.request
  const answered = { text: openingText(opening) }
  return { ...asked, request: { ...asked.request, answered, ...(maxTokens !== undefined && { maxTokens: maxTokens - tokens }) } }
}
