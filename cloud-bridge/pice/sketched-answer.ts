import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { isExpanded, parseLine, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import { requestedForm } from '../../core/answer/sketch/requested-form.ts'
import { mayBeginEarly } from '../../core/policy/pice/early-lines.ts'
import type { SketchPlan } from '../../core/policy/pice/sketch-plans.ts'
import { maxSketchLines } from '../../core/wire/protocol/expansion.ts'
import type { SentenceRecord, SketchRecord } from './answer-log.ts'
import type { AnswerRecords } from './answer-records.ts'
import { EarlyText } from './early-text.ts'
import type { Expanded, Expander, ExpansionRequest } from './expander.ts'
import { expansionRequest } from './expansion-request.ts'
import { Expansions } from './expansions.ts'
import { LineTexts } from './line-texts.ts'
import type { Asked } from './llm.ts'
import { LlmLines } from './llm-lines.ts'
import { OpenedLines } from './opened-lines.ts'
import { type OpeningPiece, openingText, openingTokens } from './opening.ts'
import type { Planner } from './planner.ts'
import { Sentences } from './sentences.ts'
import { type SketchFailure, type SketchParts, writeSketch } from './write-sketch.ts'

export interface SketchingParts extends SketchParts {
  readonly planner: Pick<Planner, 'begin' | 'learnLength' | 'speed'>
  readonly expander: Pick<Expander, 'view' | 'expand' | 'judge'>
  /** Expansions of each sentence that the most confident is chosen from. */
  readonly candidates: number
  /** For the expansion of a sketch; then the LLM writes what is missing. */
  readonly maxExpansionMs: number
}

/** The answer that a sketch is for. */
export interface AnswerToSketch {
  readonly id: string
  readonly asked: Asked
  readonly records: AnswerRecords
  /** What the client has of it before lines of the sketch. */
  readonly opening: readonly OpeningPiece[]
  /** When it was asked for, in ms. */
  readonly startedMs: number
  readonly signal: AbortSignal
}

/** Why the LLM answers in full after all; undefined: the answer is complete. */
export type SketchEnd = SketchFailure | 'expansion' | undefined

/** The lines of a sketch, written out by devices: one answer, or what follows its opening. */
export class SketchedAnswer {
  readonly #parts: SketchingParts
  readonly #answer: AnswerToSketch
  readonly #texts: LineTexts
  readonly #opened: OpenedLines
  #isShown = false
  #expansionMs: number | undefined
  /** Devices have let the deadline pass. */
  #isLate = false

  constructor(parts: SketchingParts, answer: AnswerToSketch) {
    this.#parts = parts
    this.#answer = answer
    this.#texts = new LineTexts(parts.llm, parts.expander, answer.asked)
    this.#opened = new OpenedLines(openingText(answer.opening))
  }

  /** Whether the client may have lines of the sketch. */
  get isShown(): boolean {
    return this.#isShown
  }

  /** From the sketch to the last sentence of a device, in ms; undefined: no device has written any. */
  get expansionMs(): number | undefined {
    return this.#expansionMs
  }

  /**
   * The LLM writes the sketch, and devices expand it; without a usable one in time, the LLM answers in full.
   * @param expectedTokens of the answer. @throws BrimError of the LLM, CANCELED
   */
  async *deltas(expectedTokens: number, plan: SketchPlan): AsyncGenerator<TextDelta, SketchEnd> {
    const expansions = new Expansions(this.#parts.expander, this.#answer.signal)
    try {
      return yield* this.#sketchFor(expectedTokens, plan, expansions)
    } finally {
      expansions.close()
    }
  }

  /** What follows its opening after an interruption. @param written its sentences that are there. @throws as `deltas` */
  async *resumed(record: SketchRecord, written: readonly SentenceRecord[]): AsyncGenerator<TextDelta, SketchEnd> {
    const sketch = record.goesOn ? yield* this.#restOf(record, record.goesOn) : record
    return yield* this.#expand(sketch, written, new Expansions(this.#parts.expander, this.#answer.signal))
  }

  /** Text of its first lines was sent before an interruption: the LLM writes the other lines, if it can. */
  async *#restOf(record: SketchRecord, plan: NonNullable<SketchRecord['goesOn']>): AsyncGenerator<TextDelta, SketchRecord> {
    const { goesOn, ...complete } = record
    const lines = yield* writeSketch(this.#parts, {
      id: this.#answer.id,
      asked: this.#answer.asked,
      plan,
      signal: this.#answer.signal,
      before: record.lines,
      opened: new OpenedLines(''),
      counted: () => {},
      progress: (sketch) => this.#sketchDelta(sketch),
      text: () => [],
    })
    const all = { ...complete, lines: typeof lines === 'string' ? record.lines : lines }
    this.#answer.records.write(all)
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

  async *#sketchFor(expectedTokens: number, plan: SketchPlan, expansions: Expansions): AsyncGenerator<TextDelta, SketchEnd> {
    const end = this.#parts.planner.begin(this.#answer.id, expectedTokens, plan)
    this.#answer.records.figures.level = plan.level
    let lines: readonly string[] | SketchFailure
    let complete: readonly string[] = []
    const opened = this.#opened
    const early = this.#earlyText(expectedTokens, plan)
    try {
      lines = yield* writeSketch(this.#parts, {
        id: this.#answer.id,
        asked: this.#answer.asked,
        plan,
        signal: this.#answer.signal,
        opened,
        counted: (tokens) => {
          this.#answer.records.figures.sketchTokens += tokens
          this.#answer.records.figures.cloudTokens += tokens
        },
        progress: (sketch) => {
          this.#answer.records.begin()
          this.#isShown = true
          complete = [...sketch]
          this.#beginEarly(sketch, expectedTokens, plan, expansions)
          return this.#sketchDelta(sketch.slice(early?.records.length ?? opened.count))
        },
        text: (sketch) => early?.take(sketch, expansions.arrived) ?? [],
      })
    } finally {
      end()
    }
    const sent = early?.records.slice(opened.count) ?? []
    // What has been sent stays: its lines are the answer, however the sketch has ended.
    if (typeof lines === 'string' && sent.length > 0) lines = complete.slice(0, maxSketchLines)
    if (typeof lines === 'string') return lines
    this.#answer.records.figures.sketchLines = lines.length
    const record = this.#recordOf(lines, expectedTokens, plan)
    this.#answer.records.write(record)
    return yield* this.#expand(record, sent, expansions, sent.length)
  }

  /** Undefined: the request's form may still change the lines. */
  #earlyText(expectedTokens: number, plan: SketchPlan): EarlyText | undefined {
    const { list, count, hasTitles, isPlain } = requestedForm(this.#answer.asked.messages)
    if (list || count !== undefined || hasTitles || isPlain) return undefined
    const { candidates } = this.#parts
    const { maxTokens = Number.POSITIVE_INFINITY } = this.#answer.asked.request
    const { level, sketchTokens } = plan
    return new EarlyText({
      texts: this.#texts,
      candidates,
      maxTokens,
      opening: { text: this.#opened.text, records: this.#openingRecords() },
      lineTokens: (lines) => (expectedTokens * this.#writtenShare(plan)) / lines.length,
      commit: (lines) =>
        this.#answer.records.write({ ...this.#recordOf(lines, expectedTokens, plan), goesOn: { level, sketchTokens } }),
      write: (record) => this.#answer.records.write(record),
    })
  }

  /** Of the sketch, by its expected length. */
  #writtenShare({ sketchTokens }: SketchPlan): number {
    return Math.min(1, this.#answer.records.figures.sketchTokens / sketchTokens)
  }

  /** Of its lines. The first one counts for all. */
  #openingRecords(): SentenceRecord[] {
    return this.#opened.lines.map((line, at) =>
      this.#texts.opening(parseLine(line), at, at === 0 ? openingTokens(this.#answer.opening) : 0),
    )
  }

  #recordOf(lines: readonly string[], expectedTokens: number, plan: SketchPlan): SketchRecord {
    const { withinS, queueS, networkS } = plan
    const times = { expansionS: queueS + networkS + plan.expansionS, ...(withinS < Number.POSITIVE_INFINITY && { withinS }) }
    const { opening, records } = this.#answer
    return { kind: 'sketch', lines, expectedTokens, ...times, opening, figures: { ...records.figures } }
  }

  /** Idle devices need not wait for the end of the sketch. */
  #beginEarly(written: readonly string[], expectedTokens: number, plan: SketchPlan, expansions: Expansions): void {
    // Headings may be dropped from plain text, so that lines would change places.
    if (requestedForm(this.#answer.asked.messages).isPlain) return
    const { expander } = this.#parts
    const lines = written.map(parseLine)
    const sentences = lines.flatMap((line, at) =>
      at >= this.#opened.count && isExpanded(line) && !expansions.has(at) ? [at] : [],
    )
    const { sketchTokens: writtenTokens } = this.#answer.records.figures
    const { sketchTokens, sketchS } = plan
    const progress = { sketchTokens, sketchS, writtenTokens, lines: sentences.length }
    if (!mayBeginEarly(progress, () => expander.view())) return
    const record = this.#recordOf(written, Math.max(1, Math.round(expectedTokens * this.#writtenShare(plan))), plan)
    expansions.begin(this.#expansionOf(record, lines, sentences, `${this.#answer.id}/${expansions.requests + 1}`))
  }

  /**
   * Each sentence from a device, or from the LLM if no device writes it in time.
   * @param written those that were written before @param sent how many of them the client has, beside the opening
   */
  async *#expand(
    record: SketchRecord,
    written: readonly SentenceRecord[],
    expansions: Expansions,
    sent = 0,
  ): AsyncGenerator<TextDelta, SketchEnd> {
    const { figures } = record
    const { text, count } = this.#opened
    const { maxTokens = Number.POSITIVE_INFINITY } = this.#answer.asked.request
    const sentences = new Sentences(record.lines, this.#parts.candidates, maxTokens, { text, lines: count })
    const { order } = sentences
    this.#answer.records.resetFigures(figures)
    for (const line of this.#openingRecords()) sentences.choose(line)
    for (const sentence of written) this.#count(sentences, sentence)
    for (const sentence of order.missing) {
      const asWritten = this.#texts.asWritten(sentences.lines[sentence]!, sentence)
      if (asWritten) this.#take(sentences, asWritten)
    }
    yield* [...sentences.ready()].slice(count + sent)
    const lineTokens = Math.ceil(record.expectedTokens / record.lines.length)
    const byLlm = new LlmLines(this.#texts, sentences.lines, lineTokens, this.#answer.signal)
    try {
      if (order.needsMore) yield* this.#fromDevices(record, sentences, expansions, byLlm)
      // Sentences that are written together are complete sooner than a full answer that begins now.
      if (this.#isBare(sentences) && !this.#isLate) return 'expansion'
      if (order.needsMore) yield* this.#fromLlm(sentences, byLlm)
    } finally {
      byLlm.close()
    }
    if (!order.isCut) this.#parts.planner.learnLength(undefined, order.sentTokens)
    const source = sentences.lastSource ?? this.#llmSource
    const promptTokens = await this.#parts.llm.promptTokens(this.#answer.asked, this.#answer.signal)
    yield { source, text: '', tokenCount: 0, end: order.isCut ? 'length' : 'stop', sketch: [], ...promptTokens }
    return undefined
  }

  /** Whether no line after the opening has its text. */
  #isBare({ lines, order }: Sentences): boolean {
    return order.missing.length === lines.length - this.#opened.count
  }

  /** @param byLlm begins lines of which the devices write nothing usable, while they write others */
  async *#fromDevices(
    record: SketchRecord,
    sentences: Sentences,
    expansions: Expansions,
    byLlm: LlmLines,
  ): AsyncGenerator<TextDelta, void> {
    const { clock, logger } = this.#parts
    const { order } = sentences
    const begunMs = clock.nowMs()
    const left = order.missing.filter((sentence) => !expansions.has(sentence))
    const request = this.#expansionOf(record, sentences.lines, left, this.#answer.id)
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
        if (!order.has(expanded.sentence) && !this.#isBare(sentences)) byLlm.begin(expanded.sentence)
      }
    } catch (err) {
      this.#answer.signal.throwIfAborted()
      this.#isLate = clock.nowMs() - begunMs >= request.deadlineMs
      logger.info({ err, answer: this.#answer.id }, 'devices have not expanded the whole sketch: the LLM writes what is missing')
    } finally {
      expansions.close()
    }
    for (const sentence of order.incomplete) this.#choose(record, arrived.get(sentence)!, sentences)
    yield* sentences.ready()
  }

  #expansionOf(record: SketchRecord, lines: readonly SketchLine[], sentences: readonly number[], id: string): ExpansionRequest {
    const { candidates, clock, maxExpansionMs, planner } = this.#parts
    const elapsedMs = clock.nowMs() - this.#answer.startedMs
    const terms = { candidates, elapsedMs, maxExpansionMs, speed: planner.speed }
    return expansionRequest(this.#answer.asked, record, { id, lines, sentences }, terms)
  }

  /** The most confident candidate becomes the sentence's text. Without any text, the sentence stays missing. */
  #choose({ expectedTokens }: SketchRecord, arrived: readonly Expanded[], sentences: Sentences): void {
    const { lines, order } = sentences
    const { sentence } = arrived[0]!
    if (order.has(sentence)) return
    const chosen = this.#texts.byDevices(lines[sentence]!, expectedTokens / lines.length, arrived)
    if (chosen) this.#take(sentences, chosen)
  }

  async *#fromLlm(sentences: Sentences, byLlm: LlmLines): AsyncGenerator<TextDelta, void> {
    this.#answer.records.figures.reason = 'expansion'
    const { order } = sentences
    for (let next = order.nextOfLlm; next.length > 0; next = order.nextOfLlm) {
      for (const sentence of next) byLlm.begin(sentence)
      while (byLlm.isWriting) {
        this.#take(sentences, sentences.withoutRepeat(await byLlm.next()))
        yield* sentences.ready()
      }
    }
  }

  get #llmSource() {
    const { kind, model } = this.#parts.llm
    return { kind, model }
  }

  #take(sentences: Sentences, record: SentenceRecord): void {
    this.#answer.records.write(record)
    this.#count(sentences, record)
  }

  #count(sentences: Sentences, record: SentenceRecord): void {
    sentences.choose(record)
    this.#answer.records.count(record)
  }
}
