import type { States } from '../../wire/protocol/states.ts'
import type { Manifest, PartManifest, PartName } from '../bundle/manifest.ts'

/**
 * The keys and values (KV) of one part for one stream. The first `length` positions are valid. Rows beyond them are stale
 * and will be overwritten, so a rollback costs nothing.
 */
export interface Sequence {
  readonly length: number
  /** Number of leading positions at which each row follows the one before it; after them a tree may branch. */
  readonly line: number
  /** Positions that the buffers can hold. It grows by blocks when needed, up to the context limit; 0 without buffers. */
  readonly capacity: number
  /** Bytes of the buffers. */
  readonly bytes: number
  /** Memory of one position, in fp32 values: where KV is fp16, each holds two. */
  readonly rowValues: number
  /** Memory that the sequence may take however short it is, beside its positions: states of recurrent layers. */
  readonly fixedBytes: number
  /** Drops all positions after the first `length`. @throws RangeError if there are fewer */
  truncate(length: number): void
  /**
   * Keeps the first `keep` positions, followed by `rows` in this order: the accepted branch of a tree, which becomes linear.
   * Of an evicted sequence they have to be written back from `keep` on.
   * @throws RangeError if `keep` exceeds `line`, or a row is not a position after `keep`
   */
  gather(keep: number, rows: readonly number[]): void
  /** Becomes a copy of the first `length` positions of `from`. @throws RangeError unless it holds them, in a line */
  copyPrefix(from: Sequence, length: number): void
  /** Leading positions whose KV is in the buffers: `length`, but after `evict`. A step needs all of them. */
  readonly held: number
  /**
   * Copies the KV of positions [from, to) to `into`, in an order that only `writeRows` of the same number of rows knows. During
   * a step too: it changes no position before `length`.
   * @param into (to - from) * rowValues values, not to be read as numbers; @throws RangeError unless all are held
   */
  readRows(from: number, to: number, into: Float32Array): Promise<void>
  /**
   * Writes back what `readRows` of as many rows gave, at positions [from, to); of these may be as many beyond `length` as the
   * buffers hold. @throws RangeError if `from` exceeds `held`; BrimError OUT_OF_MEMORY, CONTEXT_OVERFLOW
   */
  writeRows(from: number, to: number, rows: Float32Array): void
  /**
   * Makes the sequence a line of so many positions, none of which are held: they have to be written back, as after `evict`.
   * @param ids what the positions are computed from, where that is known
   * @returns false where rows alone do not restore it: it has no positions then
   */
  claim(length: number, ids?: readonly number[]): boolean
  /** Grows the buffers to `length` positions at once, rather than as rows are written. @throws BrimError OUT_OF_MEMORY, CONTEXT_OVERFLOW */
  reserve(length: number): void
  /** Releases the buffers, which are zeroed. Before the next step all rows must be written back, or dropped. */
  evict(): void
  /** Releases the buffers, which are zeroed before another sequence uses them. The sequence must not be used again. */
  release(): void
}

/**
 * Input rows of a step. `features` are second rows beside `states`, zeros where unknown. They are required if the part's
 * manifest has `features`, and refused otherwise.
 */
export type StepInput =
  | { readonly ids: readonly number[] }
  | { readonly states: States; readonly features?: States | undefined }
  | DraftHeadInput

/**
 * Input rows of a draft head: the token of each row, and of the position before it the deep state (`features`) or else the
 * head's own guess (`states`); the other one is zero.
 */
export interface DraftHeadInput {
  readonly ids: readonly number[]
  readonly states: States
  readonly features: States
}

/** New rows for one sequence, appended at its `length`. */
export type StepItem = StepInput & {
  readonly sequence: Sequence
  /**
   * For each new row the index in the sequence of the row that it follows, or -1. Rows may branch: each attends only to the
   * rows on its own path. Absent: each row follows the one before it. The first rows of a sequence cannot branch.
   */
  readonly parents?: readonly number[] | undefined
  /** Which of the item's new rows are returned (0 is the first). `input` always returns all. */
  readonly select: readonly number[] | 'all' | 'last' | 'none'
}

/** One loaded part of a bundle. */
export interface Part {
  readonly name: PartName
  readonly manifest: PartManifest
  createSequence(): Sequence
  /**
   * Runs one packed step over up to 16 sequences, whose lengths have grown when it resolves. `input`, `middle`, `adapter`
   * and `adapter-paper` return states. In fp32, with fp16 weights and in int4 at accuracy level 1, the bits of a row on a line
   * depend neither on the number of rows of the step nor on its other sequences. A row on another branch of a tree may differ
   * by rounding from the same row on a line.
   * @throws RangeError if `features` are missing, not supported, or of another shape than `states`
   * @throws BrimError CONTEXT_OVERFLOW before any work, OUT_OF_MEMORY, RUNTIME_FAILED (lengths unchanged)
   */
  step(items: readonly StepItem[]): Promise<States[]>
}

/** `output` or `draft-output`: states → logits, without a sequence. */
export interface Head {
  /**
   * @param memory of an earlier result that is read no more: the new one takes its place, where it fits
   * @returns logits [rows, vocab] row-major, valid until the next call
   */
  logits(states: States, memory?: ArrayBuffer): Promise<Float32Array<ArrayBuffer>>
}

/** `medusa`: deep states → guesses of the tokens after the next one, without a sequence. */
export interface MedusaHeads {
  readonly heads: number
  /**
   * The guesses that are verified together: paths of ranks from the root, parents before their children. [0] is head 0's
   * most likely token; [0, 2] is the third most likely token of head 1 after it.
   */
  readonly tree: readonly (readonly number[])[]
  /**
   * Head k (from 0) guesses the token at position p + k + 2 from the row at position p; the LLM's own head gives p + 1.
   * @param deep rows as on the wire, before the final normalisation
   * @returns logits [rows, heads, vocab] row-major, valid until the next call
   */
  guess(deep: States): Promise<Float32Array>
}

/**
 * The whole model on this machine: `whole`, or input → middle → output. `cuts` is the precision where the wire would be:
 * 'half' rounds to fp16 as on the wire (the reference), 'full' passes fp32 (the unrounded model).
 */
export interface Chain {
  readonly manifest: Manifest
  createSequence(): Sequence
  /** @returns logits [selected rows of all items in order, vocab] row-major, valid until the next call */
  step(items: readonly { sequence: Sequence; ids: readonly number[]; select: StepItem['select'] }[]): Promise<Float32Array>
}
