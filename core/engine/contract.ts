import type { Manifest, PartManifest, PartName } from '../model/manifest.ts'
import type { States } from '../protocol/states.ts'

/**
 * The keys and values that one part holds for one stream of tokens. `length` is how many positions are valid; rows
 * beyond it are stale and get overwritten, so rolling back costs nothing.
 */
export interface Sequence {
  readonly length: number
  /** So many positions from the start follow one another; behind them a tree may branch. */
  readonly line: number
  /** Positions that the buffers hold now; grows by doubling up to the context limit. */
  readonly capacity: number
  /** Bytes of KV memory held now. */
  readonly bytes: number
  /** Drops everything after the first `length` positions. @throws RangeError when that is more than there is */
  truncate(length: number): void
  /**
   * Keeps the first `keep` positions and then exactly these, in this order: the surviving branch of a tree, which is a line
   * then.
   * @throws RangeError when `keep` is more than `line`, or a row is none behind it
   */
  gather(keep: number, rows: readonly number[]): void
  /** Becomes a copy of the first `length` positions of `from`. @throws RangeError when that is more than its line */
  copyPrefix(from: Sequence, length: number): void
  /**
   * Releases the buffers, and keeps a copy of the rows that holds no more than them. The sequence can be used as before: its
   * next step copies the rows back, bit for bit. @throws BrimError OUT_OF_MEMORY (nothing has changed then)
   */
  evict(): void
  /** Zeroes the buffers and gives them back; the sequence must not be used again. */
  release(): void
}

/**
 * `features`: a second row beside each of `states`, which an adapter with features reads (zeros where unknown). Given if
 * and only if the part's manifest says `features`.
 */
export type StepInput = { readonly ids: readonly number[] } | { readonly states: States; readonly features?: States }

/** New rows for one sequence, appended at its `length`. */
export type StepItem = StepInput & {
  readonly sequence: Sequence
  /**
   * For each new row the position (counted in rows of the sequence) of the row that it follows, -1: none. So rows may
   * branch: each reads its own way alone. Absent: each follows the one before it. A sequence begins with a line.
   */
  readonly parents?: readonly number[] | undefined
  /** Which of the item's own new rows are returned (0 = its first). `input` always returns all. */
  readonly select: readonly number[] | 'all' | 'last' | 'none'
}

/** One loaded part of a bundle. */
export interface Part {
  readonly name: PartName
  readonly manifest: PartManifest
  createSequence(): Sequence
  /**
   * One packed run over up to 16 sequences; every sequence's `length` has grown when it resolves. `input`, `middle`,
   * `adapter`, `adapter-paper` return states. Rows are bit-identical to those of separate runs (fp32, MatMulNBits).
   * @throws RangeError when `features` are missing, not taken, or of another shape than `states`
   * @throws BrimError CONTEXT_OVERFLOW before any work, OUT_OF_MEMORY, RUNTIME_FAILED (lengths unchanged)
   */
  step(items: readonly StepItem[]): Promise<States[]>
}

/** `output`: states → logits, no sequence. */
export interface Head {
  /** @returns logits [rows, vocab] row-major, valid until the next call */
  logits(states: States): Promise<Float32Array>
}

/** `medusa`: guesses of the tokens after the next, from deep states; no sequence. */
export interface MedusaHeads {
  readonly heads: number
  /**
   * Which guesses are verified together: paths of ranks from the root, parents before their children. [0]: head 0's
   * likeliest token; [0, 2]: head 1's third likeliest after it.
   */
  readonly tree: readonly (readonly number[])[]
  /**
   * What head k (from 0) thinks of the token k + 2 places after each row's position; the LLM's own head says the one before.
   * @param deep rows as they cross the wire, before the final normalisation
   * @returns logits [rows, heads, vocab] row-major, valid until the next call
   */
  guess(deep: States): Promise<Float32Array>
}

/**
 * The whole model on this machine: `whole`, or input → middle → output. `cuts` says what happens where the wire would
 * be: 'half' rounds to fp16 as the wire does (the reference), 'full' passes fp32.
 */
export interface Chain {
  readonly manifest: Manifest
  createSequence(): Sequence
  /** @returns logits [selected rows of all items in order, vocab] row-major, valid until the next call */
  step(items: readonly { sequence: Sequence; ids: readonly number[]; select: StepItem['select'] }[]): Promise<Float32Array>
}
