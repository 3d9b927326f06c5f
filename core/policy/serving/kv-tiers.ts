import type { KvUsage } from '../admission/kv.ts'
import { Ewma } from '../estimate/ewma.ts'
import type { ServedStream } from './served-stream.ts'
import type { ServedStreams } from './served-streams.ts'
import type { TierOptions } from './serving-rules.ts'
import { SlowTierPages } from './slow-tier-pages.ts'
import { pageRows } from './write-through.ts'

/**
 * The KV of streams in two tiers: the memory, which steps use, and pages of rows in the slow tier. Rows that cannot be saved stay
 * where they are, or are dropped where the stream can recompute them. Mutable.
 */
export class KvTiers {
  readonly pages: SlowTierPages
  readonly #streams: ServedStreams
  /** As TierOptions. */
  readonly #overlap: boolean
  readonly #pieceRows: number
  /** Streams that are being evicted. */
  readonly #leaving = new Set<ServedStream>()
  /** Streams that are being loaded, or wait for the memory to be. */
  readonly #arriving = new Set<ServedStream>()
  /** Of loads, measured. */
  readonly loadBytesPerS = new Ewma()
  /** The memory as plans may use it: used is also what loads under way will charge beyond what evictions under way free. */
  readonly usage: KvUsage

  constructor(streams: ServedStreams, { writeThrough, overlap, piecePages }: TierOptions) {
    this.pages = new SlowTierPages(streams, writeThrough)
    this.#streams = streams
    this.#overlap = overlap
    this.#pieceRows = piecePages * pageRows
    const { memory } = streams
    const usedBytes = () => memory.usedBytes + Math.max(0, this.#arrivingBytes - this.leavingBytes)
    this.usage = {
      budgetBytes: memory.budgetBytes,
      get usedBytes() {
        return usedBytes()
      },
    }
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

  /** Begins to save the rows that are not saved, and then frees the memory. Without effect where the stream cannot be evicted. */
  evict(stream: ServedStream): void {
    if (stream.place !== 'resident' || stream.resumptions.length === 0) return
    this.pages.counts.preemptions += 1
    stream.preemptions += 1
    const isSaved = stream.writtenRows === stream.contextLength && stream.saving === undefined
    if (isSaved || !this.#streams.hasSlowTier) {
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
    if (!this.isEvicting && !this.#charge(stream)) return false
    if (stream.contextLength > 0) this.#arrive(stream, 0)
    else if (this.#charge(stream)) stream.place = 'resident'
    return stream.isResident
  }

  /** The stream's rows are dropped, in both tiers: they wait to be computed again. */
  beginAnew(stream: ServedStream): void {
    stream.loseRows(0)
    this.pages.drop(stream)
  }

  /**
   * Makes an evicted stream resident with the rows that it has, none of which are in the slow tier, as soon as evictions under
   * way have freed the memory; still evicted where it is exhausted.
   */
  restart(stream: ServedStream): void {
    if (this.#charge(stream)) stream.place = 'resident'
    else if (this.isEvicting) this.#arrive(stream, stream.contextLength)
    else this.#leave(stream)
  }

  onSaved(stream: ServedStream, outcome: 'saved' | 'full' | 'failed', seconds: number): void {
    this.pages.onSaved(stream, outcome === 'saved', seconds)
    if (stream.leaving) this.#onLeavingSaved(stream, outcome)
    else if (stream.isClosing) this.#onTransferEnd(stream)
  }

  onLoaded(stream: ServedStream, outcome: 'loaded' | 'lost' | 'failed', seconds: number): void {
    const { arriving } = stream
    if (!arriving?.moving) throw new Error('rows were loaded that no stream loads')
    const { from, to, bytes } = arriving.moving
    arriving.moving = undefined
    if (seconds > 0) this.loadBytesPerS.record(bytes / seconds)
    if (outcome === 'failed') {
      this.#streams.fail(stream, 'transfer')
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

  /** Goes on with the end of a stream that closes, as far as its step and its transfers let it. */
  settle(stream: ServedStream): void {
    if (stream.stage === 'closing' && !stream.isInStep) {
      stream.stage = 'ending'
      if (stream.keptRows === undefined) {
        this.#continueLeaving(stream)
        this.#continueArriving(stream)
      } else {
        stream.reshape(stream.keptRows, stream.keptRows, stream.keptRows)
        this.#streams.memory.hold(stream, 0)
        // The cache counts as memory: what has been preempted must fit again.
        this.load(stream)
      }
    }
    if (stream.stage !== 'ending' || stream.isMoving || this.pages.saveRest(stream)) return
    stream.stage = 'closed'
    this.pages.close(stream)
    this.#streams.actions.push({ kind: 'closed', stream: stream.id, holdsRows: stream.isResident })
  }

  #onTransferEnd(stream: ServedStream): void {
    this.#streams.isDue = true
    this.settle(stream)
  }

  /** Charges what the stream's rows and those that wait need; false where the memory is exhausted. */
  #charge(stream: ServedStream): boolean {
    return this.#streams.memory.charge(stream, stream.neededBytes)
  }

  /** An eviction has freed memory that loads may wait for. */
  #proceed(): void {
    for (const stream of this.#arriving) this.#continueArriving(stream)
  }

  #continueLeaving(stream: ServedStream): void {
    const { leaving, contextLength, writtenRows, pageStart } = stream
    if (!leaving || stream.saving) return
    if (writtenRows === contextLength || stream.isEnding) {
      this.#endLeaving(stream)
      return
    }
    leaving.hasSaved = true
    this.pages.save(stream, Math.min(pageStart + this.#pieceRows, contextLength), false)
  }

  #onLeavingSaved(stream: ServedStream, outcome: 'saved' | 'full' | 'failed'): void {
    const leaving = stream.leaving!
    if (leaving.hasSaved && outcome === 'full' && this.pages.makeRoom()) leaving.awaitsRoom = true
    else if (leaving.hasSaved && outcome !== 'saved') this.#endLeaving(stream)
    else {
      // Rows that cannot be computed again stay charged until all are safe, because the stream may have to stay.
      if (this.#overlap && stream.canRecompute) {
        this.#streams.memory.lower(stream, (stream.contextLength - stream.writtenRows) * stream.size.bytesPerPosition)
        this.#proceed()
      }
      this.#continueLeaving(stream)
    }
  }

  #endLeaving(stream: ServedStream): void {
    this.#leaving.delete(stream)
    stream.leaving = undefined
    if (stream.writtenRows === stream.contextLength || stream.canRecompute) this.#leave(stream)
    else {
      stream.place = 'resident'
      stream.stuckLength = stream.contextLength
      if (!this.#charge(stream)) this.#streams.fail(stream, 'memory')
    }
    this.#proceed()
    this.#onTransferEnd(stream)
  }

  /** Rows that are not saved are dropped, where they can be computed again. */
  #leave(stream: ServedStream): void {
    if (stream.canRecompute && stream.writtenRows < stream.contextLength) stream.loseRows(stream.writtenRows)
    this.#streams.memory.lower(stream, 0)
    stream.place = 'evicted'
    this.#streams.actions.push({ kind: 'leave', stream: stream.id, rows: stream.contextLength })
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
    if (isEvicting && !this.#overlap) return
    if (isEvicting && !arriving.hasWaited) {
      arriving.hasWaited = true
      if (!this.#charge(stream)) return
    }
    const isComplete = arriving.heldRows >= contextLength
    const from = arriving.heldRows - (arriving.heldRows % pageRows)
    let reserve = 0
    if (!isComplete && !arriving.isCharged && this.#charge(stream)) {
      arriving.isCharged = true
      // Buffers that grow piece by piece would be copied each time they double.
      reserve = contextLength + stream.waitingRows
    }
    const neededBytes = isComplete || !this.#overlap ? stream.neededBytes : this.#pieceBytes(stream, from)
    if (!this.#streams.memory.charge(stream, neededBytes)) {
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
    this.pages.counts.loadedBytes += bytes
    this.#streams.actions.push({ kind: 'load', stream: stream.id, from, to, reserve })
  }

  #pieceBytes(stream: ServedStream, from: number): number {
    return Math.min(stream.neededBytes, stream.size.chargeOf(from + this.#pieceRows))
  }

  #endArriving(stream: ServedStream, isThere: boolean): void {
    this.#arriving.delete(stream)
    stream.arriving = undefined
    if (isThere) stream.place = 'resident'
    else this.#leave(stream)
    this.#onTransferEnd(stream)
  }

  #loseRowsFrom(stream: ServedStream, row: number): void {
    stream.writtenRows = Math.min(stream.writtenRows, row)
    if (!stream.canRecompute) this.#streams.fail(stream, 'lost')
    this.#endArriving(stream, false)
  }
}
