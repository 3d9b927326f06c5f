import type { Branching } from '../policy/hat/draft-ahead-steps.ts'
import type { DeviceStream } from './device-stream.ts'
import { type Draft, type DraftRules, noDraft, withGuesses } from './draft-tokens.ts'
import type { Drafter } from './drafter.ts'

/** A continuation drafted ahead. Its first token is the pending one. */
export interface PreparedDraft {
  /** Rows of the stream, starting with the pending token's row. */
  readonly rows: readonly number[]
  /** The draft of the next round, as far as it was drafted ahead. */
  readonly draft: Draft
}

/** Tokens that branches begin with, and the place in the draft of the token that each stands for. */
export function alternativesOf({ alternatives }: Draft, branching: Branching): { readonly token: number; readonly at: number }[] {
  const all = alternatives.flatMap((tokens, at) => tokens.map((token) => ({ token, at })))
  return branching === 'each' ? all : all.filter(({ at }) => at === alternatives.length - 1)
}

interface Branch {
  /** The last row; the next token follows it. */
  tip: number
  /** Tokens drafted after the branch's first row. */
  draft: Draft
  /** 1 if the first drafted token becomes the pending one when the branch is used, else 0. */
  readonly pending: number
}

/**
 * Continues a draft during its verification, with one branch for the draft's last token and one for each alternative to it, or
 * to any of its tokens (HAT 'Parallel drafting'). The branches share one KV, and each step extends all of them.
 */
export class DraftAhead {
  readonly #stream: DeviceStream
  /** Number of rows before the first row of the branches. */
  readonly #start: number
  readonly #branches: Branch[]

  private constructor(stream: DeviceStream, branches: Branch[], start: number) {
    this.#stream = stream
    this.#branches = branches
    this.#start = start
  }

  /**
   * Feeds the alternatives of drafted tokens, whose rows are the stream's last ones.
   * @param draft the draft under verification
   */
  static async begin(
    stream: DeviceStream,
    draft: Draft,
    eos: readonly number[],
    branching: Branching = 'last',
  ): Promise<DraftAhead> {
    const { ended, tokens } = draft
    const last = stream.rows.length - 1
    const others = alternativesOf(draft, branching)
    const alternatives = others.map(({ token }) => token)
    if (others.length > 0) {
      const first = stream.rows.length - tokens.length
      await stream.feed(
        alternatives,
        others.map(({ at }) => stream.rows.parentOf(first + at)),
      )
    }
    const endsText = (token: number | undefined) => token !== undefined && eos.includes(token)
    const branches = [
      // A drafter without a guess for this token has none for the next ones either.
      { tip: last, pending: 1, draft: { ...noDraft, ended: endsText(tokens.at(-1)) || (ended && tokens.length === 0) } },
      ...alternatives.map((token, at) => ({ tip: last + 1 + at, pending: 0, draft: { ...noDraft, ended: endsText(token) } })),
    ]
    return new DraftAhead(stream, branches, last + 1)
  }

  /** Maximum number of rows that further steps can add: no branch exceeds the length limit of a draft. */
  maxRows({ limit }: DraftRules): number {
    const active = this.#branches.filter(({ draft }) => !draft.ended)
    return active.reduce((rows, { draft, pending }) => rows + limit + pending - draft.tokens.length, 0)
  }

  /**
   * Extends every active branch by one token, or by several if the drafter proposes them at once.
   * @param isVerified whether the verification has ended; checked before the rows are computed
   * @returns tokens drafted; 0 when no branch can be extended
   */
  async step(drafter: Drafter, rules: DraftRules, isVerified: () => boolean): Promise<number> {
    const active = this.#branches.filter(({ draft }) => !draft.ended)
    if (active.length === 0) return 0
    const guesses = await drafter.next(
      this.#stream,
      active.map(({ tip }) => tip),
    )
    if (isVerified()) return 0
    const tokens: number[] = []
    const parents: number[] = []
    const { length } = this.#stream.rows
    active.forEach((branch, at) => {
      const limit = rules.limit + branch.pending
      const longer = withGuesses(branch.draft, guesses[at] ?? [], { ...rules, limit })
      for (const token of longer.tokens.slice(branch.draft.tokens.length)) {
        parents.push(branch.tip)
        branch.tip = length + tokens.length
        tokens.push(token)
      }
      branch.draft = longer
    })
    if (tokens.length > 0) await this.#stream.feed(tokens, parents)
    return tokens.length
  }

  /**
   * The branch that continues the verified answer. Rows that follow the last accepted row have read exactly the accepted
   * tokens, so the parents identify the branch (DESIGN 'Three KVs, one truth').
   * @param row of the last accepted token
   * @param token that follows it: the correction or the bonus token
   */
  preparedAfter(row: number, token: number): PreparedDraft | undefined {
    const { ids, rows: tree } = this.#stream
    const drafted = Array.from({ length: tree.length - this.#start }, (_, at) => this.#start + at)
    const first = drafted.find((at) => tree.parentOf(at) === row && ids[at] === token)
    if (first === undefined) return undefined
    // A branch is a chain after its first row.
    const rows = [first]
    for (const at of drafted) if (tree.parentOf(at) === rows.at(-1)) rows.push(at)
    const branch = this.#branches.find(({ tip }) => tip === rows.at(-1))
    if (!branch) throw new Error('a branch does not end at its tip')
    const { tokens, probabilities, alternatives, ended } = branch.draft
    const left = {
      tokens: tokens.slice(branch.pending),
      probabilities: probabilities.slice(branch.pending),
      alternatives: alternatives.slice(branch.pending),
    }
    if (left.tokens.length > 0) return { rows, draft: { ...left, ended } }
    // The draft ended with the token that is now pending, so the next draft has no tokens yet.
    return { rows, draft: { ...noDraft, ended: ended && branch.pending === 0 } }
  }
}
