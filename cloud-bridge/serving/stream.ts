import type { Sequence } from '../../core/model/engine/contract.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import { phaseOf } from '../../core/policy/serving/phase.ts'
import type { StreamView } from '../../core/policy/serving/stream-view.ts'
import { type EngineHost, EngineStream, streamClosed } from './engine-stream.ts'
import { type AppendResult, PendingRows, type Rows, selectedCount } from './pending-rows.ts'
import type { ItemResult, RowItem } from './served-model.ts'

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
  /**
   * How the reader of the rows' answer stands, which a policy may heed.
   * @param tokensPerS finite, > 0 @param unread tokens that the reader has and has not read, >= 0
   */
  report(tokensPerS: number, unread: number): void
  /** What operators see of it; undefined: it closes. */
  view(): StreamView | undefined
  /** Cancels what waits, lets a running step finish, releases the KV. */
  close(): Promise<void>
}

/** What a stream of rows needs from its Serving. */
export interface RowHost extends EngineHost {
  readonly maxDecodeRows: number
  /** Releases the KV of a closed stream, or caches it. @returns its handle; undefined: it has been released */
  leaveRows(stream: RowStream, isCached: boolean): string | undefined
}

interface Append {
  readonly rows: PendingRows
  resolve(result: AppendResult): void
  reject(error: unknown): void
}

/** A stream of hidden states, as serving sees it. */
export class RowStream extends EngineStream implements Stream {
  readonly continuesAtOnce = false
  readonly #host: RowHost
  #append: Append | undefined
  /** Set while the stream waits for its first memory. */
  #settleAdmission: ((isAdmitted: boolean) => void) | undefined
  /** Rows that are still those that the stream began with. */
  #untouched: number
  #kept: { readonly length: number; handle: string | undefined } | undefined

  constructor(id: number, owner: string, sequence: Sequence, host: RowHost) {
    super(id, owner, sequence, host)
    this.#host = host
    this.#untouched = sequence.length
  }

  get length(): number {
    return this.sequence.length
  }

  get line(): number {
    return this.sequence.line
  }

  /** Waits for memory for the first rows. @param positions how many @returns false where there is none in time */
  open(positions: number): Promise<boolean> {
    const { id: stream, owner } = this
    return new Promise((resolve) => {
      this.#settleAdmission = resolve
      this.#host.feed({ kind: 'session opened', stream, owner, client: clientOf(owner), positions })
    })
  }

  /** Takes a cached prefix over. */
  resume(handle: string): void {
    const { id: stream, owner } = this
    this.#host.feed({ kind: 'session resumed', stream, owner, client: clientOf(owner), handle, rows: this.length })
  }

  onAdmitted(): void {
    this.#settleAdmission?.(true)
    this.#settleAdmission = undefined
  }

  override copyFound(rows: number): void {
    super.copyFound(rows)
    this.#untouched = rows
  }

  append(rows: Rows): Promise<AppendResult> {
    this.#demandNoAppend()
    const { clock, maxDecodeRows } = this.#host
    const count = rows.states.rows
    return new Promise((resolve, reject) => {
      if (this.closing) return reject(streamClosed())
      this.#append = { rows: new PendingRows(rows, clock.nowMs()), resolve, reject }
      const phase = phaseOf(count, selectedCount(rows.select, count), maxDecodeRows)
      this.#host.feed({ kind: 'rows', stream: this.id, rows: count, phase, following: 0 })
    })
  }

  truncate(length: number): void {
    this.#demandNoAppend()
    this.sequence.truncate(length)
    this.#reshaped(length)
  }

  gather(from: number, rows: readonly number[]): void {
    this.#demandNoAppend()
    this.sequence.gather(from, rows)
    const moved = rows.findIndex((row, at) => row !== from + at)
    this.#reshaped(from + (moved < 0 ? rows.length : moved))
  }

  /** @param unmoved leading rows that are as they were */
  #reshaped(unmoved: number): void {
    const { length, line } = this
    this.#untouched = Math.min(this.#untouched, unmoved)
    this.#host.feed({ kind: 'reshaped', stream: this.id, length, line, unmoved })
  }

  report(tokensPerS: number, unread: number): void {
    if (!this.closing) this.#host.feed({ kind: 'reported', stream: this.id, tokensPerS, unread })
  }

  async keep(length: number): Promise<string | undefined> {
    if (this.closing || this.line < length) {
      await this.close()
      return undefined
    }
    this.#kept = { length, handle: undefined }
    await this.beginClosing(length)
    return this.#kept.handle
  }

  hold(bytes: number): boolean {
    if (this.closing) return false
    this.#host.feed({ kind: 'held', stream: this.id, bytes })
    return this.#host.served(this.id)?.heldBytes === bytes
  }

  close(): Promise<void> {
    return this.closing ?? this.beginClosing()
  }

  protected leaveKv(holdsRows: boolean): void {
    const kept = holdsRows ? this.#kept : undefined
    if (kept) this.sequence.truncate(kept.length)
    const handle = this.#host.leaveRows(this, kept !== undefined)
    if (kept) kept.handle = handle
  }

  /**
   * The sequence, to copy its first `length` rows from, as soon as no step holds it; undefined where they are no longer those that
   * it began with, or the stream has closed or is not in the memory.
   */
  async prefixOf(length: number): Promise<Sequence | undefined> {
    await this.stepEnded()
    return this.closing || !this.isResident || length > this.#untouched ? undefined : this.sequence
  }

  protected piece(count: number): RowItem {
    if (!this.#append) throw new Error('a stream without waiting rows has no piece')
    return this.#append.rows.piece(this.sequence, count)
  }

  addResult(result: ItemResult, count: number, computeMs: number): void {
    if (result.kind !== 'states') throw new Error('rows were computed without states')
    const whole = this.#append?.rows.add(result.states, count, computeMs, this.#host.clock.nowMs())
    if (whole) this.#settle()?.resolve(whole)
    else if (this.closing) this.fail(streamClosed())
  }

  fail(error: unknown): void {
    this.#settleAdmission?.(false)
    this.#settleAdmission = undefined
    this.#settle()?.reject(error)
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
