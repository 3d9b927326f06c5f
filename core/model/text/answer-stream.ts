import type { Detokenizer } from './detokenizer.ts'
import { StopStrings } from './stop-strings.ts'
import type { TextTokenizer } from './tokenizer.ts'

/** 'stop': an end-of-text token or a stop string; 'length': the token limit. */
export type AnswerEnd = 'stop' | 'length'

interface AnswerStep {
  /** New text in whole characters; often empty. */
  readonly text: string
  /** Set with the last token of the answer. */
  readonly end?: AnswerEnd
}

interface AnswerLimits {
  readonly maxTokens: number
  /** Ids of end-of-text tokens, which have no text but count as the last token of the answer. */
  readonly eos: readonly number[]
  readonly stop?: readonly string[]
}

/** Turns chosen tokens into the text of an answer and ends it at its limits. */
export class AnswerStream {
  /** The answer's tokens so far, including an end-of-text token. */
  readonly tokenIds: number[] = []
  readonly #limits: AnswerLimits
  readonly #detokenizer: Detokenizer | undefined
  readonly #stops: StopStrings
  #ended: AnswerEnd | undefined

  /**
   * @param tokenizer absent: token ids only, no text
   * @throws BrimError REQUEST_INVALID for an empty stop string
   */
  constructor(tokenizer: TextTokenizer | undefined, limits: AnswerLimits) {
    this.#limits = limits
    this.#detokenizer = tokenizer?.detokenizer()
    this.#stops = new StopStrings(limits.stop ?? [])
  }

  get end(): AnswerEnd | undefined {
    return this.#ended
  }

  /** Adds the next token. @throws Error after the end of the answer */
  push(token: number): AnswerStep {
    if (this.#ended) throw new Error('the answer has ended')
    this.tokenIds.push(token)
    if (this.#limits.eos.includes(token)) return this.#finish('', 'stop')
    const { text, stopped } = this.#stops.push(this.#detokenizer?.push(token) ?? '')
    if (stopped) return this.#finish(text, 'stop')
    return this.tokenIds.length >= this.#limits.maxTokens ? this.#finish(text, 'length') : { text }
  }

  #finish(text: string, end: AnswerEnd): AnswerStep {
    this.#ended = end
    return { text: text + this.#stops.end(), end }
  }
}
