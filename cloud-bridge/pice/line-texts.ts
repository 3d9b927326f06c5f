import { isExpanded, type SketchLine } from '../../core/answer/sketch/line-form.ts'
import type { SentenceRecord } from './answer-log.ts'
import { chooseCandidate } from './choose-candidate.ts'
import type { Expanded, Expander } from './expander.ts'
import type { Asked, Llm } from './llm.ts'
import { writeSentence } from './write-sentence.ts'

/** The texts of an answer's lines: by devices, by the LLM, or as they stand in the sketch. */
export class LineTexts {
  readonly #llm: Llm
  readonly #expander: Pick<Expander, 'judge'>
  readonly #asked: Asked

  constructor(llm: Llm, expander: Pick<Expander, 'judge'>, asked: Asked) {
    this.#llm = llm
    this.#expander = expander
    this.#asked = asked
  }

  /** The most confident candidate; undefined: none says anything of the line. @param lineTokens expected of its text */
  byDevices(line: SketchLine, lineTokens: number, arrived: readonly Expanded[]): SentenceRecord | undefined {
    const chosen = chooseCandidate(line, arrived, lineTokens, (from, confidence) =>
      this.#expander.judge(from.device, from.model, confidence),
    )
    if (!chosen) return undefined
    const { sentence, text, tokens, model, device, confidence } = chosen
    return {
      kind: 'sentence',
      sentence,
      text,
      tokens: this.#tokensOf(line, text, tokens),
      source: { kind: 'device', model: { name: model }, device },
      cloudTokens: 0,
      edgeTokens: arrived.reduce((sum, each) => sum + each.tokens, 0),
      confidence,
    }
  }

  /** A line that is part of the answer as the LLM wrote it; undefined: it is to be expanded. */
  asWritten(line: SketchLine, at: number): SentenceRecord | undefined {
    const { text } = line
    return isExpanded(line) ? undefined : this.#byLlm(at, text, this.#tokensOf(line, text, Buffer.byteLength(text)), 0)
  }

  /** A line of the answer's opening. @param tokens of it that count for this line */
  opening({ text }: SketchLine, at: number, tokens: number): SentenceRecord {
    return this.#byLlm(at, text, tokens, 0)
  }

  /** @param tokens expected of its text @throws BrimError of the LLM */
  async byLlm(lines: readonly SketchLine[], at: number, tokens: number, signal: AbortSignal): Promise<SentenceRecord> {
    const written = await writeSentence(this.#llm, this.#asked, { lines, at, tokens }, signal)
    return this.#byLlm(at, written.text, this.#tokensOf(lines[at]!, written.text, written.tokens), written.tokens)
  }

  #byLlm(sentence: number, text: string, tokens: number, cloudTokens: number): SentenceRecord {
    const { kind, model } = this.#llm
    return { kind: 'sentence', sentence, text, tokens, source: { kind, model }, cloudTokens, edgeTokens: 0, confidence: null }
  }

  /** Of a line in the answer, with its marks. @param tokens as its writer counted those of the text, which are no more than its bytes */
  #tokensOf(line: SketchLine, text: string, tokens: number): number {
    return this.#llm.countTokens(line.mark + line.lead + text) ?? Math.min(tokens, Buffer.byteLength(text))
  }
}
