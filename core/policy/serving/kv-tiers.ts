import type { KvUsage } from '../admission/kv.ts'
import { Ewma } from '../estimate/ewma.ts'
import type { KvMemory } from './kv-memory.ts'
import type { ServedStream } from './served-stream.ts'
import type { ServingAction } from './serving-events.ts'
import { pageRows, pagesToSave } from './write-through.ts'

export interface TierOptions {
  /** Of the slow tier; 0: there is none, so that rows that leave the memory are lost. */
  readonly slowBytes: number
  /** Rows are saved while their streams run, rather than only when they are evicted. */
  readonly writeThrough: boolean
  /** Memory is charged and freed piece by piece, so that loads begin while evictions end; else a load waits for them. */
  readonly overlap: boolean
  /** Pages of a transfer after which what it frees or needs is counted. */
  readonly piecePages: number
}

/** What the tiers tell the machine that they are a part of. */
export interface TiersHost {
  emit(action: ServingAction): void
  /** The rows that wait cannot be computed. */
  fail(stream: ServedStream, why: 'memory' | 'lost' | 'transfer'): void
  /** A transfer has ended. */
  onTransferEnd(stream: ServedStream): void
}

/**
 * The KV of streams in two tiers: the memory, which steps use, and pages of rows in the slow tier. Rows get there while their
 * streams run (write-through) or when they are evicted. Rows that cannot be saved stay where they are, or are dropped where the
 * stream can recompute them. Of each stream at most one piece is on its way. Mutable.
 */
export class KvTiers {
  readonly memory: KvMemory
  readonly #options: TierOptions
  readonly #host: TiersHost
  readonly #pieceRows: number
  /** Streams that are being evicted. */
  readonly #leaving = new Set<ServedStream>()
  /** Streams that are being loaded, or wait for the memory to be. */
  readonly #arriving = new Set<ServedStream>()
  /** Streams with pages in the slow tier. */
  readonly #copied = new Set<ServedStream>()
  /** Streams that may have complete pages to save. */
  readonly #due = new Set<ServedStream>()
  /** Streams whose pages are being written through. */
  readonly #written = new Set<ServedStream>()
  readonly #evictBytesPerS = new Ewma()
  readonly #loadBytesPerS = new Ewma()
  /** Since the start. */
  readonly counts = { preemptions: 0, savedBytes: 0, loadedBytes: 0 }
  /** The memory as plans may use it: used is also what loads under way will charge beyond what evictions under way free. */
  readonly usage: KvUsage

  constructor(memory: KvMemory, options: TierOptions, host: TiersHost) {
    this.memory = memory
    this.#options = options
    this.#host = host
    this.#pieceRows = options.piecePages * pageRows
    const usedBytes = () => memory.usedBytes + Math.max(0, this.#arrivingBytes - this.leavingBytes)
    this.usage = {
      budgetBytes: memory.budgetBytes,
      get usedBytes() {
        return usedBytes()
      },
    }
  }

  get hasSlowTier(): boolean {
    return this.#options.slowBytes > 0
  }

  /** What evictions under way are about to free. */
  get leavingBytes(): number {
    let bytes = 0
    for (const { chargedBytes } of this.#leaving) bytes += chargedBytes
    return bytes
  }

  get #arrivingBytes(): number {
    let bytes = 0
    for (const { missingBytes } of this.#arriving) bytes += missingBytes
    return bytes
  }

  get isEvicting(): boolean {
    return this.#leaving.size > 0
  }

  /** Whether an eviction or a load is under way. */
  get isMoving(): boolean {
    return this.#leaving.size + this.#arriving.size > 0
  }

  /** Measured: undefined before the first transfer. */
  get evictBytesPerS(): number | undefined {
    return this.#evictBytesPerS.value
  }

  get loadBytesPerS(): number | undefined {
    return this.#loadBytesPerS.value
  }

  /** Charges what the stream's rows and those that wait need; false where the memory is exhausted. */
  charge(stream: ServedStream): boolean {
    return this.memory.charge(stream, stream.neededBytes)
  }

  /** Begins to save the rows that are not saved, and then frees the memory. Without effect where the stream cannot be evicted. */
  evict(stream: ServedStream): void {
    if (stream.place !== 'resident' || stream.isEnding || stream.resumptions.length === 0) return
    this.counts.preemptions += 1
    const isSaved = stream.writtenRows === stream.contextLength && stream.saving === undefined
    if (isSaved || !this.hasSlowTier) {
      this.#leave(stream)
      return
    }
    stream.place = 'in flight'
    stream.leaving = { hasSaved: false, awaitsRoom: false }
    this.#leaving.add(stream)
    this.#continueLeaving(stream)
  }

  /**
   * Begins to restore the rows. The stream is resident afterwards, or still evicted where the memory is exhausted.
   * @returns whether it is resident at once
   */
  load(stream: ServedStream): boolean {
    if (stream.place !== 'evicted' || stream.isEnding) return false
    // Only memory that is about to be freed is worth waiting for.
    if (!this.isEvicting && !this.charge(stream)) return false
    if (stream.contextLength > 0) this.#arrive(stream, 0)
    else if (this.charge(stream)) stream.place = 'resident'
    return stream.isResident
  }

  /** The stream's rows are dropped, in both tiers: they wait to be computed again. */
  beginAnew(stream: ServedStream): void {
    stream.loseRows(0)
    this.#dropCopy(stream)
  }

  /**
   * Makes an evicted stream resident with the rows that it has, none of which are in the slow tier, as soon as evictions under
   * way have freed the memory; still evicted where it is exhausted.
   */
  restart(stream: ServedStream): void {
    if (this.charge(stream)) stream.place = 'resident'
    else if (this.isEvicting) this.#arrive(stream, stream.contextLength)
    else this.#leave(stream)
  }

  /** The stream has more rows. */
  grown(stream: ServedStream): void {
    if (this.#options.writeThrough && this.hasSlowTier && stream.duePages > 0) this.#due.add(stream)
  }

  /** Saves as many complete pages as fit into the time of a step that has begun, those of the largest buffers first. */
  saveDuring(seconds: number): void {
    if (this.#due.size === 0 || this.#written.size > 0) return
    for (const stream of this.#due) if (stream.duePages === 0 || stream.isClosing) this.#due.delete(stream)
    const pages = pagesToSave([...this.#due], seconds * (this.evictBytesPerS ?? 0))
    for (let at = 0; at < pages.length; ) {
      const stream = pages[at]!
      const from = stream.pageStart
      let to = from
      for (; pages[at] === stream; at += 1) to += pageRows
      this.#written.add(stream)
      this.#save(stream, from, to, true)
    }
  }

  onSaved(stream: ServedStream, outcome: 'saved' | 'full' | 'failed', seconds: number): void {
    const { saving } = stream
    if (!saving) throw new Error('rows were saved that no stream saves')
    stream.saving = undefined
    measure(this.#evictBytesPerS, saving.bytes, seconds)
    if (outcome !== 'saved') {
      stream.writtenRows = Math.min(stream.writtenRows, saving.from)
      this.grown(stream)
    }
    this.#written.delete(stream)
    if (stream.leaving) this.#onLeavingSaved(stream, outcome)
    else if (stream.isClosing) this.#host.onTransferEnd(stream)
  }

  onLoaded(stream: ServedStream, outcome: 'loaded' | 'lost' | 'failed', seconds: number): void {
    const { arriving } = stream
    if (!arriving?.moving) throw new Error('rows were loaded that no stream loads')
    const { from, to, bytes } = arriving.moving
    arriving.moving = undefined
    measure(this.#loadBytesPerS, bytes, seconds)
    if (outcome === 'failed') {
      this.#host.fail(stream, 'transfer')
      this.#endArriving(stream, false)
    } else if (outcome === 'lost' || Math.min(to, stream.contextLength) > stream.writtenRows) this.#loseRowsFrom(stream, from)
    else {
      // Otherwise it has been truncated meanwhile.
      if (from <= arriving.heldRows && from < stream.contextLength) arriving.heldRows = Math.min(to, stream.contextLength)
      this.#continueArriving(stream)
    }
  }

  /** The pages of a stream have been freed. */
  onCopyDropped(): void {
    for (const stream of this.#leaving) {
      const { leaving } = stream
      if (!leaving?.awaitsRoom) continue
      leaving.awaitsRoom = false
      this.#continueLeaving(stream)
    }
  }

  /** The stream is ending: its transfers end as soon as they can. */
  end(stream: ServedStream): void {
    this.#continueLeaving(stream)
    this.#continueArriving(stream)
  }

  /** The stream takes part in nothing any more: its pages are freed. */
  close(stream: ServedStream): void {
    this.#dropCopy(stream)
    this.#due.delete(stream)
  }

  /** An eviction has freed memory that loads may wait for. */
  #proceed(): void {
    for (const stream of this.#arriving) this.#continueArriving(stream)
  }

  #save(stream: ServedStream, from: number, to: number, isDuringStep: boolean): void {
    const bytes = (to - from) * stream.size.bytesPerPosition
    stream.saving = { from, to, bytes }
    stream.writtenRows = to
    this.#copied.add(stream)
    this.counts.savedBytes += bytes
    this.#host.emit({ kind: 'save', stream: stream.id, from, to, isDuringStep })
  }

  #continueLeaving(stream: ServedStream): void {
    const { leaving, contextLength, writtenRows, pageStart } = stream
    if (!leaving || stream.saving) return
    if (writtenRows === contextLength || stream.isEnding) {
      this.#endLeaving(stream)
      return
    }
    leaving.hasSaved = true
    this.#save(stream, pageStart, Math.min(pageStart + this.#pieceRows, contextLength), false)
  }

  #onLeavingSaved(stream: ServedStream, outcome: 'saved' | 'full' | 'failed'): void {
    const leaving = stream.leaving!
    if (leaving.hasSaved && outcome === 'full' && this.#makeRoom()) leaving.awaitsRoom = true
    else if (leaving.hasSaved && outcome !== 'saved') this.#endLeaving(stream)
    else {
      // Rows that cannot be computed again stay charged until all are safe, because the stream may have to stay.
      if (this.#options.overlap && stream.canRecompute) {
        this.memory.lower(stream, (stream.contextLength - stream.writtenRows) * stream.size.bytesPerPosition)
        this.#proceed()
      }
      this.#continueLeaving(stream)
    }
  }

  /**
   * Frees the pages of the resident stream that is least likely to be preempted, because its reader's buffer is the smallest.
   * @returns whether there is one
   */
  #makeRoom(): boolean {
    let victim: ServedStream | undefined
    for (const one of this.#copied) if (one.place === 'resident' && (!victim || one.drainedMs < victim.drainedMs)) victim = one
    if (victim) this.#dropCopy(victim)
    return victim !== undefined
  }

  #endLeaving(stream: ServedStream): void {
    this.#leaving.delete(stream)
    stream.leaving = undefined
    if (stream.writtenRows === stream.contextLength || stream.canRecompute) this.#leave(stream)
    else {
      stream.place = 'resident'
      stream.stuckLength = stream.contextLength
      if (!this.charge(stream)) this.#host.fail(stream, 'memory')
    }
    this.#proceed()
    this.#host.onTransferEnd(stream)
  }

  /** Rows that are not saved are dropped, where they can be computed again. */
  #leave(stream: ServedStream): void {
    if (stream.canRecompute && stream.writtenRows < stream.contextLength) stream.loseRows(stream.writtenRows)
    this.memory.lower(stream, 0)
    stream.place = 'evicted'
    this.#host.emit({ kind: 'leave', stream: stream.id, rows: stream.contextLength })
  }

  #arrive(stream: ServedStream, heldRows: number): void {
    stream.place = 'in flight'
    stream.arriving = { heldRows, isCharged: false, hasWaited: false, moving: undefined }
    this.#arriving.add(stream)
    this.#continueArriving(stream)
  }

  #continueArriving(stream: ServedStream): void {
    const { arriving, contextLength } = stream
    if (!arriving || arriving.moving) return
    if (stream.isEnding) {
      this.#endArriving(stream, false)
      return
    }
    const { isEvicting } = this
    if (isEvicting && !this.#options.overlap) return
    if (isEvicting && !arriving.hasWaited) {
      arriving.hasWaited = true
      if (!this.charge(stream)) return
    }
    const isComplete = arriving.heldRows >= contextLength
    const from = arriving.heldRows - (arriving.heldRows % pageRows)
    let reserve = 0
    if (!isComplete && !arriving.isCharged && this.charge(stream)) {
      arriving.isCharged = true
      // Buffers that grow piece by piece would be copied each time they double.
      reserve = contextLength + stream.waitingRows
    }
    const neededBytes = isComplete || !this.#options.overlap ? stream.neededBytes : this.#pieceBytes(stream, from)
    if (!this.memory.charge(stream, neededBytes)) {
      if (!isEvicting) this.#endArriving(stream, false)
      return
    }
    if (isComplete) {
      this.#endArriving(stream, true)
      return
    }
    const to = Math.min(from + this.#pieceRows, contextLength)
    if (to > stream.writtenRows) {
      this.#loseRowsFrom(stream, from)
      return
    }
    // Whole pages, however many of their rows are used.
    const bytes = Math.ceil((to - from) / pageRows) * stream.duePageBytes
    arriving.moving = { from, to, bytes }
    this.counts.loadedBytes += bytes
    this.#host.emit({ kind: 'load', stream: stream.id, from, to, reserve })
  }

  #pieceBytes(stream: ServedStream, from: number): number {
    return Math.min(stream.neededBytes, stream.size.chargeOf(from + this.#pieceRows))
  }

  #endArriving(stream: ServedStream, isThere: boolean): void {
    this.#arriving.delete(stream)
    stream.arriving = undefined
    if (isThere) stream.place = 'resident'
    else this.#leave(stream)
    this.#host.onTransferEnd(stream)
  }

  #loseRowsFrom(stream: ServedStream, row: number): void {
    stream.writtenRows = Math.min(stream.writtenRows, row)
    if (!stream.canRecompute) this.#host.fail(stream, 'lost')
    this.#endArriving(stream, false)
  }

  #dropCopy(stream: ServedStream): void {
    stream.writtenRows = 0
    this.grown(stream)
    if (this.#copied.delete(stream)) this.#host.emit({ kind: 'drop copy', stream: stream.id })
  }
}

function measure(speed: Ewma, bytes: number, seconds: number): void {
  if (seconds > 0) speed.record(bytes / seconds)
}
