import type { KvSize } from '../admission/kv.ts'
import type { KvAccount } from './kv-memory.ts'
import type { Phase, Residency, Resumption, StreamState } from './policy.ts'
import type { Reader } from './reader.ts'
import { pageRows, type UnsavedRows } from './write-through.ts'

const neither: readonly Resumption[] = []
const load: readonly Resumption[] = ['load']
const recompute: readonly Resumption[] = ['recompute']
const either: readonly Resumption[] = ['load', 'recompute']

/** What streams read of the machine that they are in. */
export interface ServedStreamHost {
  readonly stepsBegun: number
  readonly hasSlowTier: boolean
}

/** Rows [from, to) between the tiers. */
interface Moving {
  readonly from: number
  readonly to: number
  readonly bytes: number
}

/** An eviction that has begun: rows that are not saved are saved, then the memory is freed. */
interface Leaving {
  /** Whether the save under way is its own, rather than one that had begun before. */
  hasSaved: boolean
  /** Whether it waits until another stream's copy is freed. */
  awaitsRoom: boolean
}

/** A load that has begun. */
interface Arriving {
  /** Rows that are back. */
  heldRows: number
  /** Whether all of its rows, and those that wait, are charged. */
  isCharged: boolean
  /** Whether it has waited for an eviction once: what leaves has been saved before, as a rule, and is gone at once. */
  hasWaited: boolean
  /** What is on its way. */
  moving: Moving | undefined
}

/**
 * A stream as the serving machine keeps it, and as a policy sees it: numbers in place of rows. Mutable; changed by the machine
 * and its tiers alone.
 */
export class ServedStream implements StreamState, UnsavedRows, KvAccount {
  readonly id: number
  readonly client: string
  readonly source: 'device' | 'answer'
  reader: Reader | undefined
  readonly size: KvSize
  readonly owner: string
  bufferBytes = 0
  heldBytes = 0
  readonly #host: ServedStreamHost

  contextLength = 0
  /** Number of rows from the start that form a line; after them a tree may branch. */
  line = 0
  waitingRows = 0
  arrivedMs = 0
  /** Rows that may follow the waiting ones, as far as that is known. */
  followingRows = 0
  /** Place among the streams that wait; −1: no rows wait. */
  queueAt = -1
  #phase: Phase = 'decode'
  /** Charge of the rows that it holds and that wait. */
  #neededBytes = 0

  /** No other rows can begin before those in the present step have ended, or have left the first stage of a pipeline. */
  isBlocked = false
  stepsUnderWay = 0
  /** Steps that had begun when the rows arrived, and those since then that held some of them, or could not. */
  #stepsTaken = 0
  #stepsAtBlock = 0
  /** An answer that waits for its first step, or a session that waits for its first memory: some of its rows are charged then. */
  isNew = true
  /** Whether it has no rows that it has computed itself since it was last resumed. */
  isFresh = true
  /** `closing`: takes part in nothing new. `ending`: no step has it any more. `closed`: no transfer either. */
  stage: 'open' | 'closing' | 'ending' | 'closed' = 'open'
  /** Of a stream that closes: the leading rows that are left to a later one; undefined: none. */
  keptRows: number | undefined
  /** Of a stream that closes: whether its complete pages are to be in the slow tier. */
  leavesPages = false

  /** Where its KV is, apart from steps. */
  place: Residency = 'evicted'
  /** How often its rows began to leave the memory. */
  preemptions = 0
  /** Leading rows that the slow tier holds, or that are on their way there. */
  writtenRows = 0
  /** What is on its way there. */
  saving: Moving | undefined
  leaving: Leaving | undefined
  arriving: Arriving | undefined
  /** Rows of a stream that could not be evicted; it can be once it has others, so that it is not tried again all the time. */
  stuckLength = -1

  constructor(
    { id, owner, client, source, reader, size }: Pick<ServedStream, 'id' | 'owner' | 'client' | 'source' | 'reader' | 'size'>,
    host: ServedStreamHost,
  ) {
    this.id = id
    this.client = client
    this.source = source
    this.reader = reader
    this.size = size
    this.owner = owner
    this.#host = host
  }

  /** Only the device knows what its rows came from. */
  get canRecompute(): boolean {
    return this.source === 'answer'
  }

  get isClosing(): boolean {
    return this.stage !== 'open'
  }

  /** Its transfers end as soon as they can. */
  get isEnding(): boolean {
    return this.stage === 'ending' && this.keptRows === undefined
  }

  get isInStep(): boolean {
    return this.stepsUnderWay > 0
  }

  /** Whether a transfer of its rows is under way. */
  get isMoving(): boolean {
    return this.leaving !== undefined || this.arriving !== undefined || this.saving !== undefined
  }

  get residency(): Residency {
    return this.isBlocked || (this.stepsUnderWay > 0 && this.waitingRows === 0) ? 'in flight' : this.place
  }

  get isResident(): boolean {
    return this.place === 'resident'
  }

  get canRun(): boolean {
    return this.waitingRows > 0 && !this.isBlocked && this.isResident
  }

  get phase(): Phase {
    return this.source === 'answer' && this.waitingRows === 1 ? 'decode' : this.#phase
  }

  get stepsSkipped(): number {
    if (this.waitingRows === 0) return 0
    return (this.isBlocked ? this.#stepsAtBlock : this.#host.stepsBegun) - this.#stepsTaken
  }

  get neededBytes(): number {
    return this.#neededBytes
  }

  /** What its rows and those that wait would charge in addition. */
  get missingBytes(): number {
    return Math.max(0, this.#neededBytes - this.bufferBytes)
  }

  get chargedBytes(): number {
    return this.bufferBytes + this.heldBytes
  }

  get kvBytes(): number {
    return this.place === 'evicted' ? this.missingBytes : this.chargedBytes
  }

  get growthBytes(): number {
    return this.place === 'evicted' ? 0 : this.missingBytes
  }

  get fullBytes(): number {
    const rows = this.contextLength + this.waitingRows + this.followingRows
    return Math.max(0, this.size.chargeOf(rows) - this.bufferBytes) + (this.place === 'evicted' ? 0 : this.chargedBytes)
  }

  /** What can bring the rows back, or could after an eviction; empty where the stream cannot be evicted. */
  get resumptions(): readonly Resumption[] {
    const { canRecompute, contextLength: length } = this
    // The rows of a tree stay until its owner has chosen from them. A stream without rows has none to load.
    const canLoad = this.#host.hasSlowTier && this.line === length && length !== this.stuckLength && (length > 0 || !canRecompute)
    if (canRecompute) return canLoad ? either : recompute
    return canLoad ? load : neither
  }

  get drainedMs(): number {
    return this.reader?.drainedMs ?? Number.NEGATIVE_INFINITY
  }

  get duePageBytes(): number {
    return pageRows * this.size.bytesPerPosition
  }

  get duePages(): number {
    return this.place === 'resident' ? Math.floor((this.line - this.pageStart) / pageRows) : 0
  }

  /** First row of the page that is saved next. */
  get pageStart(): number {
    return this.writtenRows - (this.writtenRows % pageRows)
  }

  /** So many rows wait from now on. */
  wait(rows: number, phase: Phase, nowMs: number): void {
    this.waitingRows = rows
    this.#phase = phase
    this.arrivedMs = nowMs
    this.#stepsTaken = this.#host.stepsBegun
    this.#measure()
  }

  waitNoMore(): void {
    this.waitingRows = 0
    this.#measure()
  }

  /** A step with some of its rows begins. */
  enterStep(): void {
    this.isBlocked = true
    this.isFresh = false
    this.stepsUnderWay += 1
    this.#stepsAtBlock = this.#host.stepsBegun
    this.#stepsTaken += 1
  }

  /** Other rows can begin. */
  unblock(): void {
    if (!this.isBlocked) return
    this.isBlocked = false
    this.#stepsTaken += this.#host.stepsBegun - this.#stepsAtBlock
  }

  /** A step has computed the next `rows` waiting rows. */
  compute(rows: number): void {
    if (this.line === this.contextLength) this.line += rows
    this.contextLength += rows
    this.waitingRows -= rows
    // Otherwise the rest of them keep their place.
    if (this.waitingRows === 0) this.queueAt = -1
  }

  /** The context ends after so many rows, because the others were lost: they wait again. */
  loseRows(length: number): void {
    this.waitingRows += this.contextLength - length
    this.contextLength = length
    this.line = length
    this.writtenRows = Math.min(this.writtenRows, length)
    if (this.waitingRows > 1) this.#phase = 'prefill'
  }

  /** The first `rows` of those that wait have come from elsewhere. */
  findRows(rows: number): void {
    this.waitingRows -= rows
    this.contextLength += rows
    this.line = this.contextLength
  }

  /**
   * The owner has dropped or moved rows. None wait.
   * @param unmoved leading rows that are as they were
   */
  reshape(length: number, line: number, unmoved: number): void {
    this.contextLength = length
    this.line = line
    this.writtenRows = Math.min(this.writtenRows, unmoved)
    if (this.arriving) this.arriving.heldRows = Math.min(this.arriving.heldRows, unmoved)
    this.#measure()
  }

  #measure(): void {
    this.#neededBytes = this.size.chargeOf(this.contextLength + this.waitingRows)
  }
}
