import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import type { ChatMessage } from '../../core/model/text/chat-message.ts'
import type { AnswerLog } from '../llm/journalled-endpoint.ts'
import type { PiceRecord, SentenceRecord } from './answer-log.ts'
import type { WrittenByDevice } from './relevance-check.ts'

type Figures = { -readonly [Key in keyof PiceFigures]: PiceFigures[Key] }

const unplanned: PiceFigures = {
  mode: 'full',
  reason: null,
  level: null,
  foreseenTokens: null,
  fullS: null,
  predictedS: null,
  sketchTokens: 0,
  sketchLines: 0,
  expandedSentences: 0,
  completedSentences: 0,
  cloudTokens: 0,
  edgeTokens: 0,
  confidence: null,
}

/** What is recorded of one answer: in its log, so that it can be continued, and in figures. Mutable. */
export class AnswerRecords {
  readonly #log: AnswerLog
  readonly #messages: readonly ChatMessage[]
  #hasBegun: boolean
  #figures: Figures = { ...unplanned }
  readonly #confidences: number[] = []
  readonly #byDevices: WrittenByDevice[] = []

  constructor(log: AnswerLog, messages: readonly ChatMessage[]) {
    this.#log = log
    this.#messages = messages
    this.#hasBegun = this.written.length > 0
  }

  /** Before an interruption. */
  get written(): readonly PiceRecord[] {
    return this.#log.written as readonly PiceRecord[]
  }

  get figures(): Figures {
    return this.#figures
  }

  /** Sentences of devices that this answer has taken. */
  get byDevices(): readonly WrittenByDevice[] {
    return this.#byDevices
  }

  /** Begins the figures again. */
  resetFigures(known: Partial<PiceFigures>): void {
    this.#figures = { ...unplanned, ...known }
  }

  /** Before the client gets anything. */
  begin(): void {
    if (!this.#hasBegun) this.#log.begin({ messages: this.#messages })
    this.#hasBegun = true
  }

  write(record: PiceRecord): void {
    this.begin()
    if (record.kind === 'sentence' && record.source.device !== undefined)
      this.#byDevices.push({ device: record.source.device, model: record.source.model.name, text: record.text })
    this.#log.append(record)
  }

  count({ cloudTokens, edgeTokens, confidence, source }: SentenceRecord): void {
    const figures = this.#figures
    figures.cloudTokens += cloudTokens
    figures.edgeTokens += edgeTokens
    if (source.kind === 'device') figures.expandedSentences += 1
    else figures.completedSentences += 1
    if (confidence !== null) this.#confidences.push(confidence)
    if (this.#confidences.length > 0) figures.confidence = mean(this.#confidences)
  }
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length
