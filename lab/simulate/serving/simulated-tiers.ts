import type { KvUsage } from '../../../core/policy/admission/kv.ts'
import { pageRows, pagesToSave } from '../../../core/policy/serving/write-through.ts'
import type { Simulation } from '../kernel/simulation.ts'
import type { SimulatedStream } from './simulated-stream.ts'

export interface TierOptions {
  /** KV of the fast tier. */
  readonly memoryBytes: number
  /** KV of the slow tier; 0: there is none, so that rows that leave the memory are computed again. */
  readonly slowBytes: number
  /** Of one direction between the tiers; both work at once. */
  readonly transferBytesPerS: number
  /** Rows are saved while their streams run, rather than only when they are evicted. */
  readonly writeThrough: boolean
  /** Memory is charged and freed piece by piece, so that loads begin while evictions end; else a load waits for them. */
  readonly overlap: boolean
}

/** Rows of a transfer after which what it frees or needs is counted. */
const pieceRows = 8 * pageRows

/**
 * KV in two tiers, as the bridge moves it: evictions and loads one after the other in their own direction, pages written
 * through while steps compute. Mutable.
 */
export class SimulatedTiers {
  readonly #simulation: Simulation
  readonly #options: TierOptions
  readonly #onTransfer: () => void
  #usedBytes = 0
  #slowUsedBytes = 0
  readonly #leaving = new Set<SimulatedStream>()
  readonly #loads: SimulatedStream[] = []
  #isLoading = false
  /** When the writes that were begun have ended. */
  #writtenMs = 0
  /** Resident streams that have complete pages to save. */
  readonly #due = new Set<SimulatedStream>()
  /** Streams with rows in the slow tier. */
  readonly #copied = new Set<SimulatedStream>()
  /** Used is also what loads under way are going to charge, as far as evictions under way do not free it. */
  readonly memory: KvUsage
  readonly slow: KvUsage | undefined
  readonly counts = { preemptions: 0, savedBytes: 0, loadedBytes: 0 }

  /** @param onTransfer a transfer has ended: the next plan may differ */
  constructor(simulation: Simulation, options: TierOptions, onTransfer: () => void) {
    this.#simulation = simulation
    this.#options = options
    this.#onTransfer = onTransfer
    const usedBytes = () => this.#usedBytes + Math.max(0, this.#arrivingBytes - this.leavingBytes)
    const slowUsedBytes = () => this.#slowUsedBytes
    this.memory = {
      budgetBytes: options.memoryBytes,
      get usedBytes() {
        return usedBytes()
      },
    }
    this.slow =
      options.slowBytes > 0
        ? {
            budgetBytes: options.slowBytes,
            get usedBytes() {
              return slowUsedBytes()
            },
          }
        : undefined
  }

  /** What evictions under way are about to free. */
  get leavingBytes(): number {
    let bytes = 0
    for (const { chargedBytes } of this.#leaving) bytes += chargedBytes
    return bytes
  }

  /** Whether an eviction or a load is under way. */
  get isMoving(): boolean {
    return this.#leaving.size + this.#loads.length > 0
  }

  get #arrivingBytes(): number {
    let bytes = 0
    for (const { neededBytes, chargedBytes, isClosed } of this.#loads) if (!isClosed) bytes += neededBytes - chargedBytes
    return bytes
  }

  /** Measured: undefined before the first transfer. */
  get evictBytesPerS(): number | undefined {
    return this.counts.savedBytes > 0 ? this.#options.transferBytesPerS : undefined
  }

  get loadBytesPerS(): number | undefined {
    return this.counts.loadedBytes > 0 ? this.#options.transferBytesPerS : undefined
  }

  /** Raises a stream's charge to so many bytes. @returns false where the memory is exhausted: the charge stays as it was */
  charge(stream: SimulatedStream, bytes: number): boolean {
    const missingBytes = bytes - stream.chargedBytes
    if (missingBytes <= 0) return true
    if (this.#usedBytes + missingBytes > this.#options.memoryBytes) return false
    this.#usedBytes += missingBytes
    stream.chargedBytes = bytes
    return true
  }

  /**
   * Makes an evicted stream resident without its rows, which it will compute again, as soon as evictions under way have freed the
   * memory; still evicted where it is exhausted.
   */
  restart(stream: SimulatedStream): void {
    if (stream.place !== 'evicted') return
    this.#dropCopy(stream)
    const cached = Math.min(stream.cachedRows, stream.contextLength + stream.waitingRows - 1)
    stream.waitingRows += stream.contextLength - cached
    stream.contextLength = cached
    stream.phase = stream.waitingRows > 1 ? 'prefill' : 'decode'
    if (this.charge(stream, stream.neededBytes)) stream.place = 'resident'
    else if (this.#leaving.size === 0) stream.loseRows(0)
    else {
      stream.place = 'in flight'
      stream.loadedRows = cached
      this.#loads.push(stream)
    }
  }

  /** Begins to save the rows that are not saved, and then frees the memory. Without effect where the stream cannot be evicted. */
  evict(stream: SimulatedStream): void {
    if (stream.place !== 'resident' || stream.resumptions.length === 0) return
    this.counts.preemptions += 1
    if (!this.slow || (stream.writtenRows === stream.contextLength && stream.writtenMs <= this.#simulation.nowMs)) {
      this.#leave(stream)
      return
    }
    stream.place = 'in flight'
    this.#leaving.add(stream)
    this.#simulation.at(stream.writtenMs, () => this.#savePiece(stream))
  }

  /** Begins to restore the rows. The stream is resident afterwards, or still evicted where the memory is exhausted. */
  load(stream: SimulatedStream): void {
    if (stream.place !== 'evicted') return
    // Only memory that is about to be freed is worth waiting for.
    if (this.#leaving.size === 0 && !this.charge(stream, stream.neededBytes)) return
    if (stream.contextLength > 0) {
      stream.place = 'in flight'
      this.#loads.push(stream)
      this.#loadNext()
    } else if (this.charge(stream, stream.neededBytes)) stream.place = 'resident'
  }

  /** The stream holds more rows. */
  grown(stream: SimulatedStream): void {
    if (this.slow && this.#options.writeThrough && stream.duePages > 0) this.#due.add(stream)
  }

  /** Saves as many complete pages as fit into the time of a step that has begun, those of the largest buffers first. */
  saveDuring(seconds: number): void {
    const { nowMs } = this.#simulation
    if (this.#due.size === 0 || this.#writtenMs > nowMs) return
    const { transferBytesPerS } = this.#options
    const due = [...this.#due].filter(({ duePages }) => duePages > 0)
    for (const stream of pagesToSave(due, seconds * transferBytesPerS)) {
      const from = stream.pageStart
      if (!this.#write(stream, from, from + pageRows)) break
    }
    for (const stream of this.#due) if (stream.duePages === 0) this.#due.delete(stream)
  }

  /** Frees everything. The stream takes part in nothing any more. */
  release(stream: SimulatedStream): void {
    this.#dropCopy(stream)
    this.#due.delete(stream)
    this.#free(stream, 0)
    this.#leaving.delete(stream)
    this.#loadNext()
  }

  /** Lowers the charge. */
  #free(stream: SimulatedStream, bytes: number): void {
    if (bytes >= stream.chargedBytes) return
    this.#usedBytes -= stream.chargedBytes - bytes
    stream.chargedBytes = bytes
  }

  /** Begins to write rows [from, to) to the slow tier. @returns false where it is full */
  #write(stream: SimulatedStream, from: number, to: number): boolean {
    const { slowBytes, transferBytesPerS } = this.#options
    const { bytesPerPosition } = stream.kv
    const moreBytes = Math.max(0, to * bytesPerPosition - stream.slowBytes)
    if (this.#slowUsedBytes + moreBytes > slowBytes) return false
    const bytes = (to - from) * bytesPerPosition
    this.#slowUsedBytes += moreBytes
    stream.slowBytes += moreBytes
    this.#copied.add(stream)
    this.counts.savedBytes += bytes
    this.#writtenMs = Math.max(this.#writtenMs, this.#simulation.nowMs) + (1_000 * bytes) / transferBytesPerS
    stream.writtenRows = to
    stream.writtenMs = this.#writtenMs
    return true
  }

  #savePiece(stream: SimulatedStream): void {
    if (stream.isClosed) return
    const { overlap } = this.#options
    // Rows that cannot be computed again stay charged until all are safe, because the stream may have to stay.
    if (overlap && stream.canRecompute) {
      this.#free(stream, (stream.contextLength - stream.writtenRows) * stream.kv.bytesPerPosition)
      this.#loadNext()
    }
    const from = stream.pageStart
    const to = Math.min(from + pieceRows, stream.contextLength)
    if (stream.writtenRows < stream.contextLength && this.#writeOrMakeRoom(stream, from, to)) {
      this.#simulation.at(stream.writtenMs, () => this.#savePiece(stream))
      return
    }
    this.#leaving.delete(stream)
    if (stream.writtenRows === stream.contextLength || stream.canRecompute) this.#leave(stream)
    else {
      stream.place = 'resident'
      stream.stuckLength = stream.contextLength
    }
    this.#loadNext()
    this.#onTransfer()
  }

  /** Where the slow tier is full, the copy of the resident stream that is least likely to be preempted makes room. */
  #writeOrMakeRoom(stream: SimulatedStream, from: number, to: number): boolean {
    while (!this.#write(stream, from, to)) {
      let victim: SimulatedStream | undefined
      for (const one of this.#copied) if (one.place === 'resident' && (!victim || one.drainedMs < victim.drainedMs)) victim = one
      if (!victim) return false
      this.#dropCopy(victim)
    }
    return true
  }

  #dropCopy(stream: SimulatedStream): void {
    if (!this.#copied.delete(stream)) return
    this.#slowUsedBytes -= stream.slowBytes
    stream.slowBytes = 0
    stream.writtenRows = 0
  }

  /** Rows that are not saved are dropped, where they can be computed again. */
  #leave(stream: SimulatedStream): void {
    if (stream.canRecompute) stream.loseRows(Math.min(stream.writtenRows, stream.contextLength))
    this.#free(stream, 0)
    stream.place = 'evicted'
  }

  /** Goes on with the first load that is under way, as far as there is memory for it. */
  #loadNext(): void {
    const { overlap, transferBytesPerS } = this.#options
    while (!this.#isLoading) {
      const stream = this.#loads[0]
      if (!stream) return
      const isWaiting = this.#leaving.size > 0
      if (isWaiting && !overlap) return
      const { contextLength, neededBytes, kv } = stream
      const restRows = contextLength - stream.loadedRows
      const isPiece = overlap && restRows > pieceRows && stream.chargedBytes < neededBytes
      const rows = isPiece ? pieceRows : restRows
      const bytes = isPiece ? Math.min(neededBytes, kv.chargeOf(stream.loadedRows + rows)) : neededBytes
      const hasMemory = !stream.isClosed && this.charge(stream, bytes)
      if (!hasMemory && isWaiting && !stream.isClosed) return
      if (!hasMemory || restRows === 0) {
        this.#loads.shift()
        stream.loadedRows = 0
        if (hasMemory) stream.place = 'resident'
        else if (!stream.isClosed) this.#leave(stream)
        this.#onTransfer()
        continue
      }
      const loadedBytes = rows * kv.bytesPerPosition
      this.counts.loadedBytes += loadedBytes
      this.#isLoading = true
      this.#simulation.after((1_000 * loadedBytes) / transferBytesPerS, () => {
        this.#isLoading = false
        stream.loadedRows += rows
        this.#loadNext()
      })
    }
  }
}
