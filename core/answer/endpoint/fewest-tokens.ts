/** Bytes of one word that a single token may cover: vocabularies have few longer ones. */
const maxTokenBytes = 32
/** Blanks, or bytes of one repeated character, that a single token may cover: those of published vocabularies end at 128. */
const maxRunBytes = 256

export interface TextWithin {
  /** At least so many tokens. */
  readonly tokens: number
  /** UTF-16 units of the text that they cover: all of it, unless it holds more than was allowed. */
  readonly length: number
}

/**
 * The least number of tokens that a text can have in any vocabulary, as far as `max` of them: a token covers at most one word with
 * the blanks around it, and no more than so many bytes of it. Rules and indents of one repeated character have long tokens. An honest count is never below it, whichever tokenizer a server has.
 */
export function fewestTokens(text: string, max = Number.POSITIVE_INFINITY): TextWithin {
  let tokens = 0
  let bytes = 0
  let before = 0
  /** Of blanks, or of the character that repeats itself. */
  let run = 0
  for (let at = 0; at < text.length; ) {
    const character = text.codePointAt(at)!
    const own = bytesOf(character)
    const isRepeated = isBlank(character) ? isBlank(before) : character === before
    run = isRepeated ? run + own : own
    if (run > maxRunBytes) {
      if (tokens >= max) return { tokens, length: at }
      tokens += 1
      run = own
    }
    if (isBlank(character)) bytes = 0
    else if (bytes === 0 || character !== before) {
      if (bytes === 0 || bytes + own > maxTokenBytes) {
        if (tokens >= max) return { tokens, length: at }
        tokens += 1
        bytes = 0
      }
      bytes += own
    }
    before = character
    at += character > 0xffff ? 2 : 1
  }
  return { tokens, length: text.length }
}

/** Of ASCII, and the no-break space: others are rare, and only lower the bound. */
const isBlank = (character: number) => character === 0x20 || (character >= 0x09 && character <= 0x0d) || character === 0xa0

/** In UTF-8. */
const bytesOf = (character: number) => (character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x1_0000 ? 3 : 4)
