import type { AnswerEnd } from '../../model/text/answer-stream.ts'
import type { Detokenizer } from '../../model/text/detokenizer.ts'
import { StopStrings } from '../../model/text/stop-strings.ts'
import type { AnswerDelta, TextDelta, TokenDelta } from './endpoint.ts'
import { type Answered, inTokensOf, sharesTokens, type TextModel, type Tokens, textOf } from './text-model.ts'

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
  /** The answer so far, in the tokens of the model that writes it now, or as the text of another server. */
  #answered: Answered
  #detokenizer: Detokenizer | undefined

  /**
   * @param start what comes before the first delta, which has been delivered
   * @throws BrimError REQUEST_INVALID for an empty stop string
   */
  constructor(start: Answered, stop: readonly string[]) {
    this.#stops = new StopStrings(stop)
    this.#answered = start
    this.#detokenizer = 'ids' in start ? detokenizerAfter(start) : undefined
  }

  push(delta: AnswerDelta): AnswerPiece {
    return 'text' in delta ? this.#pushText(delta) : this.#pushTokens(delta)
  }

  #pushText({ text, tokenCount, end }: TextDelta): AnswerPiece {
    this.#answered = { text: textOf(this.#answered) + text }
    this.#detokenizer = undefined
    const piece = this.#stops.push(text)
    if (piece.stopped) return { text: piece.text, tokens: tokenCount, end: 'stop' }
    return { text: end ? piece.text + this.#stops.end() : piece.text, tokens: tokenCount, end }
  }

  #pushTokens({ source: { model }, tokens, end }: TokenDelta): AnswerPiece {
    const detokenizer = this.#detokenizerOf(model, tokens)
    let text = ''
    for (const [at, id] of tokens.entries()) {
      const isEndOfText = end === 'stop' && at === tokens.length - 1
      const piece = this.#stops.push(isEndOfText ? '' : detokenizer.push(id))
      text += piece.text
      if (piece.stopped) return { text, tokens: at + 1, end: 'stop' }
    }
    return { text: end ? text + this.#stops.end() : text, tokens: tokens.length, end }
  }

  /**
   * After a change of model no text is lost or repeated; a character that the new model does not complete is left out.
   * @param tokens those that come now
   */
  #detokenizerOf(model: TextModel, tokens: readonly number[]): Detokenizer {
    const before = this.#answered
    const isSame = 'ids' in before && model === before.model
    const ids = isSame ? before.ids : inTokensOf(model, before)
    let detokenizer = 'ids' in before && sharesTokens(model, before.model) ? this.#detokenizer : undefined
    detokenizer ??= detokenizerAfter({ model, ids })
    if (!isSame && ids.length > 0) detokenizer.seam()
    this.#answered = { model, ids: [...ids, ...tokens] }
    this.#detokenizer = detokenizer
    return detokenizer
  }
}

/** Its text so far has been delivered. What tokenizers strip from the start of a text must stay in its middle. */
function detokenizerAfter({ model, ids }: Tokens): Detokenizer {
  const detokenizer = model.tokenizer.detokenizer()
  for (const id of ids) detokenizer.push(id)
  return detokenizer
}
