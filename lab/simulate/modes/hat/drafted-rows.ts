import type { Random } from '../../../../core/kit/base/random.ts'
import type { AcceptedPath, FedTokens } from '../../../../core/policy/hat/hat-steps.ts'
import type { ChanceToken } from './draft-process.ts'

/** A row of the device's stream after the prompt. */
interface Row {
  readonly parent: number
  readonly token: ChanceToken | 'alternative' | undefined
}

/** The rows of an answer with chance in place of tokens: which of them are the LLM's own. Mutable. */
export class DraftedRows {
  readonly #promptTokens: number
  readonly #rows: Row[] = []
  /** After each row that was asked for. */
  #guessed: readonly ChanceToken[] = []

  constructor(promptTokens: number) {
    this.#promptTokens = promptTokens
  }

  /** One token after each row that was asked for. */
  guess(guessed: readonly ChanceToken[]): void {
    this.#guessed = guessed
  }

  feed(tokens: FedTokens, rows: number, parents: readonly number[] | undefined): void {
    if (tokens.of === 'prompt') return
    const taken = tokens.of === 'guesses' ? this.#guessed.filter((_, at) => tokens.taken[at]! > 0) : []
    for (let at = 0; at < rows; at += 1) {
      const parent = parents?.[at] ?? this.#length - 1
      this.#rows.push({ parent, token: tokens.of === 'alternatives' ? 'alternative' : taken[at] })
    }
  }

  gather(keep: number, rows: readonly number[]): void {
    const kept = rows.map((row) => this.#rows[row - this.#promptTokens]!.token)
    this.#rows.length = keep - this.#promptTokens
    for (const token of kept) this.#rows.push({ parent: this.#length - 1, token })
  }

  /**
   * @param position row of the pending token; the draft has the rows after it
   * @param alternativeShare how often an alternative is the correction of a rejected token
   */
  accept(position: number, drafted: number, alternativeShare: number, random: Random): AcceptedPath {
    let right = 0
    while (right < drafted && isRight(this.#at(position + 1 + right).token)) right += 1
    const path = Array.from({ length: right }, (_, node) => node)
    const continuedBy = this.#continuation(position + 1 + drafted, position + right, alternativeShare, random)
    return { path, tokens: 1 + right, endsText: false, continuedBy }
  }

  /** The first row from `from` on that follows `last`, if the LLM has chosen its token. */
  #continuation(from: number, last: number, alternativeShare: number, random: Random): number | undefined {
    for (let row = from; row < this.#length; row += 1) {
      const { parent, token } = this.#at(row)
      if (parent !== last) continue
      return (token === 'alternative' ? random.next() < alternativeShare : isRight(token)) ? row : undefined
    }
    return undefined
  }

  #at(row: number): Row {
    return this.#rows[row - this.#promptTokens]!
  }

  get #length(): number {
    return this.#promptTokens + this.#rows.length
  }
}

const isRight = (token: Row['token']) => typeof token === 'object' && token.isRight
