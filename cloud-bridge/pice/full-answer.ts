import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { AnswerLog } from '../llm/journalled-endpoint.ts'
import type { FullRecord, PiceRecord, TextRecord } from './answer-log.ts'
import type { AnswerRecords } from './answer-records.ts'
import type { Asked, Llm } from './llm.ts'

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

  /** @param hidesSketch the client may have lines of a sketch, which it replaces @param learn takes the length of an answer that ends by itself */
  async *deltas(reason: string, hidesSketch: boolean, learn?: (tokens: number) => void): AsyncGenerator<TextDelta, void> {
    const { figures } = this.#records
    figures.reason = reason
    const record: FullRecord = { kind: 'full', figures: { ...figures } }
    this.#records.write(record)
    yield* this.from(record, [], hidesSketch, learn)
  }

  /** @param written of the text, before an interruption. @throws BrimError UPSTREAM_FAILED where it cannot go on */
  async *from(
    record: FullRecord,
    written: readonly PiceRecord[],
    hidesSketch: boolean,
    learn?: (tokens: number) => void,
  ): AsyncGenerator<TextDelta, void> {
    const llm = this.#llm
    this.#records.resetFigures(record.figures)
    if (!llm.isResumable && written.length > 0) return yield* this.#replay(written as readonly TextRecord[])
    const { figures } = this.#records
    const log = { ...this.#log, written, begin: () => {} }
    let tokens = 0
    let isFirst = true
    for await (const delta of llm.answer(this.#asked, log, this.#signal)) {
      const { text, tokenCount, end } = delta
      tokens += tokenCount
      figures.cloudTokens += tokenCount
      if (!llm.isResumable) this.#records.write({ kind: 'text', text, tokens: tokenCount, end: end ?? null })
      const promptTokens = end && llm.isResumable ? await llm.promptTokens(this.#asked, this.#signal) : {}
      yield { ...delta, ...(isFirst && hidesSketch && { sketch: [] }), ...promptTokens }
      isFirst = false
      if (end === 'stop') learn?.(tokens)
    }
  }

  /** Of another server, which cannot go on in the middle of an answer. */
  async *#replay(written: readonly TextRecord[]): AsyncGenerator<TextDelta, void> {
    const { kind, model } = this.#llm
    for (const { text, tokens, end } of written) {
      yield { source: { kind, model }, text, tokenCount: tokens, end: end ?? undefined }
      if (end) return
    }
    throw new BrimError('UPSTREAM_FAILED', `the answer of ${model.name} was interrupted, and it cannot continue it`, {
      hint: 'ask again',
    })
  }
}
