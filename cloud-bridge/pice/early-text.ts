import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { isExpanded, parseLine } from '../../core/answer/sketch/line-form.ts'
import type { SentenceRecord } from './answer-log.ts'
import type { Expanded } from './expander.ts'
import type { LineTexts } from './line-texts.ts'
import { Sentences } from './sentences.ts'

export interface EarlyTextOptions {
  readonly texts: Pick<LineTexts, 'asWritten' | 'byDevices'>
  /** Of each line, that the most confident is chosen from. */
  readonly candidates: number
  /** Of the answer. */
  readonly maxTokens: number
  /** That the client has. */
  readonly opening: { readonly text: string; readonly records: readonly SentenceRecord[] }
  /** Tokens that are expected of a line's text. */
  lineTokens(lines: readonly string[]): number
  /** Before the first text of these lines. */
  commit(lines: readonly string[]): void
  write(record: SentenceRecord): void
}

/** The text of a sketch's first lines, sent in their order while the LLM writes the others. Mutable. */
export class EarlyText {
  /** Of the lines that were sent. */
  readonly records: SentenceRecord[]
  readonly #options: EarlyTextOptions
  /** Lines that are part of the answer's log. */
  #committed = 0
  /** Devices have written nothing usable for the next line: it is chosen once all is there. */
  #isOver = false

  constructor(options: EarlyTextOptions) {
    this.#options = options
    this.records = [...options.opening.records]
  }

  /** @param lines complete ones, so far @param arrived from devices, so far */
  *take(lines: readonly string[], arrived: readonly Expanded[]): Generator<TextDelta> {
    const { candidates, maxTokens, opening } = this.#options
    const before = this.records.length
    // Of one line alone it is not known yet whether it is a sketch.
    if (lines.length < 2) return
    while (this.records.length < lines.length && !this.#isOver) if (!this.#takeNext(lines, arrived)) break
    if (this.records.length === before) return
    const sentences = new Sentences(lines, candidates, maxTokens, { text: opening.text, lines: opening.records.length })
    for (const record of this.records) sentences.choose(record)
    yield* [...sentences.ready()].slice(before)
  }

  #takeNext(lines: readonly string[], arrived: readonly Expanded[]): boolean {
    const { texts, candidates, lineTokens, commit, write } = this.#options
    const at = this.records.length
    const line = parseLine(lines[at]!)
    const own = arrived.filter(({ sentence }) => sentence === at)
    if (isExpanded(line) && own.length < candidates) return false
    const record = texts.asWritten(line, at) ?? texts.byDevices(line, lineTokens(lines), own)
    this.#isOver = record === undefined
    if (!record) return false
    if (this.#committed <= at) {
      commit(lines)
      this.#committed = lines.length
    }
    write(record)
    this.records.push(record)
    return true
  }
}
