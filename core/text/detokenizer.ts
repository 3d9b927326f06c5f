/** Bytes of a token id (none for ids that have no text), and what is stripped at the start of a text. */
export interface TokenTexts {
  bytesOf(id: number): Uint8Array
  readonly strip: { readonly content: string; readonly count: number }
}

/** What the decoder makes of bytes that cannot be UTF-8. */
const replacement = '\ufffd'

/**
 * Text as tokens arrive, each token at a cost of its own bytes. Only whole characters come out: the bytes of a
 * character that is not complete yet wait inside, and if the answer ends there they are never delivered.
 * Bytes that cannot be UTF-8 become U+FFFD. (The Rust tokenizers replace a whole run of byte-fallback tokens when any
 * of it is invalid; text that was delivered cannot be taken back, so here only the invalid bytes are replaced.)
 */
export class Detokenizer {
  readonly #texts: TokenTexts
  // A byte-order mark in the middle of a vocabulary is text like any other.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #toStrip: number
  #atSeam = false

  constructor(texts: TokenTexts) {
    this.#texts = texts
    this.#toStrip = texts.strip.count
  }

  push(id: number): string {
    return this.#stripStart(this.#mend(this.#decoder.decode(this.#texts.bytesOf(id), { stream: true })))
  }

  /** Another model goes on from here: a character that it does not complete is left out, for it owes nothing to it. */
  seam(): void {
    this.#atSeam = true
  }

  /** What incomplete bytes are left, as U+FFFD: for decoding a whole text at once. */
  flush(): string {
    return this.#stripStart(this.#decoder.decode())
  }

  /** A character broken at the seam is the first that comes out after it. */
  #mend(text: string): string {
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
