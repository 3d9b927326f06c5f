import { BrimError } from '../base/errors.ts'
import type { Sequence } from './contract.ts'
import { RowTree } from './row-tree.ts'
import type { KvBlock, KvMemory, KvPool } from './sequence-memory.ts'

/** Capacity in positions after the first row. */
export const firstCapacity = 64

/** A sequence over KV memory of a pool. Its part grows it; others use only the methods of `Sequence`. */
export class KvSequence implements Sequence {
  readonly #pool: KvPool
  readonly #contextLimit: number
  #memory: KvMemory | undefined
  /** Rows that `evict` copied out of the memory; the next step copies them back. */
  #evicted: KvBlock | undefined
  #rows = RowTree.empty
  #state: 'idle' | 'in a step' | 'released in a step' | 'released' = 'idle'

  constructor(pool: KvPool, contextLimit: number) {
    this.#pool = pool
    this.#contextLimit = contextLimit
  }

  get length(): number {
    return this.#rows.length
  }

  get line(): number {
    return this.#rows.line
  }

  get capacity(): number {
    return this.#memory?.capacity ?? 0
  }

  get bytes(): number {
    return this.#memory?.bytes ?? 0
  }

  get rowValues(): number {
    return this.#pool.rowValues
  }

  readRows(from: number, to: number, into: Float32Array): void {
    this.#requireRange(from, to)
    this.#block?.readRows(from, to, into)
  }

  writeRows(from: number, to: number, rows: Float32Array): void {
    this.#requireRange(from, to)
    this.reserve(this.length)
    this.#memory?.writeRows(from, to, rows)
  }

  truncate(length: number): void {
    this.#requireIdle()
    this.#rows = this.#rows.truncated(length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.#requireIdle()
    if (!(keep >= 0 && keep <= this.line)) throw new RangeError(`cannot keep ${keep} of ${this.line} linear positions`)
    const stray = rows.find((row) => !(row >= keep && row < this.length))
    if (stray !== undefined) throw new RangeError(`position ${stray} is not in ${keep}..${this.length}`)
    const block = this.#block
    if (keep + rows.length > (block?.capacity ?? 0)) throw new RangeError(`${rows.length} rows after ${keep} exceed the capacity`)
    block?.gatherRows(keep, rows)
    this.#rows = RowTree.lineOf(keep + rows.length)
  }

  copyPrefix(from: Sequence, length: number): void {
    this.#requireIdle()
    if (!(from instanceof KvSequence) || from.#pool !== this.#pool) throw new Error('the sequence belongs to another part')
    from.#requireIdle()
    if (!(length >= 0 && length <= from.line)) throw new RangeError(`cannot copy ${length} of ${from.line} linear positions`)
    if (from !== this) {
      this.#rows = RowTree.empty
      this.reserve(length)
      if (from.#block) this.#memory?.copyRows(from.#block, length)
    }
    this.#rows = RowTree.lineOf(length)
  }

  evict(): void {
    this.#requireIdle()
    if (!this.#memory) return
    this.#evicted = this.#memory.compactCopy(this.length)
    this.#recycleMemory()
  }

  release(): void {
    if (this.#state === 'in a step') this.#state = 'released in a step'
    if (this.#state !== 'idle') return
    this.#state = 'released'
    this.#recycleMemory()
    this.#dropEvicted()
  }

  belongsTo(pool: KvPool): boolean {
    return this.#pool === pool
  }

  /** @throws BrimError CONTEXT_OVERFLOW if `length` exceeds the context limit */
  requireWithinContext(length: number): void {
    this.#requireIdle()
    if (length > this.#contextLimit)
      throw new BrimError('CONTEXT_OVERFLOW', `${length} tokens exceed the model's context of ${this.#contextLimit}`, {
        hint: 'shorten the prompt or ask for fewer tokens',
      })
  }

  /** Grows the capacity to `length` positions. @throws BrimError CONTEXT_OVERFLOW, OUT_OF_MEMORY (nothing has changed then) */
  reserve(length: number): void {
    this.requireWithinContext(length)
    if (length <= this.capacity) return
    let capacity = Math.max(this.capacity, firstCapacity)
    while (capacity < length) capacity *= 2
    const larger = this.#pool.acquire(Math.min(capacity, this.#contextLimit))
    if (this.#block) larger.copyRows(this.#block, this.length)
    this.#recycleMemory()
    this.#dropEvicted()
    this.#memory = larger
  }

  /** Returns the buffers for one step. Until `finishStep` the sequence cannot be used. */
  startStep(): KvMemory {
    if (!this.#memory) throw new Error('a step started before its memory was reserved')
    this.#state = 'in a step'
    return this.#memory
  }

  /** The rows after a step that adds `count` rows. @throws RangeError if a parent is invalid */
  extended(count: number, parents: readonly number[] | undefined): RowTree {
    return this.#rows.extended(count, parents)
  }

  /** @param rows the rows after the step; undefined if it failed */
  finishStep(rows: RowTree | undefined): void {
    const wasReleased = this.#state === 'released in a step'
    this.#state = 'idle'
    this.#rows = rows ?? this.#rows
    if (wasReleased) this.release()
  }

  get #block(): KvBlock | undefined {
    return this.#memory ?? this.#evicted
  }

  #requireRange(from: number, to: number): void {
    if (!(from >= 0 && from < to && to <= this.length)) throw new RangeError(`no positions ${from} to ${to} of ${this.length}`)
  }

  #requireIdle(): void {
    if (this.#state !== 'idle') throw new Error(`a sequence was used while ${this.#state}`)
  }

  #dropEvicted(): void {
    this.#evicted?.zero()
    this.#evicted = undefined
  }

  #recycleMemory(): void {
    if (this.#memory) this.#pool.recycle(this.#memory)
    this.#memory = undefined
  }
}
