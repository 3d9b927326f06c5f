import type { TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import { fewestTokens } from '../../core/answer/endpoint/fewest-tokens.ts'
import { FormJoin, parseLine, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import { afterOpening } from '../../core/answer/sketch/opening.ts'
import { SketchedSentences } from '../../core/policy/pice/sketched-sentences.ts'
import type { SentenceRecord, SentenceSource } from './answer-log.ts'

/** The texts of the sentences of one answer, which are chosen in any order and sent in that of their sketch. */
export class Sentences {
  readonly order: SketchedSentences
  readonly lines: readonly SketchLine[]
  readonly #written: readonly string[]
  readonly #join = new FormJoin()
  readonly #records = new Map<number, SentenceRecord>()
  #lastSource: SentenceSource | undefined
  /** Until text has followed it. */
  #opening: { readonly text: string; readonly lines: number } | undefined

  /**
   * @param lines as the LLM wrote them. @param candidates of each sentence that devices write. @param maxTokens of the answer
   * @param opening that the client has, and how many of the lines that is
   */
  constructor(
    lines: readonly string[],
    candidates: number,
    maxTokens: number,
    opening?: { readonly text: string; readonly lines: number },
  ) {
    this.order = new SketchedSentences(lines.length, candidates, maxTokens)
    this.lines = lines.map(parseLine)
    this.#opening = opening
    this.#written = lines.map((line) => line.replace(/^\n/, ''))
  }

  /** Of the last one that was sent. */
  get lastSource(): SentenceSource | undefined {
    return this.#lastSource
  }

  choose(record: SentenceRecord): void {
    this.#records.set(record.sentence, record)
    this.order.choose(record.sentence, tokensOf(record))
  }

  /** A model that cannot write single lines writes one sentence for several: then it has no text. Titled lines may say the same. */
  withoutRepeat(record: SentenceRecord): SentenceRecord {
    const isSame = ({ sentence, text }: SentenceRecord) => sentence !== record.sentence && text === record.text
    const isRepeat = this.lines[record.sentence]!.lead === '' && [...this.#records.values()].some(isSame)
    return isRepeat ? { ...record, text: '', tokens: 0 } : record
  }

  /** Those that follow what was sent without a gap. */
  *ready(): Generator<TextDelta> {
    for (const sentence of this.order.takeReady()) {
      const record = this.#records.get(sentence)!
      const { text, source } = record
      this.#lastSource = source
      const sketch = this.#written.slice(sentence + 1)
      // An empty sentence takes its line away, too.
      const joined = this.#join.push(this.lines[sentence]!, text)
      const opening = sentence < (this.#opening?.lines ?? 0) || joined === '' ? undefined : this.#opening
      if (opening) this.#opening = undefined
      const own = opening ? afterOpening(opening.text, joined) : joined
      yield { source, text: own, tokenCount: tokensOf(record), end: undefined, sketch }
    }
  }
}

/** The count is the device's claim: a token has a byte of text, and no more than a word. */
const tokensOf = ({ text, tokens }: SentenceRecord) =>
  Math.max(fewestTokens(text).tokens, Math.min(tokens, Buffer.byteLength(text)))
