import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { sampledWarnings, type Warn } from '../../core/base/sampled-warnings.ts'
import type { KvUsage } from '../../core/policy/admission/kv.ts'
import { Ewma } from '../../core/policy/estimate/ewma.ts'
import type { Residency } from '../../core/policy/serving/policy.ts'
import { pagesToSave, type UnsavedRows } from '../../core/policy/serving/write-through.ts'
import type { KvMemory } from './kv-memory.ts'
import type { SlowCopy, SlowTier } from './slow-tier.ts'

export interface KvTiersOptions {
  readonly memory: KvMemory
  /** Undefined: rows that leave the memory are lost, so that only streams that can recompute them are preempted. */
  readonly slow: SlowTier | undefined
  /** Rows are saved while their streams run, rather than only when they are evicted. */
  readonly writeThrough: boolean
  /** Memory is charged and freed page by page, so that loads begin while evictions end; else a load waits for them. */
  readonly overlap: boolean
  readonly clock: Clock
  readonly logger: Logger
  /** A transfer has ended: the next plan may differ. */
  onTransfer(): void
}

/** The KV of one stream, in both tiers. */
export interface TieredKv extends UnsavedRows {
  readonly residency: Residency
  /** What it is charged in the fast tier. */
  readonly chargedBytes: number
  /** What its rows and those that wait would charge in addition. */
  readonly missingBytes: number
  /** Saves the next complete page, if there is one. @returns false where the slow tier is full or failing */
  saveDuePage(): Promise<boolean>
  /** Frees its pages in the slow tier. Not while it is evicted. */
  dropCopy(): Promise<void>
}

/** What the KV of all streams shares: the two tiers, their speeds, and the transfers under way. */
export class KvTiers {
  readonly memory: KvMemory
  readonly slow: SlowTier | undefined
  readonly overlap: boolean
  readonly onTransfer: () => void
  readonly #writeThrough: boolean
  readonly #clock: Clock
  readonly #warn: Warn
  readonly #evictBytesPerS = new Ewma()
  readonly #loadBytesPerS = new Ewma()
  /** Streams with pages in the slow tier. */
  readonly #copied = new Set<TieredKv>()
  readonly #closing = new Set<Promise<void>>()
  #isSaving = false
  /** Since the start. */
  readonly counts = { preemptions: 0, savedBytes: 0, loadedBytes: 0 }
  /** Streams that are being loaded. */
  readonly #loads = new Set<TieredKv>()
  /** The save that each eviction under way waits for. */
  readonly #evictions = new Map<TieredKv, Promise<unknown>>()

  constructor({ memory, slow, writeThrough, overlap, clock, logger, onTransfer }: KvTiersOptions) {
    this.memory = memory
    this.slow = slow
    this.overlap = overlap
    this.onTransfer = onTransfer
    this.#writeThrough = writeThrough && slow !== undefined
    this.#clock = clock
    this.#warn = sampledWarnings(logger, clock)
  }

  get speeds() {
    return { evictBytesPerS: this.#evictBytesPerS.value, loadBytesPerS: this.#loadBytesPerS.value }
  }

  /** @param slow where rows are saved */
  openCopy(kv: TieredKv, slow: SlowTier): SlowCopy {
    this.#copied.add(kv)
    return slow.open()
  }

  closeCopy(kv: TieredKv, copy: SlowCopy): Promise<void> {
    this.#copied.delete(kv)
    const closed = copy.release().finally(() => this.#closing.delete(closed))
    this.#closing.add(closed)
    return closed
  }

  /** @param save as SlowCopy.save; @returns false also where it throws: whatever is wrong, the bridge goes on with the rows it has */
  async savePage(bytes: number, save: () => Promise<boolean>): Promise<boolean> {
    this.counts.savedBytes += bytes
    try {
      return await this.#measure(this.#evictBytesPerS, bytes, save)
    } catch (err) {
      this.#warn({ err }, 'KV not saved')
      return false
    }
  }

  measureLoad<Result>(bytes: number, transfer: () => Promise<Result>): Promise<Result> {
    this.counts.loadedBytes += bytes
    return this.#measure(this.#loadBytesPerS, bytes, transfer)
  }

  /** An eviction is under way, and waits for this save. */
  onEviction(kv: TieredKv, save: Promise<unknown>): void {
    this.#evictions.set(kv, save)
  }

  onEvictionEnd(kv: TieredKv): void {
    this.#evictions.delete(kv)
  }

  onLoad(kv: TieredKv): void {
    this.#loads.add(kv)
  }

  onLoadEnd(kv: TieredKv): void {
    this.#loads.delete(kv)
  }

  /** The fast tier as plans may use it: used is also what loads under way will charge beyond what evictions under way free. */
  get usage(): KvUsage {
    const { budgetBytes, usedBytes } = this.memory.usage
    let arrivingBytes = 0
    for (const { missingBytes } of this.#loads) arrivingBytes += missingBytes
    return { budgetBytes, usedBytes: usedBytes + Math.max(0, arrivingBytes - this.leavingBytes) }
  }

  /** What evictions under way are about to free. */
  get leavingBytes(): number {
    let bytes = 0
    for (const { chargedBytes } of this.#evictions.keys()) bytes += chargedBytes
    return bytes
  }

  /** Resolves when an eviction under way has freed memory, or has ended; undefined where none is. */
  get evictionProgress(): Promise<unknown> | undefined {
    return this.#evictions.size === 0 ? undefined : Promise.race(this.#evictions.values())
  }

  /**
   * Where the slow tier lacks the budget for so many bytes: frees the pages of the resident stream that is least likely to be
   * preempted, because its reader's buffer is the smallest. @returns whether another attempt may succeed
   */
  async makeRoom(bytes: number): Promise<boolean> {
    if (!this.slow || this.slow.usage.usedBytes + bytes <= this.slow.usage.budgetBytes) return false
    const resident = [...this.#copied].filter(({ residency }) => residency === 'resident')
    const [victim] = resident.sort((a, b) => a.drainedMs - b.drainedMs)
    await victim?.dropCopy()
    return victim !== undefined
  }

  /** Saves as many complete pages as fit into the time of a step that has begun, those of the largest buffers first. */
  async saveDuring(seconds: number | undefined, kvs: Iterable<TieredKv>): Promise<void> {
    if (!this.#writeThrough || this.#isSaving) return
    this.#isSaving = true
    const due = Array.from(kvs).filter(({ duePages }) => duePages > 0)
    const bytes = (seconds ?? 0) * (this.#evictBytesPerS.value ?? 0)
    try {
      for (const kv of pagesToSave(due, bytes)) if (!(await kv.saveDuePage())) break
    } finally {
      this.#isSaving = false
    }
  }

  /** Resolves when all copies are freed whose streams have closed. */
  async close(): Promise<void> {
    await Promise.all(this.#closing)
    await this.slow?.close()
  }

  async #measure<Result>(speed: Ewma, bytes: number, transfer: () => Promise<Result>): Promise<Result> {
    const startedMs = this.#clock.nowMs()
    const result = await transfer()
    const elapsedMs = this.#clock.nowMs() - startedMs
    if (elapsedMs > 0) speed.record((bytes * 1_000) / elapsedMs)
    return result
  }
}
