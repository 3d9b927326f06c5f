import type { Phase, ReaderState, Residency, Resumption, StreamState } from '../../../core/policy/serving/policy.ts'
import { pageRows, type UnsavedRows } from '../../../core/policy/serving/write-through.ts'
import type { KvSize } from './kv-size.ts'

/** What a stream's rows are for. */
export interface StreamOwner {
  /** A step has computed the next `rows` rows; the stream's context holds them. */
  computed(rows: number): void
  /** All rows that waited are past the first stage of a pipeline, so that the next ones of a prompt may follow. */
  entered(): void
}

const neither: readonly Resumption[] = []
const load: readonly Resumption[] = ['load']
const recompute: readonly Resumption[] = ['recompute']
const either: readonly Resumption[] = ['load', 'recompute']

/** What streams ask of the engine that they are in. */
export interface StreamHost {
  /** Steps that have begun. */
  readonly steps: number
  readonly hasSlowTier: boolean
}

/**
 * A stream of the simulated engine, as it is and as the policy sees it: numbers in place of rows. Mutable; changed by the
 * engine, its tiers and the stream's owner.
 */
export class SimulatedStream implements StreamState, UnsavedRows {
  readonly id: number
  readonly client: string
  readonly source: 'device' | 'answer'
  readonly reader: ReaderState | undefined
  readonly kv: KvSize
  /** Rows of the prompt's beginning that a cached prefix holds. */
  readonly cachedRows: number
  readonly #host: StreamHost
  owner!: StreamOwner

  contextLength = 0
  waitingRows = 0
  phase: Phase = 'decode'
  arrivedMs = 0
  /** Rows that may follow the waiting ones, as far as that is known. */
  followingRows = 0
  /** Place among the streams that wait; −1: no rows wait. */
  queueAt = -1
  /** Steps that had begun when the rows arrived, and those since then that held some of them. */
  stepsTaken = 0
  stepsUnderWay = 0
  /** No other rows can begin before those in the present step have ended, or have left the first stage of a pipeline. */
  isBlocked = false
  isClosed = false
  /** Whether a step has held some of its rows. */
  hasBegun = false

  /** Where its KV is, apart from steps. */
  place: Residency = 'evicted'
  chargedBytes = 0
  /** Rows that the slow tier holds, or that are on their way there. */
  writtenRows = 0
  /** When the last of them is there. */
  writtenMs = 0
  /** What it is charged in the slow tier. */
  slowBytes = 0
  /** Rows of a load under way that are back. */
  loadedRows = 0
  /** Charge of the rows that it holds and that wait. */
  #neededBytes = 0
  /** Rows of a stream that could not be evicted: not tried again before it has others. */
  stuckLength = -1

  constructor(
    id: number,
    {
      source,
      client,
      reader,
      kv,
      cachedRows = 0,
    }: Pick<SimulatedStream, 'source' | 'client' | 'reader' | 'kv'> & { cachedRows?: number },
    host: StreamHost,
  ) {
    this.id = id
    this.source = source
    this.client = client
    this.reader = reader
    this.kv = kv
    this.cachedRows = cachedRows
    this.#host = host
  }

  get canRecompute(): boolean {
    return this.source === 'answer'
  }

  get isInStep(): boolean {
    return this.stepsUnderWay > 0
  }

  get residency(): Residency {
    return this.isBlocked || (this.isInStep && this.waitingRows === 0) ? 'in flight' : this.place
  }

  get canRun(): boolean {
    return this.waitingRows > 0 && !this.isBlocked && this.place === 'resident'
  }

  get neededBytes(): number {
    return this.#neededBytes
  }

  get kvBytes(): number {
    return this.place === 'evicted' ? this.#neededBytes : this.chargedBytes
  }

  get growthBytes(): number {
    return this.place === 'evicted' ? 0 : Math.max(0, this.#neededBytes - this.chargedBytes)
  }

  get fullBytes(): number {
    return Math.max(this.chargedBytes, this.kv.chargeOf(this.contextLength + this.waitingRows + this.followingRows))
  }

  get stepsSkipped(): number {
    return this.waitingRows === 0 ? 0 : this.#host.steps - this.stepsTaken
  }

  get resumptions(): readonly Resumption[] {
    const length = this.contextLength
    const { canRecompute } = this
    // A stream without rows has none to load.
    const canLoad = this.#host.hasSlowTier && length !== this.stuckLength && (length > 0 || !canRecompute)
    if (canRecompute) return canLoad ? either : recompute
    return canLoad ? load : neither
  }

  get drainedMs(): number {
    return this.reader?.drainedMs ?? Number.NEGATIVE_INFINITY
  }

  get duePageBytes(): number {
    return pageRows * this.kv.bytesPerPosition
  }

  get duePages(): number {
    return this.place === 'resident' ? Math.floor((this.contextLength - this.pageStart) / pageRows) : 0
  }

  /** First row of the page that is saved next. */
  get pageStart(): number {
    return this.writtenRows - (this.writtenRows % pageRows)
  }

  /** So many rows wait from now on. */
  wait(rows: number, phase: Phase, nowMs: number): void {
    this.waitingRows = rows
    this.phase = phase
    this.arrivedMs = nowMs
    this.stepsTaken = this.#host.steps
    this.#neededBytes = this.kv.chargeOf(this.contextLength + rows)
  }

  /** A step has computed the next `rows` waiting rows. */
  compute(rows: number): void {
    this.contextLength += rows
    this.waitingRows -= rows
    // Otherwise the rest of them keep their place.
    if (this.waitingRows === 0) this.queueAt = -1
  }

  /** The context ends after so many rows, because the others were lost; they wait again. */
  loseRows(length: number): void {
    this.waitingRows += this.contextLength - length
    this.contextLength = length
    if (this.waitingRows > 1) this.phase = 'prefill'
  }

  /** The owner drops all rows after the first `length`. None wait. */
  truncate(length: number): void {
    this.contextLength = length
    this.writtenRows = Math.min(this.writtenRows, length)
    this.#neededBytes = this.kv.chargeOf(length)
  }
}
