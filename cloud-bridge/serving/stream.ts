import type { Sequence } from '../../core/engine/contract.ts'
import { phaseOf } from '../../core/policy/serving/phase.ts'
import type { Resumption } from '../../core/policy/serving/policy.ts'
import { Reader } from '../../core/policy/serving/reader.ts'
import { canceled, type EngineHost, EngineStream, type WaitingRows } from './engine-stream.ts'
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
  /** Cancels what waits, lets a running step finish, releases the KV. */
  close(): Promise<void>
}

/** What a stream of rows needs from its Serving. */
export interface RowHost extends EngineHost {
  readonly maxDecodeRows: number
  readonly contextLimit: number
  /** Rows wait so long for memory that others hold. */
  readonly maxMemoryWaitMs: number
  /** Whether other streams could make way for this one until so many bytes are free. */
  canFree(stream: EngineStream, bytes: number): boolean
  /** Caches the KV of a closed stream. @returns its handle; undefined: it has been released */
  cache(owner: string, sequence: Sequence): string | undefined
}

interface Append {
  /** Set while it waits for memory; aborted when it has been resolved or rejected. */
  limit?: AbortController | undefined
  readonly rows: PendingRows
  resolve(result: AppendResult): void
  reject(error: unknown): void
}

/** A stream of hidden states, as serving sees it. */
export class RowStream extends EngineStream implements Stream {
  /** Only the device knows what the rows came from. */
  readonly canRecompute = false
  protected readonly source = 'device'
  readonly continuesAtOnce = false
  protected readonly followingRows = 0
  protected reader: Reader | undefined
  readonly #host: RowHost
  #append: Append | undefined
  /** Set while the stream waits for its first memory. */
  #admission: { readonly rows: WaitingRows; settle(isAdmitted: boolean): void } | undefined
  /** Rows that are still those that the stream began with. */
  #untouched: number

  /** @param residency `evicted`: the sequence is charged nothing yet, and `admit` comes first */
  constructor(id: number, owner: string, sequence: Sequence, residency: 'resident' | 'evicted', host: RowHost) {
    super(id, owner, sequence, residency, host)
    this.#host = host
    this.#untouched = sequence.length
  }

  get length(): number {
    return this.sequence.length
  }

  get line(): number {
    return this.sequence.line
  }

  get pending(): WaitingRows | undefined {
    return this.#append?.rows ?? this.#admission?.rows
  }

  /**
   * Waits until the policy has given the stream memory for its first rows. @param maxWaitMs at most
   * @returns false where there is none in time
   */
  admit(positions: number, maxWaitMs: number): Promise<boolean> {
    const { clock } = this.#host
    if (!this.#couldGet(positions)) return Promise.resolve(false)
    return new Promise((resolve) => {
      const done = new AbortController()
      const settle = (isAdmitted: boolean) => {
        this.#admission = undefined
        done.abort()
        this.#host.withdraw(this)
        resolve(isAdmitted)
      }
      const rows = { waiting: positions, phase: 'prefill', arrivedMs: clock.nowMs(), stepsSkipped: 0 } as const
      this.#admission = { rows, settle }
      this.#host.enqueue(this)
      clock.sleep(maxWaitMs, done.signal).then(
        () => settle(false),
        () => {},
      )
    })
  }

  /** Of a resident stream that was checked when its rows came. */
  override get isWithinShare(): boolean {
    return this.kv.residency !== 'evicted' || this.#host.kv.isWithinShare(this.sequence, this.sequence.length + this.waitingRows)
  }

  override resume(by: Resumption): void {
    super.resume(by)
    if (this.kv.residency === 'resident') this.#admission?.settle(true)
  }

  /** Rows that cannot run now keep their memory: they wait until others have made way. */
  override reserve(): boolean {
    return this.charge()
  }

  /** Whether the owner's share holds so many positions, and the memory could. */
  #couldGet(length: number): boolean {
    const { kv } = this.#host
    if (!kv.isWithinShare(this.sequence, length)) return false
    return this.#host.canFree(this, kv.missingFor(this.sequence, length))
  }

  override preempt(): void {
    super.preempt()
    this.#limitWait()
  }

  /** Rows that lack memory for too long fail, so that the device can replay them at another bridge. */
  #limitWait(): void {
    const append = this.#append
    if (!append || append.limit) return
    append.limit = new AbortController()
    const { clock, kv, maxMemoryWaitMs } = this.#host
    clock.sleep(maxMemoryWaitMs, append.limit.signal).then(
      () => {
        append.limit = undefined
        const length = this.length + this.waitingRows
        const hasMemory = this.kv.residency === 'resident' && kv.missingFor(this.sequence, length) === 0
        if (this.isInStep || hasMemory) return
        this.failWaiting(this.outOfMemory(length))
      },
      () => {},
    )
  }

  append(rows: Rows): Promise<AppendResult> {
    this.#demandNoAppend()
    const { kv, clock, maxDecodeRows } = this.#host
    const count = rows.states.rows
    const length = this.length + count
    return new Promise((resolve, reject) => {
      if (this.closing) return reject(canceled())
      const isResident = this.kv.residency === 'resident'
      const hasMemory = isResident && kv.grow(this.sequence, length)
      const mayWait = isResident ? this.#couldGet(length) : kv.canHold(this.sequence, length)
      if (!hasMemory && !mayWait) return reject(this.outOfMemory(length))
      const phase = phaseOf(count, selectedCount(rows.select, count), maxDecodeRows)
      this.#append = { rows: new PendingRows(rows, phase, clock.nowMs()), resolve, reject }
      this.#host.enqueue(this)
      if (!hasMemory) this.#limitWait()
    })
  }

  truncate(length: number): void {
    this.#demandNoAppend()
    this.kv.truncate(length)
    this.#untouched = Math.min(this.#untouched, length)
  }

  gather(from: number, rows: readonly number[]): void {
    this.#demandNoAppend()
    this.kv.gather(from, rows)
    this.#untouched = Math.min(this.#untouched, from)
  }

  report(tokensPerS: number, unread: number): void {
    const nowMs = this.#host.clock.nowMs()
    // How long the answer becomes is the device's secret: as long as the context, at most.
    this.reader ??= new Reader(tokensPerS, this.#host.contextLimit, nowMs)
    this.reader.setRate(tokensPerS, nowMs)
    this.reader.report(unread, nowMs)
  }

  async keep(length: number): Promise<string | undefined> {
    if (this.closing || this.line < length) {
      await this.close()
      return undefined
    }
    let handle: string | undefined
    this.closing = this.stop().then(async () => {
      this.kv.truncate(length)
      this.#host.kv.hold(this.sequence, 0)
      // The cache counts as memory: what has been preempted must fit again.
      this.kv.load()
      await this.kv.settled()
      if (await this.kv.close()) handle = this.#host.cache(this.owner, this.sequence)
      else this.#host.kv.release(this.sequence)
    })
    await this.closing
    return handle
  }

  hold(bytes: number): boolean {
    return !this.closing && this.#host.kv.hold(this.sequence, bytes)
  }

  close(): Promise<void> {
    this.closing ??= this.stop().then(async () => {
      await this.kv.close()
      this.#host.kv.release(this.sequence)
    })
    return this.closing
  }

  /**
   * Copies the first `length` rows, as soon as no step holds the stream; false where they are no longer those that it began
   * with, or the stream has closed or is evicted.
   */
  async copyPrefixTo(target: Sequence, length: number): Promise<boolean> {
    await this.stepEnded()
    await this.kv.settled()
    if (this.closing || this.isInStep || this.kv.residency !== 'resident' || length > this.#untouched) return false
    target.copyPrefix(this.sequence, length)
    return true
  }

  /** The earlier session goes first, unless readers count. */
  makesWayFor({ id }: EngineStream, heedsReaders: boolean): boolean {
    const canMakeWay = this.id > id || (heedsReaders && this.reader !== undefined && this.id !== id)
    return canMakeWay && this.kv.resumptions.length > 0
  }

  protected piece(count: number): RowItem {
    if (!this.#append) throw new Error('a stream without waiting rows has no piece')
    return this.#append.rows.piece(this.sequence, count)
  }

  addResult(result: ItemResult, count: number, computeMs: number): void {
    if (result.kind !== 'states') throw new Error('rows were computed without states')
    const whole = this.#append?.rows.add(result.states, count, computeMs, this.#host.clock.nowMs())
    if (whole) this.#settle()?.resolve(whole)
    else if (this.closing) this.fail(canceled())
  }

  fail(error: unknown): void {
    this.#admission?.settle(false)
    this.#settle()?.reject(error)
  }

  skipStep(): void {
    if (this.#append) this.#append.rows.stepsSkipped += 1
  }

  #settle(): Append | undefined {
    const append = this.#append
    this.#append = undefined
    append?.limit?.abort()
    return append
  }

  #demandNoAppend(): void {
    if (this.#append) throw new Error('a stream was used during an append')
  }
}
