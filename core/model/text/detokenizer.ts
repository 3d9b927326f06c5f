/** The bytes of each token id (none for ids without text), and the prefix that is stripped at the start of a text. */
interface TokenTexts {
  bytesOf(id: number): Uint8Array
  readonly strip: { readonly content: string; readonly count: number }
}

/** The decoder's replacement for invalid UTF-8. */
const replacement = '\ufffd'

/**
 * Converts tokens to text one at a time. It returns only whole characters: the bytes of an incomplete character are held
 * until it is complete, and dropped if the answer ends first. Invalid UTF-8 becomes U+FFFD. (The Rust tokenizers replace a
 * whole run of byte-fallback tokens if any of it is invalid. Returned text cannot be changed, so here only the invalid
 * bytes are replaced.)
 */
export class Detokenizer {
  readonly #texts: TokenTexts
  // A byte-order mark in a token is text.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #toStrip: number
  #atSeam = false

  constructor(texts: TokenTexts) {
    this.#texts = texts
    this.#toStrip = texts.strip.count
  }

  push(id: number): string {
    return this.#stripStart(this.#withoutSplitCharacter(this.#decoder.decode(this.#texts.bytesOf(id), { stream: true })))
  }

  /** Marks a change of model: an incomplete character that the next token does not complete is dropped. */
  seam(): void {
    this.#atSeam = true
  }

  /** Returns incomplete bytes as U+FFFD, at the end of a whole text. */
  flush(): string {
    return this.#stripStart(this.#decoder.decode())
  }

  /** Drops the replacement of a character that was incomplete at the seam: it is the first one of the text. */
  #withoutSplitCharacter(text: string): string {
    if (!this.#atSeam || text === '') return text
    this.#atSeam = false
    return text.startsWith(replacement) ? text.slice(replacement.length) : text
  }

  #stripStart(text: string): string {
    const { content } = this.#texts.strip
    let rest = text
    while (this.#toStrip > 0 && rest !== '') {
      this.#toStrip = rest.startsWith(content) ? this.#toStrip - 1 : 0
      if (rest.startsWith(content)) rest = rest.slice(content.length)
    }
    return rest
  }
}
