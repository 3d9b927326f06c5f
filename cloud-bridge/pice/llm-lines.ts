import { setMaxListeners } from 'node:events'
import type { SketchLine } from '../../core/answer/sketch/line-form.ts'
import type { SentenceRecord } from './answer-log.ts'
import type { LineTexts } from './line-texts.ts'

/** Lines of one answer that the LLM writes itself, several at once. Mutable. */
export class LlmLines {
  readonly #texts: Pick<LineTexts, 'byLlm'>
  readonly #lines: readonly SketchLine[]
  readonly #lineTokens: number
  readonly #stop = new AbortController()
  readonly #signal: AbortSignal
  readonly #writing = new Map<number, Promise<SentenceRecord>>()

  /** @param lineTokens expected of each text @param signal ends them all */
  constructor(texts: Pick<LineTexts, 'byLlm'>, lines: readonly SketchLine[], lineTokens: number, signal: AbortSignal) {
    this.#texts = texts
    this.#lines = lines
    this.#lineTokens = lineTokens
    this.#signal = AbortSignal.any([signal, this.#stop.signal])
    // Each line listens; beyond ten Node warns of a leak.
    setMaxListeners(0, this.#signal)
  }

  /** Whether some were begun that `next` has not returned. */
  get isWriting(): boolean {
    return this.#writing.size > 0
  }

  /** Unless it was begun before. */
  begin(sentence: number): void {
    if (this.#writing.has(sentence)) return
    const written = this.#texts.byLlm(this.#lines, sentence, this.#lineTokens, this.#signal)
    // `next` throws it.
    written.catch(() => {})
    this.#writing.set(sentence, written)
  }

  /** The text that is complete first. @throws BrimError of the LLM */
  async next(): Promise<SentenceRecord> {
    const written = await Promise.race(this.#writing.values())
    this.#writing.delete(written.sentence)
    return written
  }

  close(): void {
    this.#stop.abort()
  }
}
