import { type DraftChain, emptyChain, extended, type Guess } from './draft-chain.ts'
import type { DraftRule } from './draft-rounds.ts'

/** A continuation drafted ahead. */
export interface PreparedDraft {
  /** Rows of the stream, starting with the pending token's row. */
  readonly rows: readonly number[]
  /** The draft of the next round, as far as it was drafted ahead. */
  readonly chain: DraftChain
}

/** Another likely token in place of the one at a row. */
export interface Alternative {
  readonly row: number
  /** Its place among the alternatives to that token, from 0. */
  readonly rank: number
}

export interface BranchStep {
  /** How many of the guesses after each row are taken. */
  readonly taken: readonly number[]
  /** Of the new rows. */
  readonly parents: readonly number[]
}

interface Branch {
  /** The last row; the next token follows it. */
  tip: number
  /** Drafted after the branch's first row. */
  chain: DraftChain
  /** 1 if the first drafted token becomes the pending one when the branch is used, else 0. */
  readonly pending: number
}

/**
 * Continues a draft during its verification, with one branch for the draft's last token and one for each alternative to it
 * (HAT 'Parallel drafting'). The branches share one KV, and each step extends all of them. Mutable.
 */
export class DraftBranches {
  /** Tokens that branches begin with: their rows follow the draft's. */
  readonly alternatives: readonly Alternative[]
  /** Number of rows before the first row of the branches. */
  readonly #start: number
  /** Of the rows from there on. */
  readonly #parents: number[]
  readonly #branches: readonly Branch[]
  readonly #maxSteps: number
  #steps = 0
  #asked: readonly Branch[] = []

  /**
   * @param draft the draft under verification
   * @param position row of the token before it
   * @param maxSteps for which there is time
   */
  constructor({ guesses, ended }: DraftChain, position: number, maxSteps: number) {
    this.#maxSteps = maxSteps
    const first = position + 1
    const alternatives: Alternative[] = []
    this.#start = first + guesses.length
    // A drafter without a guess for this token has none for the next ones either.
    const isOver = guesses.at(-1)?.endsText ?? ended
    const branches: Branch[] = [{ tip: this.#start - 1, chain: { ...emptyChain, ended: isOver }, pending: 1 }]
    guesses.at(-1)?.alternatives.forEach((endsText, rank) => {
      branches.push({ tip: this.#start + rank, chain: { ...emptyChain, ended: endsText }, pending: 0 })
      alternatives.push({ row: this.#start - 1, rank })
    })
    this.alternatives = alternatives
    this.#branches = branches
    this.#parents = alternatives.map(({ row }) => row - 1)
  }

  /** Rows of the stream, those of the branches included. */
  get rows(): number {
    return this.#start + this.#parents.length
  }

  /** Steps that have continued branches. */
  get steps(): number {
    return this.#steps
  }

  /** Positions before the rows that the next step continues, or that the last one has added. */
  get context(): number {
    return this.#start - 1 + this.#steps
  }

  /** Of the alternatives' rows. */
  get parents(): readonly number[] {
    return this.#parents.slice(0, this.alternatives.length)
  }

  /**
   * The rows that the next step continues; none: every branch has ended, or time or context are used up.
   * @param limit maximum tokens of a draft, by which all branches may still grow
   * @param contextLimit maximum rows of the stream
   */
  ask(limit: number, contextLimit: number): readonly number[] {
    this.#asked = this.#branches.filter(({ chain }) => !chain.ended)
    let rows = this.rows
    for (const { chain, pending } of this.#asked) rows += limit + pending - chain.guesses.length
    if (this.#steps === this.#maxSteps || rows > contextLimit) return []
    return this.#asked.map(({ tip }) => tip)
  }

  /** Extends the branches that were asked for by one token, or by several if the drafter proposes them at once. */
  take(guesses: readonly (readonly Guess[])[], rule: DraftRule): BranchStep {
    const before = this.#parents.length
    const taken = this.#asked.map((branch, at) => {
      const { chain, pending } = branch
      const longer = extended(chain, guesses[at] ?? [], { ...rule, limit: rule.limit + pending })
      const count = longer.guesses.length - chain.guesses.length
      for (let token = 0; token < count; token++) {
        const { rows } = this
        this.#parents.push(branch.tip)
        branch.tip = rows
      }
      branch.chain = longer
      return count
    })
    if (this.#parents.length > before) this.#steps += 1
    return { taken, parents: this.#parents.slice(before) }
  }

  /**
   * The branch that continues the verified answer.
   * @param first a row of the branches with the pending token. It follows the last accepted row, and has read exactly the
   *   accepted tokens, so that parents identify the branch
   */
  preparedAfter(first: number): PreparedDraft {
    // A branch is a chain after its first row.
    const rows = [first]
    for (let row = first + 1; row < this.rows; row++) if (this.#parents[row - this.#start] === rows.at(-1)) rows.push(row)
    const branch = this.#branches.find(({ tip }) => tip === rows.at(-1))
    if (!branch) throw new Error('a branch does not end at its tip')
    const { chain, pending } = branch
    const guesses = chain.guesses.slice(pending)
    // A draft that ended with the token that is now pending has no tokens yet.
    return { rows, chain: { guesses, ended: chain.ended && (guesses.length > 0 || pending === 0) } }
  }
}
