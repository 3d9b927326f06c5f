import { BrimError } from '../../kit/base/errors.ts'
import type { Sequence } from './contract.ts'
import type { KvBuffers } from './kv-buffers.ts'
import { RowTree } from './row-tree.ts'
import type { KvPool } from './sequence-memory.ts'

/**
 * Buffers grow by so many positions. Growing copies the rows before: a block this long makes that a twentieth of what attention
 * reads, and leaves less of a device's memory empty than doubling does.
 */
export const kvBlockPositions = 64

/** A sequence over KV memory of a pool. Its part grows it; others use only the methods of `Sequence`. */
export class KvSequence implements Sequence {
  readonly #pool: KvPool
  readonly #contextLimit: number
  #memory: KvBuffers | undefined
  #held = 0
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

  get fixedBytes(): number {
    return 0
  }

  get held(): number {
    return this.#held
  }

  async readRows(from: number, to: number, into: Float32Array): Promise<void> {
    if (!(from >= 0 && from < to && to <= this.#held)) throw new RangeError(`positions ${from} to ${to} are not all held`)
    await this.#memory?.readRows(from, to, into)
  }

  writeRows(from: number, to: number, rows: Float32Array): void {
    this.#requireIdle()
    if (!(from >= 0 && from < to && from <= this.#held)) throw new RangeError(`no positions ${from} to ${to} after ${this.#held}`)
    this.reserve(to)
    this.#memory?.writeRows(from, to, rows)
    this.#held = Math.min(this.length, Math.max(this.#held, to))
  }

  claim(length: number): boolean {
    this.requireWithinContext(length)
    this.#rows = RowTree.lineOf(length)
    this.#held = 0
    return true
  }

  truncate(length: number): void {
    this.#requireIdle()
    this.#rows = this.#rows.truncated(length)
    this.#held = Math.min(this.#held, length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.#requireIdle()
    if (!(keep >= 0 && keep <= this.line)) throw new RangeError(`cannot keep ${keep} of ${this.line} linear positions`)
    const stray = rows.find((row) => !(row >= keep && row < this.length))
    if (stray !== undefined) throw new RangeError(`position ${stray} is not in ${keep}..${this.length}`)
    if (keep + rows.length > this.length)
      throw new RangeError(`${rows.length} rows after ${keep} exceed the ${this.length} there are`)
    const isHeld = this.#held === this.length
    if (isHeld && rows.some((row, at) => row !== keep + at)) this.#memory?.gatherRows(keep, rows)
    this.#rows = RowTree.lineOf(keep + rows.length)
    this.#held = isHeld ? this.length : Math.min(this.#held, keep)
  }

  copyPrefix(from: Sequence, length: number): void {
    this.#requireIdle()
    if (!(from instanceof KvSequence) || from.#pool !== this.#pool) throw new Error('the sequence belongs to another part')
    from.#requireIdle()
    const copyable = Math.min(from.line, from.#held)
    if (!(length >= 0 && length <= copyable)) throw new RangeError(`cannot copy ${length} of ${copyable} linear positions`)
    if (from !== this) {
      this.truncate(0)
      this.reserve(length)
      if (from.#memory) this.#memory?.copyRows(from.#memory, length)
    }
    this.#rows = RowTree.lineOf(length)
    this.#held = length
  }

  evict(): void {
    this.#requireIdle()
    this.#held = 0
    this.#recycleMemory()
  }

  release(): void {
    if (this.#state === 'in a step') this.#state = 'released in a step'
    if (this.#state !== 'idle') return
    this.#state = 'released'
    this.#recycleMemory()
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

  /** @throws BrimError CONTEXT_OVERFLOW, OUT_OF_MEMORY (nothing has changed then) */
  reserve(length: number): void {
    this.requireWithinContext(length)
    if (length <= this.capacity) return
    const capacity = Math.ceil(length / kvBlockPositions) * kvBlockPositions
    const larger = this.#pool.acquire(Math.min(capacity, this.#contextLimit))
    if (this.#memory) larger.copyRows(this.#memory, this.#held)
    this.#recycleMemory()
    this.#memory = larger
  }

  /** Returns the buffers for one step. Until `finishStep` the sequence cannot be used. */
  startStep(): KvBuffers {
    if (!this.#memory) throw new Error('a step started before its memory was reserved')
    this.#state = 'in a step'
    return this.#memory
  }

  /** The rows after a step that adds `count` rows. @throws RangeError if a parent is invalid, Error unless all rows are held */
  extended(count: number, parents: readonly number[] | undefined): RowTree {
    if (this.#held < this.length) throw new Error('a step was given an evicted sequence whose rows were not written back')
    return this.#rows.extended(count, parents)
  }

  /** @param rows the rows after the step; undefined if it failed */
  finishStep(rows: RowTree | undefined): void {
    const wasReleased = this.#state === 'released in a step'
    this.#state = 'idle'
    this.#rows = rows ?? this.#rows
    this.#held = this.length
    if (wasReleased) this.release()
  }

  #requireIdle(): void {
    if (this.#state !== 'idle') throw new Error(`a sequence was used while ${this.#state}`)
  }

  #recycleMemory(): void {
    if (this.#memory) this.#pool.recycle(this.#memory)
    this.#memory = undefined
  }
}
