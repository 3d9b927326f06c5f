import { setMaxListeners } from 'node:events'
import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import { isExpanded, parseLine, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import { requestedForm } from '../../core/answer/sketch/requested-form.ts'
import type { BridgeMode } from '../../core/kit/base/answer-modes.ts'
import { mayBeginEarly } from '../../core/policy/pice/early-lines.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import { maxSketchLines } from '../../core/wire/protocol/expansion.ts'
import type { AnswerLog } from '../llm/journalled-endpoint.ts'
import type { FullRecord, SentenceRecord, SketchRecord } from './answer-log.ts'
import { AnswerRecords } from './answer-records.ts'
import { EarlyText } from './early-text.ts'
import type { Expanded, Expander, ExpansionRequest } from './expander.ts'
import { expansionRequest } from './expansion-request.ts'
import { Expansions } from './expansions.ts'
import { FullAnswer } from './full-answer.ts'
import { LineTexts } from './line-texts.ts'
import type { Asked } from './llm.ts'
import type { PlannedConversation, Planner } from './planner.ts'
import type { WrittenByDevice } from './relevance-check.ts'
import { Sentences } from './sentences.ts'
import { type SketchFailure, type SketchParts, writeSketch } from './write-sketch.ts'

export interface AnswerParts extends SketchParts {
  readonly planner: Planner
  readonly expander: Pick<Expander, 'view' | 'expand' | 'judge'>
  /** Expansions of each sentence that the most confident is chosen from. */
  readonly candidates: number
  /** For the expansion of a sketch; then the LLM writes what is missing. */
  readonly maxExpansionMs: number
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

/** One answer with PICE: planned and made, or continued where its log ends. */
export class PiceAnswer {
  readonly #parts: AnswerParts
  readonly #asked: Asked
  readonly #mode: BridgeMode
  readonly #id: string
  readonly #records: AnswerRecords
  readonly #llmAnswer: FullAnswer
  readonly #texts: LineTexts
  readonly #signal: AbortSignal
  readonly #startedMs: number
  /** The client may have lines of a sketch, which a full answer replaces. */
  #hasSketch: boolean
  #expansionMs: number | undefined
  /** Devices have let the deadline pass. */
  #isLate = false

  constructor(parts: AnswerParts, asked: Asked, mode: BridgeMode, log: AnswerLog, signal: AbortSignal) {
    this.#parts = parts
    this.#asked = asked
    this.#mode = mode
    this.#id = log.id
    this.#records = new AnswerRecords(log, asked.messages)
    this.#llmAnswer = new FullAnswer(parts.llm, asked, log, this.#records, signal)
    this.#texts = new LineTexts(parts.llm, parts.expander, asked)
    this.#signal = signal
    this.#startedMs = parts.clock.nowMs()
    this.#hasSketch = log.written.length > 0
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
        expansionMs: this.#expansionMs,
        byDevices: this.#records.byDevices,
      })
    }
  }

  async *#make(): AsyncGenerator<TextDelta, void> {
    const { expander, planner } = this.#parts
    const { written } = this.#records
    const full = written.findIndex((record) => 'kind' in record && record.kind === 'full')
    if (full >= 0) return yield* this.#llmAnswer.from(written[full] as FullRecord, written.slice(full + 1), this.#hasSketch)
    // The last one: its first lines are those of the ones before.
    const sketch = written.findLast((record): record is SketchRecord => 'kind' in record && record.kind === 'sketch')
    const sentences = written.filter((record): record is SentenceRecord => 'kind' in record && record.kind === 'sentence')
    if (sketch) {
      const record = sketch.goesOn ? yield* this.#restOf(sketch, sketch.goesOn) : sketch
      return yield* this.#expand(record, sentences, new Expansions(expander, this.#signal))
    }
    const planned = await planner.plan(this.#asked, this.#mode, this.#signal)
    const { plan, expectedTokens = null, foresightTokens, foreseenTokens } = planned
    const { mode, fullS = null, predictedS = null } = plan
    this.#records.resetFigures({ mode, fullS, predictedS, foreseenTokens: expectedTokens, cloudTokens: foresightTokens })
    const learn = (tokens: number) => planner.learnLength(foreseenTokens, tokens)
    const isOther = plan.mode === 'full' && (plan.reason === 'unsuitable' || plan.reason === 'conversation')
    if (plan.mode === 'full') return yield* this.#full(plan.reason, isOther ? undefined : learn)
    yield* this.#sketch(planned, plan)
  }

  /** Text of its first lines was sent before an interruption: the LLM writes the other lines, if it can. */
  async *#restOf(record: SketchRecord, plan: NonNullable<SketchRecord['goesOn']>): AsyncGenerator<TextDelta, SketchRecord> {
    const { goesOn, ...complete } = record
    const lines = yield* writeSketch(this.#parts, {
      id: this.#id,
      asked: this.#asked,
      plan,
      signal: this.#signal,
      before: record.lines,
      counted: () => {},
      progress: (sketch) => this.#sketchDelta(sketch),
      text: () => [],
    })
    const all = { ...complete, lines: typeof lines === 'string' ? record.lines : lines }
    this.#records.write(all)
    return all
  }

  #sketchDelta(sketch: readonly string[]): TextDelta {
    return {
      source: this.#llmSource,
      text: '',
      tokenCount: 0,
      end: undefined,
      sketch: sketch.map((line) => line.replace(/^\n/, '')),
    }
  }

  /** The LLM writes a sketch, which devices expand; without a usable one in time, it answers in full. */
  async *#sketch(planned: PlannedConversation, plan: SketchPlan): AsyncGenerator<TextDelta, void> {
    const expansions = new Expansions(this.#parts.expander, this.#signal)
    try {
      yield* this.#sketchFor(planned, plan, expansions)
    } finally {
      expansions.close()
    }
  }

  async *#sketchFor(
    { expectedTokens = 0 }: PlannedConversation,
    plan: SketchPlan,
    expansions: Expansions,
  ): AsyncGenerator<TextDelta, void> {
    const end = this.#parts.planner.begin(this.#id, expectedTokens, plan)
    this.#records.figures.level = plan.level
    let lines: readonly string[] | SketchFailure
    let complete: readonly string[] = []
    const early = this.#earlyText(expectedTokens, plan)
    try {
      lines = yield* writeSketch(this.#parts, {
        id: this.#id,
        asked: this.#asked,
        plan,
        signal: this.#signal,
        counted: (tokens) => {
          this.#records.figures.sketchTokens += tokens
          this.#records.figures.cloudTokens += tokens
        },
        progress: (sketch) => {
          this.#records.begin()
          this.#hasSketch = true
          complete = [...sketch]
          this.#beginEarly(sketch, expectedTokens, plan, expansions)
          return this.#sketchDelta(sketch.slice(early?.records.length ?? 0))
        },
        text: (sketch) => early?.take(sketch, expansions.arrived) ?? [],
      })
    } finally {
      end()
    }
    const sent = early?.records ?? []
    // What has been sent stays: its lines are the answer, however the sketch has ended.
    if (typeof lines === 'string' && sent.length > 0) lines = complete.slice(0, maxSketchLines)
    if (typeof lines === 'string') return yield* this.#full(lines)
    this.#records.figures.sketchLines = lines.length
    const record = this.#recordOf(lines, expectedTokens, plan)
    this.#records.write(record)
    yield* this.#expand(record, sent, expansions, sent.length)
  }

  /** Undefined: the request's form may still change the lines. */
  #earlyText(expectedTokens: number, plan: SketchPlan): EarlyText | undefined {
    const { list, count, hasTitles, isPlain } = requestedForm(this.#asked.messages)
    if (list || count !== undefined || hasTitles || isPlain) return undefined
    const { candidates } = this.#parts
    const { maxTokens = Number.POSITIVE_INFINITY } = this.#asked.request
    const { level, sketchTokens } = plan
    return new EarlyText({
      texts: this.#texts,
      candidates,
      maxTokens,
      lineTokens: (lines) => (expectedTokens * this.#writtenShare(plan)) / lines.length,
      commit: (lines) => this.#records.write({ ...this.#recordOf(lines, expectedTokens, plan), goesOn: { level, sketchTokens } }),
      write: (record) => this.#records.write(record),
    })
  }

  /** Of the sketch, by its expected length. */
  #writtenShare({ sketchTokens }: SketchPlan): number {
    return Math.min(1, this.#records.figures.sketchTokens / sketchTokens)
  }

  #recordOf(lines: readonly string[], expectedTokens: number, plan: SketchPlan): SketchRecord {
    const { withinS, queueS, networkS } = plan
    const times = { expansionS: queueS + networkS + plan.expansionS, ...(withinS < Number.POSITIVE_INFINITY && { withinS }) }
    return { kind: 'sketch', lines, expectedTokens, ...times, figures: { ...this.#records.figures } }
  }

  /** Idle devices need not wait for the end of the sketch. */
  #beginEarly(written: readonly string[], expectedTokens: number, plan: SketchPlan, expansions: Expansions): void {
    // Headings may be dropped from plain text, so that lines would change places.
    if (requestedForm(this.#asked.messages).isPlain) return
    const { expander } = this.#parts
    const lines = written.map(parseLine)
    const sentences = lines.flatMap((line, at) => (isExpanded(line) && !expansions.has(at) ? [at] : []))
    const { sketchTokens: writtenTokens } = this.#records.figures
    const { sketchTokens, sketchS } = plan
    const progress = { sketchTokens, sketchS, writtenTokens, lines: sentences.length }
    if (!mayBeginEarly(progress, () => expander.view())) return
    const record = this.#recordOf(written, Math.max(1, Math.round(expectedTokens * this.#writtenShare(plan))), plan)
    expansions.begin(this.#expansionOf(record, lines, sentences, `${this.#id}/${expansions.requests + 1}`))
  }

  /**
   * Each sentence from a device, or from the LLM if no device writes it in time.
   * @param written those that were written before @param sent how many of them the client has
   */
  async *#expand(
    record: SketchRecord,
    written: readonly SentenceRecord[],
    expansions: Expansions,
    sent = 0,
  ): AsyncGenerator<TextDelta, void> {
    const { figures } = record
    const { maxTokens = Number.POSITIVE_INFINITY } = this.#asked.request
    const sentences = new Sentences(record.lines, this.#parts.candidates, maxTokens)
    const { order } = sentences
    this.#records.resetFigures(figures)
    for (const sentence of written) this.#count(sentences, sentence)
    for (const sentence of order.missing) {
      const asWritten = this.#texts.asWritten(sentences.lines[sentence]!, sentence)
      if (asWritten) this.#take(sentences, asWritten)
    }
    yield* [...sentences.ready()].slice(sent)
    if (order.needsMore) yield* this.#fromDevices(record, sentences, expansions)
    // Sentences that are written together are complete sooner than a full answer that begins now.
    if (order.isEmpty && !this.#isLate) return yield* this.#full('expansion')
    if (order.needsMore) yield* this.#fromLlm(record, sentences)
    if (!order.isCut) this.#parts.planner.learnLength(undefined, order.sentTokens)
    const source = sentences.lastSource ?? this.#llmSource
    const promptTokens = await this.#parts.llm.promptTokens(this.#asked, this.#signal)
    yield { source, text: '', tokenCount: 0, end: order.isCut ? 'length' : 'stop', sketch: [], ...promptTokens }
  }

  async *#fromDevices(record: SketchRecord, sentences: Sentences, expansions: Expansions): AsyncGenerator<TextDelta, void> {
    const { clock, logger } = this.#parts
    const { order } = sentences
    const begunMs = clock.nowMs()
    const left = order.missing.filter((sentence) => !expansions.has(sentence))
    const request = this.#expansionOf(record, sentences.lines, left, this.#id)
    if (left.length > 0) expansions.begin(request)
    const arrived = new Map<number, Expanded[]>()
    try {
      for await (const expanded of expansions.read()) {
        const own = [...(arrived.get(expanded.sentence) ?? []), expanded]
        arrived.set(expanded.sentence, own)
        this.#expansionMs = clock.nowMs() - begunMs
        if (!order.arrived(expanded.sentence)) continue
        this.#choose(record, own, sentences)
        yield* sentences.ready()
        if (order.isCut) return
      }
    } catch (err) {
      this.#signal.throwIfAborted()
      this.#isLate = clock.nowMs() - begunMs >= request.deadlineMs
      logger.info({ err, answer: this.#id }, 'devices have not expanded the whole sketch: the LLM writes what is missing')
    } finally {
      expansions.close()
    }
    for (const sentence of order.incomplete) this.#choose(record, arrived.get(sentence)!, sentences)
    yield* sentences.ready()
  }

  #expansionOf(record: SketchRecord, lines: readonly SketchLine[], sentences: readonly number[], id: string): ExpansionRequest {
    const { candidates, clock, maxExpansionMs, planner } = this.#parts
    const elapsedMs = clock.nowMs() - this.#startedMs
    const terms = { candidates, elapsedMs, maxExpansionMs, speed: planner.speed }
    return expansionRequest(this.#asked, record, { id, lines, sentences }, terms)
  }

  /** The most confident candidate becomes the sentence's text. Without any text, the sentence stays missing. */
  #choose({ expectedTokens }: SketchRecord, arrived: readonly Expanded[], sentences: Sentences): void {
    const { lines, order } = sentences
    const { sentence } = arrived[0]!
    if (order.has(sentence)) return
    const chosen = this.#texts.byDevices(lines[sentence]!, expectedTokens / lines.length, arrived)
    if (chosen) this.#take(sentences, chosen)
  }

  async *#fromLlm(record: SketchRecord, sentences: Sentences): AsyncGenerator<TextDelta, void> {
    this.#records.figures.reason = 'expansion'
    const stop = new AbortController()
    const signal = AbortSignal.any([this.#signal, stop.signal])
    // Each sentence listens; beyond ten Node warns of a leak.
    setMaxListeners(0, signal)
    const { order } = sentences
    const lineTokens = Math.ceil(record.expectedTokens / record.lines.length)
    try {
      for (let next = order.nextOfLlm; next.length > 0; next = order.nextOfLlm) {
        const writing = new Map(
          next.map((sentence) => [sentence, this.#texts.byLlm(sentences.lines, sentence, lineTokens, signal)]),
        )
        while (writing.size > 0) {
          const written = await Promise.race(writing.values())
          writing.delete(written.sentence)
          this.#take(sentences, written)
          yield* sentences.ready()
        }
      }
    } finally {
      stop.abort()
    }
  }

  /** @param learn is told the length of an answer that ends by itself */
  #full(reason: string, learn?: (tokens: number) => void): AsyncGenerator<TextDelta, void> {
    return this.#llmAnswer.deltas(reason, this.#hasSketch, learn)
  }

  get #llmSource() {
    const { kind, model } = this.#parts.llm
    return { kind, model }
  }

  #take(sentences: Sentences, record: SentenceRecord): void {
    this.#records.write(record)
    this.#count(sentences, record)
  }

  #count(sentences: Sentences, record: SentenceRecord): void {
    sentences.choose(record)
    this.#records.count(record)
  }
}
