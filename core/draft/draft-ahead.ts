import type { DeviceStream } from './device-stream.ts'
import { type Draft, type DraftRules, noDraft, takeGuesses } from './draft-tokens.ts'
import type { Drafter } from './drafter.ts'

/** A continuation that stands ready: its first token is the pending one. */
export interface Ready {
  /** Rows of the stream, the pending token's first. */
  readonly rows: readonly number[]
  /** What of it is the next round's draft. */
  readonly draft: Draft
}

interface Branch {
  /** The row that it goes on from. */
  tip: number
  /** What has been drafted behind its first row. */
  draft: Draft
  /** Tokens that are no draft any more once it is used: the first behind the draft itself will be the pending one. */
  readonly pending: number
}

/**
 * Drafts that go on behind a draft whose verification is under way, one for each token that its last one might be (HAT
 * 'Parallel drafting'): branches in the same KV, a step for all of them at once.
 */
export class DraftAhead {
  readonly #stream: DeviceStream
  /** Rows of the stream before the first of these. */
  readonly #start: number
  readonly #branches: Branch[]

  private constructor(stream: DeviceStream, branches: Branch[], start: number) {
    this.#stream = stream
    this.#branches = branches
    this.#start = start
  }

  /**
   * Feeds what the stream's last token, which is drafted, might be too.
   * @param draft that is under way
   */
  static async begin(stream: DeviceStream, { others, ended, tokens }: Draft, eos: readonly number[]): Promise<DraftAhead> {
    const last = stream.rows.length - 1
    const before = stream.rows.parentOf(last)
    if (others.length > 0)
      await stream.feed(
        others,
        others.map(() => before),
      )
    const isOver = (token: number | undefined) => token !== undefined && eos.includes(token)
    const branches = [
      // A draft without a guess has none for what follows it either.
      { tip: last, pending: 1, draft: { ...noDraft, ended: isOver(tokens.at(-1)) || (ended && tokens.length === 0) } },
      ...others.map((token, at) => ({ tip: last + 1 + at, pending: 0, draft: { ...noDraft, ended: isOver(token) } })),
    ]
    return new DraftAhead(stream, branches, last + 1)
  }

  /** Rows that one more step may add: a run of tokens ends where its branch is as long as a draft may be. */
  mostRows({ limit }: DraftRules): number {
    const going = this.#branches.filter(({ draft }) => !draft.ended)
    return going.reduce((rows, { draft, pending }) => rows + limit + pending - draft.tokens.length, 0)
  }

  /**
   * One more token, or run of tokens, for every branch that goes on.
   * @param isOver asked before the rows are fed: what is not needed any more is not computed
   * @returns tokens that were drafted; 0: nothing more is to come
   */
  async step(drafter: Drafter, rules: DraftRules, isOver: () => boolean): Promise<number> {
    const going = this.#branches.filter(({ draft }) => !draft.ended)
    if (going.length === 0) return 0
    const guesses = await drafter.next(
      this.#stream,
      going.map(({ tip }) => tip),
    )
    if (isOver()) return 0
    const tokens: number[] = []
    const parents: number[] = []
    const { length } = this.#stream.rows
    going.forEach((branch, at) => {
      const limit = rules.limit + branch.pending
      const more = takeGuesses(guesses[at] ?? [], branch.draft.tokens.length, { ...rules, limit })
      for (const token of more.tokens) {
        parents.push(branch.tip)
        branch.tip = length + tokens.length
        tokens.push(token)
      }
      const { others } = more.tokens.length > 0 ? more : branch.draft
      branch.draft = { tokens: [...branch.draft.tokens, ...more.tokens], others, ended: more.ended }
    })
    if (tokens.length > 0) await this.#stream.feed(tokens, parents)
    return tokens.length
  }

  /**
   * What goes on where verification has ended. The tree itself is the key of DESIGN 'Three KVs, one truth': what follows
   * this row has seen exactly the accepted tokens.
   * @param row of the last accepted token
   * @param token that follows it, the correction or the bonus
   */
  find(row: number, token: number): Ready | undefined {
    const { ids, rows: tree } = this.#stream
    const behind = Array.from({ length: tree.length - this.#start }, (_, at) => this.#start + at)
    const first = behind.find((at) => tree.parentOf(at) === row && ids[at] === token)
    if (first === undefined) return undefined
    // Behind its first row a branch does not branch again.
    const rows = [first]
    for (const at of behind) if (tree.parentOf(at) === rows.at(-1)) rows.push(at)
    const branch = this.#branches.find(({ tip }) => tip === rows.at(-1))
    if (!branch) throw new Error('a branch that does not end at its tip')
    const { tokens, others, ended } = branch.draft
    const left = tokens.slice(branch.pending)
    // A draft that ended with the token that is pending now has not begun.
    const draft = left.length > 0 ? { tokens: left, others, ended } : { ...noDraft, ended: ended && branch.pending === 0 }
    return { rows, draft }
  }
}
