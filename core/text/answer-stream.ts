import type { Detokenizer } from './detokenizer.ts'
import { StopStrings } from './stop-strings.ts'
import type { TextTokenizer } from './tokenizer.ts'

/** 'stop': an end-of-text token or a stop string; 'length': as many tokens as were asked for. */
export type AnswerEnd = 'stop' | 'length'

export interface AnswerStep {
  /** Whole characters, ready for the reader; often empty. */
  readonly text: string
  /** Set with the last token; tokens after it are no part of the answer. */
  readonly end?: AnswerEnd
}

export interface AnswerLimits {
  readonly maxTokens: number
  /** Ids of the tokens that end an answer; they have no text but count as its last token. */
  readonly eos: readonly number[]
  readonly stop?: readonly string[]
}

/** From chosen tokens to delivered text: the same for the whole model, a device's split session and the bridge. */
export class AnswerStream {
  /** The answer's tokens so far, an end-of-text token included. */
  readonly tokenIds: number[] = []
  #limits: Pick<AnswerLimits, 'maxTokens' | 'eos'>
  #detokenizer: Detokenizer | undefined
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

  /** Takes the next token; once the answer has ended it is an error to push more. */
  push(token: number): AnswerStep {
    if (this.#ended) throw new Error('the answer has ended')
    this.tokenIds.push(token)
    if (this.#limits.eos.includes(token)) return this.#finish('', 'stop')
    const { text, stopped } = this.#stops.push(this.#detokenizer?.push(token) ?? '')
    if (stopped) return this.#finish(text, 'stop')
    return this.tokenIds.length >= this.#limits.maxTokens ? this.#finish(text, 'length') : { text }
  }

  /**
   * Another model goes on. No text is lost or said twice, stop strings hold across the seam, and a character that it does
   * not complete is left out.
   * @param limits `maxTokens` counts all of the answer's tokens
   * @param own where its vocabulary is another: its tokenizer, and the answer so far in its tokens
   */
  handOver(
    limits: Pick<AnswerLimits, 'maxTokens' | 'eos'>,
    own?: { readonly tokenizer: TextTokenizer; readonly tokenIds: readonly number[] },
  ): void {
    this.#limits = limits
    if (own) {
      this.#detokenizer = own.tokenizer.detokenizer()
      // Delivered already: what is cut off at the start of a text must not be cut off in its middle.
      for (const id of own.tokenIds) this.#detokenizer.push(id)
    }
    this.#detokenizer?.seam()
  }

  #finish(text: string, end: AnswerEnd): AnswerStep {
    this.#ended = end
    return { text: text + this.#stops.end(), end }
  }
}
