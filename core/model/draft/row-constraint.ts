import type { TokenConstraint, TokenMask } from '../grammar/grammar.ts'
import type { KnownStream } from './device-stream.ts'

/** The rows of a stream, and their tokens. */
type Rows = Pick<KnownStream, 'ids' | 'rows'>

/** Keeps the tokens after rows of a stream to the grammar of its answer. */
export class RowConstraint {
  readonly #constraint: TokenConstraint
  readonly #promptTokens: number
  readonly #answered: readonly number[]

  /** @param promptTokens before the answer's new tokens @param answered the answer so far, with which the prompt ends */
  constructor(constraint: TokenConstraint, promptTokens: number, answered: readonly number[]) {
    this.#constraint = constraint
    this.#promptTokens = promptTokens
    this.#answered = answered
  }

  /** The tokens that may follow each of these rows; undefined: the grammar does not allow the path to it, or ends with it. */
  after(known: Rows, rows: readonly number[]): Promise<readonly (TokenMask | undefined)[]> {
    return this.#constraint.after(rows.map((row) => this.#beginning(known, row)))
  }

  /** The tokens that may follow each token of a run that follows the row: before the first, before the second, and so on. */
  along(known: Rows, row: number, run: readonly number[]): Promise<readonly (TokenMask | undefined)[]> {
    const beginning = this.#beginning(known, row)
    return this.#constraint.after(run.map((_, at) => [...beginning, ...run.slice(0, at)]))
  }

  /** The tokens that must follow the row. */
  forcedAfter(known: Rows, row: number): Promise<readonly number[]> {
    return this.#constraint.forcedAfter(this.#beginning(known, row))
  }

  /** The answer up to a row. */
  #beginning({ ids, rows }: Rows, row: number): number[] {
    return [...this.#answered, ...newTokensTo({ ids, rows }, row, this.#promptTokens)]
  }
}

/** The tokens on the path to a row, without the prompt's. */
export function newTokensTo({ ids, rows }: Rows, row: number, promptTokens: number): number[] {
  const path = rows.pathTo(row)
  return [...ids.slice(promptTokens, path.line), ...path.rows.map((at) => ids[at]!)]
}
