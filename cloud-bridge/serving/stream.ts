import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Sequence, StepItem } from '../../core/engine/contract.ts'
import { phaseOf } from '../../core/policy/serving/phase.ts'
import type { StreamState } from '../../core/policy/serving/policy.ts'
import type { States } from '../../core/protocol/states.ts'
import type { KvMemory } from './kv-memory.ts'
import { type AppendResult, PendingRows, type Rows, selectedCount } from './pending-rows.ts'

/**
 * One sequence of rows that occupies the engine, and its KV. Serving may preempt it at any moment and resume it later; its
 * owner notices only the delay.
 */
export interface Stream {
  /** Rows that the stream holds. */
  readonly length: number
  /** Number of rows from the start that form a line; after them a tree may branch. */
  readonly line: number
  /**
   * Appends rows, in as many steps as they take; one append at a time.
   * @throws what the part's step throws; BrimError OUT_OF_MEMORY, or CANCELED where the stream or the bridge closes first
   */
  append(rows: Rows): Promise<AppendResult>
  /** Drops everything after the first `length` rows. Not during an append. @throws RangeError when there are fewer */
  truncate(length: number): void
  /** Keeps the first `from` rows and then exactly these: one branch of a tree. Not during an append. @throws RangeError */
  gather(from: number, rows: readonly number[]): void
  /**
   * Closes, and leaves the KV of the first `length` rows in the prefix cache. @returns the handle there; undefined where the
   * stream holds fewer rows, has closed before, or nothing is cached
   */
  keep(length: number): Promise<string | undefined>
  /**
   * Charges memory that the owner holds for this stream, such as cached replies, to the KV budget until the stream closes.
   * @param bytes in all; @returns false where the budget or the owner's share is exhausted: the charge stays as it was
   */
  hold(bytes: number): boolean
  /** Cancels what waits, lets a running step finish, releases the KV. */
  close(): Promise<void>
}

/** What a stream needs from its Serving. */
export interface StreamHost {
  readonly kv: KvMemory
  readonly clock: Clock
  readonly maxDecodeRows: number
  /** The stream's rows wait for a step. */
  enqueue(stream: RowStream): void
  /** The stream has closed, and takes part in no step any more. */
  remove(stream: RowStream): void
  /** Caches the KV of a closed stream. @returns its handle; undefined: it has been released */
  cache(owner: string, sequence: Sequence): string | undefined
}

interface Append {
  readonly rows: PendingRows
  resolve(result: AppendResult): void
  reject(error: unknown): void
}

/** A stream of hidden states, as serving sees it. */
export class RowStream implements Stream {
  readonly id: number
  readonly #owner: string
  readonly #sequence: Sequence
  readonly #host: StreamHost
  #append: Append | undefined
  /** Resolves when the running step has ended; undefined while no step holds the stream. */
  #step: Promise<void> | undefined
  #endStep = () => {}
  #isEvicted = false
  #closing: Promise<void> | undefined
  /** Rows that are still those that the stream began with. */
  #untouched: number

  constructor(id: number, owner: string, sequence: Sequence, host: StreamHost) {
    this.id = id
    this.#owner = owner
    this.#sequence = sequence
    this.#host = host
    this.#untouched = sequence.length
  }

  get length(): number {
    return this.#sequence.length
  }

  get line(): number {
    return this.#sequence.line
  }

  get waitingRows(): number {
    return this.#append?.rows.waiting ?? 0
  }

  get isInStep(): boolean {
    return this.#step !== undefined
  }

  get canRun(): boolean {
    return this.#append !== undefined && !this.#step && !this.#isEvicted
  }

  get state(): StreamState {
    const { kv } = this.#host
    const { waitingRows, length } = this
    const { phase = 'decode', arrivedMs = 0, stepsSkipped = 0 } = this.#append?.rows ?? {}
    return {
      id: this.id,
      waitingRows,
      phase,
      arrivedMs,
      stepsSkipped,
      contextLength: length,
      kvBytes: this.#isEvicted ? kv.missingFor(this.#sequence, length + waitingRows) : kv.chargeOf(this.#sequence),
      residency: this.#step ? 'in flight' : this.#isEvicted ? 'evicted' : 'resident',
      resumptions: ['load'],
      writtenRows: 0,
      reader: undefined,
    }
  }

  append(rows: Rows): Promise<AppendResult> {
    this.#demandNoAppend()
    const { kv, clock, maxDecodeRows } = this.#host
    const count = rows.states.rows
    const length = this.length + count
    return new Promise((resolve, reject) => {
      if (this.#closing) return reject(canceled())
      if (!(this.#isEvicted ? kv.canHold(length) : kv.grow(this.#sequence, length))) return reject(this.#outOfMemory(length))
      const phase = phaseOf(count, selectedCount(rows.select, count), maxDecodeRows)
      this.#append = { rows: new PendingRows(rows, phase, clock.nowMs()), resolve, reject }
      this.#host.enqueue(this)
    })
  }

  truncate(length: number): void {
    this.#demandNoAppend()
    this.#sequence.truncate(length)
    this.#untouched = Math.min(this.#untouched, length)
  }

  gather(from: number, rows: readonly number[]): void {
    this.#demandNoAppend()
    this.#sequence.gather(from, rows)
    this.#untouched = Math.min(this.#untouched, from)
  }

  async keep(length: number): Promise<string | undefined> {
    if (this.#closing || this.line < length) {
      await this.close()
      return undefined
    }
    let handle: string | undefined
    this.#closing = this.#stop().then(() => {
      this.#sequence.truncate(length)
      this.#host.kv.hold(this.#sequence, 0)
      // The cache counts as memory: what has been preempted must fit again.
      if (this.#isEvicted && !this.#host.kv.grow(this.#sequence, length)) this.#host.kv.release(this.#sequence)
      else handle = this.#host.cache(this.#owner, this.#sequence)
    })
    await this.#closing
    return handle
  }

  hold(bytes: number): boolean {
    return !this.#closing && this.#host.kv.hold(this.#sequence, bytes)
  }

  close(): Promise<void> {
    this.#closing ??= this.#stop().then(() => this.#host.kv.release(this.#sequence))
    return this.#closing
  }

  /**
   * Copies the first `length` rows, as soon as no step holds the stream; false where they are no longer those that it began
   * with, or the stream has closed.
   */
  async copyPrefixTo(target: Sequence, length: number): Promise<boolean> {
    while (this.#step) await this.#step
    if (this.#closing || length > this.#untouched) return false
    target.copyPrefix(this.#sequence, length)
    return true
  }

  /** Moves the KV out of the memory, unless a step uses it. */
  preempt(): void {
    if (this.#step || this.#isEvicted || this.#closing) return
    this.#isEvicted = this.#host.kv.evict(this.#sequence)
  }

  /** Charges the memory again; the next step moves the KV back. Without effect while the budget is exhausted. */
  resume(): void {
    if (this.#isEvicted && this.#host.kv.grow(this.#sequence, this.length + this.waitingRows)) this.#isEvicted = false
  }

  /** @returns the first `count` waiting rows, for a step that begins now */
  startStep(count: number): StepItem {
    if (!this.#append || !this.canRun) throw new Error('a step was begun with a stream that cannot run')
    this.#step = new Promise((resolve) => {
      this.#endStep = resolve
    })
    return this.#append.rows.piece(this.#sequence, count)
  }

  /** The step has computed its rows. */
  addResult(returned: States, count: number, computeMs: number): void {
    const append = this.#append
    const result = append?.rows.add(returned, count, computeMs, this.#host.clock.nowMs())
    if (result) this.#settle()?.resolve(result)
    else if (this.#closing) this.fail(canceled())
  }

  /** The append fails; the stream holds the rows that it held before its last step. */
  fail(error: unknown): void {
    this.#settle()?.reject(error)
  }

  /** The step no longer holds the stream. */
  finishStep(): void {
    this.#step = undefined
    this.#endStep()
  }

  /** Other streams' steps have begun without this one. */
  skipStep(): void {
    if (this.#append) this.#append.rows.stepsSkipped += 1
  }

  async #stop(): Promise<void> {
    if (!this.#step) this.fail(canceled())
    while (this.#step) await this.#step
    this.#host.remove(this)
  }

  #outOfMemory(length: number): BrimError {
    const { kv } = this.#host
    return new BrimError('OUT_OF_MEMORY', `no KV memory for ${length} positions: ${kv.shortageOf(this.#owner)}`)
  }

  #settle(): Append | undefined {
    const append = this.#append
    this.#append = undefined
    return append
  }

  #demandNoAppend(): void {
    if (this.#append) throw new Error('a stream was used during an append')
  }
}

const canceled = () => new BrimError('CANCELED', 'the stream was closed while its rows waited')
