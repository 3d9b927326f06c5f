import { sessionWaitMs } from '../admission/session.ts'
import type { KvMemory } from './kv-memory.ts'
import type { ServedStream } from './served-stream.ts'

export interface MemoryWaitLimits {
  /** Rows of a device wait so long for memory that others hold. */
  readonly maxMemoryWaitMs: number
  /** They wait for as long as others need it. */
  readonly waitsForMemory: boolean
  /** As ServingPolicy. */
  readonly heedsReaders: boolean
}

/** Devices' streams whose rows wait for memory, each for a limited time. Mutable. */
export class MemoryWaits {
  readonly #memory: KvMemory
  readonly #limits: MemoryWaitLimits
  readonly #untilMs = new Map<ServedStream, number>()

  constructor(memory: KvMemory, limits: MemoryWaitLimits) {
    this.#memory = memory
    this.#limits = limits
  }

  /** When the first of them has waited too long. */
  get nextMs(): number | undefined {
    let next: number | undefined
    for (const atMs of this.#untilMs.values()) if (next === undefined || atMs < next) next = atMs
    return next
  }

  /** Begins a wait, where there is none: for the first memory of a session, or that of more rows. */
  begin(stream: ServedStream, nowMs: number): void {
    const { maxMemoryWaitMs, waitsForMemory } = this.#limits
    if (waitsForMemory || stream.source === 'answer' || stream.waitingRows === 0 || this.#untilMs.has(stream)) return
    this.#untilMs.set(stream, nowMs + (stream.isNew ? sessionWaitMs : maxMemoryWaitMs))
  }

  end(stream: ServedStream): void {
    this.#untilMs.delete(stream)
  }

  /** @param expire called for those that have waited too long: their rows fail, so that the device can replay them at another bridge */
  expire(nowMs: number, expire: (stream: ServedStream) => void): void {
    for (const [stream, atMs] of this.#untilMs) {
      if (atMs > nowMs) continue
      this.#untilMs.delete(stream)
      if (stream.isNew || !(stream.isInStep || (stream.isResident && stream.missingBytes === 0))) expire(stream)
    }
  }

  /** Whether the owner's share holds what waits, and the memory could, once all the others are preempted that can be. */
  couldEnd(stream: ServedStream, others: Iterable<ServedStream>): boolean {
    const { missingBytes } = stream
    if (this.#limits.waitsForMemory) return true
    if (!this.#memory.isWithinShare(stream, missingBytes)) return false
    const { budgetBytes, usedBytes, cachedBytes } = this.#memory
    let bytes = budgetBytes - usedBytes + cachedBytes
    for (const other of others) if (!other.isClosing && this.#isPreemptible(other, stream)) bytes += other.chargedBytes
    return bytes >= missingBytes
  }

  /** Whether a stream can be preempted for another one: the earlier session goes first, unless readers count. */
  #isPreemptible(stream: ServedStream, other: ServedStream): boolean {
    if (stream.source === 'answer') return true
    const comesLater = stream.id > other.id || (this.#limits.heedsReaders && stream.reader !== undefined && stream !== other)
    return comesLater && stream.resumptions.length > 0
  }
}
