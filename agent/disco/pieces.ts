import type { AnswerDelta, TokenDelta } from '../../core/answer/endpoint/endpoint.ts'
import { type Answered, inTokensOf, type TextModel, textOf } from '../../core/answer/endpoint/text-model.ts'
import type { Piece } from '../../core/policy/disco/controller-plan.ts'

/** A piece of an answer with its content. */
export interface DeltaPiece extends Piece {
  readonly delta: AnswerDelta
}

/**
 * What the reader gets at once: where it is paced, token by token. Nothing for a delta without content.
 * @param isPaced whether the reader has a rate
 */
export function piecesOf(delta: AnswerDelta, isPaced: boolean): DeltaPiece[] {
  const isLast = delta.end !== undefined
  if ('text' in delta) {
    if (delta.text === '' && delta.tokenCount === 0 && !isLast) return []
    // Not every server counts.
    const tokens = delta.text === '' ? delta.tokenCount : Math.max(1, delta.tokenCount)
    return [{ delta, tokens, isLast, border: borderOf(delta.text) }]
  }
  const { tokens, source } = delta
  if (tokens.length === 0 && !isLast) return []
  const { tokenizer } = source.model
  const parts = isPaced && tokens.length > 1 ? tokens.map((_, at) => tokenAt(delta, at)) : [delta]
  return parts.map((part) => {
    const [first] = part.tokens
    const border = first === undefined ? 'none' : bytesBorder(tokenizer.bytesOf(first))
    return { delta: part, tokens: part.tokens.length, isLast: part.end !== undefined, border }
  })
}

function tokenAt({ tokens, logprobs, end, ...rest }: TokenDelta, at: number): TokenDelta {
  const isLast = at === tokens.length - 1
  return {
    ...rest,
    tokens: tokens.slice(at, at + 1),
    ...(logprobs && { logprobs: logprobs.slice(at, at + 1) }),
    end: isLast ? end : undefined,
  }
}

const borderOf = (text: string): Piece['border'] => (/^\s/.test(text) ? 'word' : 'character')

/** Space, tab, line feed, carriage return. */
const blanks: ReadonlySet<number | undefined> = new Set([0x20, 0x09, 0x0a, 0x0d])

/** In UTF-8, the bytes within a character are 10xxxxxx. */
function bytesBorder([first]: Uint8Array): Piece['border'] {
  if (first === undefined) return 'none'
  if (blanks.has(first)) return 'word'
  return (first & 0xc0) === 0x80 ? 'none' : 'character'
}

/** The answer so far. @param start what came before the first piece */
export function answeredAfter(start: Answered, pieces: readonly DeltaPiece[]): Answered {
  let answered = start
  let model: TextModel | undefined
  let ids: number[] = []
  for (const { delta } of pieces) {
    if ('text' in delta) {
      if (model) answered = { model, ids }
      model = undefined
      answered = { text: textOf(answered) + delta.text }
    } else {
      if (model !== delta.source.model) {
        if (model) answered = { model, ids }
        model = delta.source.model
        ids = [...inTokensOf(model, answered)]
      }
      ids.push(...delta.tokens)
    }
  }
  return model ? { model, ids } : answered
}
