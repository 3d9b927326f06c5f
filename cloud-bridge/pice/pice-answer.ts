import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import { maxOpenedTemperature } from '../../core/answer/sketch/prompts.ts'
import type { BridgeMode } from '../../core/kit/base/answer-modes.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { AnswerLog } from '../llm/journalled-endpoint.ts'
import type { FullRecord, SentenceRecord, SketchRecord } from './answer-log.ts'
import { AnswerRecords } from './answer-records.ts'
import { FullAnswer, openingDeltas } from './full-answer.ts'
import type { Asked } from './llm.ts'
import { Opening, type OpeningPiece } from './opening.ts'
import type { PlannedConversation, Planner } from './planner.ts'
import type { WrittenByDevice } from './relevance-check.ts'
import { type SketchEnd, SketchedAnswer, type SketchingParts } from './sketched-answer.ts'

export interface AnswerParts extends SketchingParts {
  readonly planner: Planner
  readonly onEnded: (ended: EndedAnswer) => void
}

export interface EndedAnswer {
  readonly asked: Asked
  readonly figures: PiceFigures
  /** From the sketch to the last sentence of a device; undefined: no device has written any. */
  readonly expansionMs: number | undefined
  /** Those whose sentences it has. */
  readonly byDevices: readonly WrittenByDevice[]
}

/** By an LLM whose queue is full, to go on with an answer that has begun; and the wait after each, where it names none. */
const maxRefusals = 30
const refusedMs = 1_000

/** One answer with PICE: planned and made, or continued where its log ends. */
export class PiceAnswer {
  readonly #parts: AnswerParts
  readonly #asked: Asked
  readonly #mode: BridgeMode
  readonly #id: string
  readonly #records: AnswerRecords
  readonly #llmAnswer: FullAnswer
  readonly #signal: AbortSignal
  readonly #log: AnswerLog
  readonly #startedMs: number
  /** What the client has of the answer before lines of a sketch. */
  #opening: readonly OpeningPiece[] = []
  #sketched: SketchedAnswer | undefined

  constructor(parts: AnswerParts, asked: Asked, mode: BridgeMode, log: AnswerLog, signal: AbortSignal) {
    this.#parts = parts
    this.#asked = asked
    this.#mode = mode
    this.#id = log.id
    this.#records = new AnswerRecords(log, asked.messages)
    this.#llmAnswer = new FullAnswer(parts.llm, asked, log, this.#records, signal)
    this.#signal = signal
    this.#log = log
    this.#startedMs = parts.clock.nowMs()
  }

  /** @throws BrimError of the LLM, QUEUE_FULL, CANCELED */
  async *deltas(): AsyncGenerator<TextDelta, void> {
    const figures = () => this.#records.figures
    try {
      for await (const delta of this.#make()) yield { ...delta, pice: figures }
    } finally {
      this.#parts.onEnded({
        asked: this.#asked,
        figures: this.#records.figures,
        expansionMs: this.#sketched?.expansionMs,
        byDevices: this.#records.byDevices,
      })
    }
  }

  async *#make(): AsyncGenerator<TextDelta, void> {
    const { written } = this.#records
    // The last one counts: the first lines of a sketch are those of the ones before, and an opening is part of the sketch after it.
    const at = written.findLastIndex((record) => 'kind' in record && (record.kind === 'full' || record.kind === 'sketch'))
    if (at < 0) return yield* this.#new()
    const record = written[at] as FullRecord | SketchRecord
    if (record.kind === 'full') return yield* this.#llmAnswer.resumed(record, written.slice(at + 1), this.#hasSketch)
    const sentences = written.filter((each): each is SentenceRecord => 'kind' in each && each.kind === 'sentence')
    this.#opening = record.opening ?? []
    yield* openingDeltas(this.#parts.llm, this.#opening)
    yield* this.#sketch((sketched) => sketched.resumed(record, sentences))
  }

  async *#new(): AsyncGenerator<TextDelta, void> {
    const { planner } = this.#parts
    if (!this.#mayBegin) {
      const planned = await planner.plan(this.#asked, this.#mode, this.#signal)
      const { plan, expectedTokens = 0 } = planned
      const learn = this.#planned(planned)
      if (plan.mode === 'full') return yield* this.#full(plan.reason, learn)
      return yield* this.#sketch((sketched) => sketched.deltas(expectedTokens, plan))
    }
    let learn: ((tokens: number) => void) | undefined
    const stop = new AbortController()
    const opening = new Opening(
      this.#begin(stop.signal, (tokens) => learn?.(tokens)),
      stop,
    )
    this.#opening = opening.pieces
    try {
      // What the prompt has in common with the one that asks for the length is computed once.
      yield* opening.first()
      const planning = this.#planBeside(stop.signal)
      yield* opening.until(planning)
      if (opening.hasEnded) return
      const planned = await planning
      learn = this.#planned(planned)
      const { plan, expectedTokens = 0 } = planned
      if (plan.mode === 'sketch' && (yield* opening.toEnd())) {
        await opening.close()
        return yield* this.#sketch((sketched) => sketched.deltas(expectedTokens, plan))
      }
      this.#records.figures.reason = plan.mode === 'full' ? plan.reason : 'opening'
      yield* opening.rest()
    } finally {
      await opening.close()
    }
  }

  /** Whether the LLM begins the answer before there is a plan: its reader has something to read. */
  get #mayBegin(): boolean {
    const { llm } = this.#parts
    const { isWhole, sampling } = this.#asked.request
    const goTogether = llm.prompts.sketchOpened !== undefined || sampling.temperature <= maxOpenedTemperature
    return llm.continues && !isWhole && goTogether
  }

  #begin(stop: AbortSignal, learn: (tokens: number) => void): AsyncGenerator<TextDelta, void> {
    const signal = AbortSignal.any([this.#signal, stop])
    const full = new FullAnswer(this.#parts.llm, this.#asked, this.#log, this.#records, signal)
    return full.deltas(null, { hidesSketch: false, learn })
  }

  /** Of an answer that has begun: where no plan can be made, it goes on. @throws CANCELED */
  async #planBeside(stop: AbortSignal): Promise<PlannedConversation> {
    try {
      return await this.#parts.planner.plan(this.#asked, this.#mode, AbortSignal.any([this.#signal, stop]))
    } catch (err) {
      this.#parts.logger.info({ err, answer: this.#id }, 'no plan: the LLM answers in full')
      return { plan: { mode: 'full', reason: 'foresight' }, foresightTokens: 0 }
    }
  }

  /** @returns what learns the length of a full answer */
  #planned({ plan, expectedTokens, foresightTokens, foreseenTokens }: PlannedConversation) {
    const { mode, fullS = null, predictedS = null } = plan
    const cloudTokens = this.#records.figures.cloudTokens + foresightTokens
    this.#records.resetFigures({ mode, fullS, predictedS, foreseenTokens: expectedTokens ?? null, cloudTokens })
    const isOther = plan.mode === 'full' && (plan.reason === 'unsuitable' || plan.reason === 'conversation')
    return isOther ? undefined : (tokens: number) => this.#parts.planner.learnLength(foreseenTokens, tokens)
  }

  async *#sketch(made: (sketched: SketchedAnswer) => AsyncGenerator<TextDelta, SketchEnd>): AsyncGenerator<TextDelta, void> {
    const answer = {
      id: this.#id,
      asked: this.#asked,
      records: this.#records,
      opening: this.#opening,
      startedMs: this.#startedMs,
      signal: this.#signal,
    }
    this.#sketched = new SketchedAnswer(this.#parts, answer)
    const reason = yield* made(this.#sketched)
    if (reason) yield* this.#full(reason)
  }

  /** @param learn gets the length of an answer that ends by itself. @throws BrimError of the LLM */
  async *#full(reason: string, learn?: (tokens: number) => void): AsyncGenerator<TextDelta, void> {
    const options = { hidesSketch: this.#hasSketch, learn, opening: this.#opening }
    for (let refusals = 1; ; refusals++) {
      try {
        return yield* this.#llmAnswer.deltas(reason, options)
      } catch (err) {
        // Nothing of it has come. A client that has the opening waits, as others do that have nothing.
        const isRefused = err instanceof BrimError && err.code === 'QUEUE_FULL'
        if (!isRefused || this.#opening.length === 0 || refusals > maxRefusals) throw err
        await this.#parts.clock.sleep(err.retryAfterMs ?? refusedMs, this.#signal)
      }
    }
  }

  /** The client may have lines of a sketch, which a full answer replaces. */
  get #hasSketch(): boolean {
    return this.#records.written.length > 0 || this.#sketched?.isShown === true
  }
}
