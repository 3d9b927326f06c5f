import type { AnswerEnd } from '../text/answer-stream.ts'
import type { Detokenizer } from '../text/detokenizer.ts'
import { StopStrings } from '../text/stop-strings.ts'
import type { AnswerDelta } from './endpoint.ts'
import { inTokensOf, sharesTokens, type TextModel, type Tokens } from './text-model.ts'

export interface AnswerPiece {
  /** Whole characters, ready for the client; often empty. */
  readonly text: string
  /** Tokens of the delta that belong to the answer: fewer than it has where a stop string ended the answer. */
  readonly tokens: number
  /** Set with the last piece. */
  readonly end: AnswerEnd | undefined
}

/** The text of one answer, whichever endpoints its tokens come from. Stop strings hold across a change of model. */
export class AnswerText {
  readonly #stops: StopStrings
  #detokenizer: Detokenizer
  /** The answer so far, in the tokens of the model that writes it now. */
  #answered: Tokens

  /**
   * @param start the model that begins, and the tokens before those that come
   * @throws BrimError REQUEST_INVALID for an empty stop string
   */
  constructor(start: Tokens, stop: readonly string[]) {
    this.#stops = new StopStrings(stop)
    this.#answered = start
    this.#detokenizer = detokenizerAfter(start)
  }

  push({ source: { model }, tokens, end }: AnswerDelta): AnswerPiece {
    if (model !== this.#answered.model) this.#changeModel(model)
    this.#answered = { model, ids: [...this.#answered.ids, ...tokens] }
    let text = ''
    for (const [at, id] of tokens.entries()) {
      const isEndOfText = end === 'stop' && at === tokens.length - 1
      const piece = this.#stops.push(isEndOfText ? '' : this.#detokenizer.push(id))
      text += piece.text
      if (piece.stopped) return { text, tokens: at + 1, end: 'stop' }
    }
    return { text: end ? text + this.#stops.end() : text, tokens: tokens.length, end }
  }

  /** No text is lost or repeated; a character that the new model does not complete is left out. */
  #changeModel(model: TextModel): void {
    const sameTokens = sharesTokens(model, this.#answered.model)
    this.#answered = { model, ids: inTokensOf(model, this.#answered) }
    if (!sameTokens) this.#detokenizer = detokenizerAfter(this.#answered)
    this.#detokenizer.seam()
  }
}

/** Its text so far has been delivered. What tokenizers strip from the start of a text must stay in its middle. */
function detokenizerAfter({ model, ids }: Tokens): Detokenizer {
  const detokenizer = model.tokenizer.detokenizer()
  for (const id of ids) detokenizer.push(id)
  return detokenizer
}
