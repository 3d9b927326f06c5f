import { setImmediate as nextTurn } from 'node:timers/promises'
import { BrimError } from '../../core/base/errors.ts'
import type { Sequence } from '../../core/engine/contract.ts'
import type { Residency, Resumption } from '../../core/policy/serving/policy.ts'
import { pageRows } from '../../core/policy/serving/write-through.ts'
import type { KvTiers, TieredKv } from './kv-tiers.ts'
import type { SlowCopy, SlowTier } from './slow-tier.ts'

/** What a stream tells about itself to its KV. */
export interface KvOwner {
  /** Whether the stream can compute lost rows again. */
  readonly canRecompute: boolean
  /** Rows that it is going to append. */
  readonly waitingRows: number
  /** When its reader will have read everything; the lowest number without a reader. */
  readonly drainedMs: number
  /** The rows that wait cannot be computed. */
  failWaiting(error: unknown): void
  outOfMemory(length: number): BrimError
}

/** After so many pages a load lets other work of the process proceed. */
const pagesPerTurn = 8

/**
 * The KV of one stream in both tiers: the sequence, which steps use, and pages of its rows in the slow tier. Rows get there
 * while the stream runs (write-through) or when it is evicted. Rows that cannot be saved stay where they are, or are dropped
 * where the stream can recompute them.
 */
export class StreamKv implements TieredKv {
  readonly #owner: KvOwner
  readonly #tiers: KvTiers
  #sequence: Sequence
  #residency: Residency
  /** Leading rows that the slow tier holds, or that are on their way there. */
  #saved = 0
  #copy: SlowCopy | undefined
  readonly #saves = new Set<Promise<boolean>>()
  #transfer: Promise<void> | undefined
  /** Rows of a stream that could not be evicted; it can be once it has others, so that it is not tried again all the time. */
  #stuckLength: number | undefined
  #isClosing = false

  constructor(sequence: Sequence, residency: 'resident' | 'evicted', owner: KvOwner, tiers: KvTiers) {
    this.#sequence = sequence
    this.#residency = residency
    this.#owner = owner
    this.#tiers = tiers
  }

  get sequence(): Sequence {
    return this.#sequence
  }

  /** `in flight` during a transfer. */
  get residency(): Residency {
    return this.#residency
  }

  get chargedBytes(): number {
    return this.#tiers.memory.chargeOf(this.#sequence)
  }

  get missingBytes(): number {
    return this.#tiers.memory.missingFor(this.#sequence, this.#sequence.length + this.#owner.waitingRows)
  }

  get savedRows(): number {
    return this.#saved
  }

  get drainedMs(): number {
    return this.#owner.drainedMs
  }

  get duePageBytes(): number {
    return pageRows * this.#sequence.rowValues * 4
  }

  get duePages(): number {
    return this.#residency === 'resident' ? Math.floor((this.#sequence.line - this.#pageStart) / pageRows) : 0
  }

  /** What can bring the rows back, or could after an eviction; empty where the stream cannot be evicted. */
  get resumptions(): readonly Resumption[] {
    const { line, length } = this.#sequence
    const { canRecompute } = this.#owner
    // The rows of a tree stay until its owner has chosen from them. A stream without rows has none to load.
    const canLoad = this.#tiers.slow && line === length && length !== this.#stuckLength && (length > 0 || !canRecompute)
    return [...(canLoad ? (['load'] as const) : []), ...(canRecompute ? (['recompute'] as const) : [])]
  }

  truncate(length: number): void {
    this.#sequence.truncate(length)
    this.#saved = Math.min(this.#saved, length)
  }

  gather(keep: number, rows: readonly number[]): void {
    this.#sequence.gather(keep, rows)
    const moved = rows.findIndex((row, at) => row !== keep + at)
    this.#saved = Math.min(this.#saved, keep + (moved < 0 ? rows.length : moved))
  }

  /** Begins to save the rows that are not saved, and then frees the memory. Without effect where the stream cannot be evicted. */
  evict(): void {
    if (this.#residency !== 'resident' || this.#isClosing || this.resumptions.length === 0) return
    const { slow, counts } = this.#tiers
    counts.preemptions += 1
    const isSaved = this.#saved === this.#sequence.length && this.#saves.size === 0
    if (isSaved || !slow) this.#leave()
    else this.#begin(() => this.#saveAndLeave(slow))
  }

  /** Begins to restore the rows. The stream is resident afterwards, or still evicted where the memory is exhausted. */
  load(): void {
    if (this.#residency !== 'evicted' || this.#isClosing) return
    // Only memory that is about to be freed is worth waiting for.
    if (!this.#tiers.evictionProgress && !this.#charge()) return
    if (this.#sequence.length > 0) this.#begin(() => this.#loadRows())
    else if (this.#charge()) this.#residency = 'resident'
  }

  /**
   * Makes an evicted stream resident without its rows, which it will compute again, as soon as evictions under way have freed the
   * memory; still evicted where it is exhausted.
   * @param beginWith the sequence in place of the empty one, which it may return
   */
  restart(beginWith: (empty: Sequence) => Sequence): void {
    if (this.#residency !== 'evicted' || this.#isClosing) return
    this.#beginAnew(beginWith)
    if (this.#charge()) this.#residency = 'resident'
    else if (this.#tiers.evictionProgress) this.#begin(() => this.#loadRows())
    else this.#leave()
  }

  /** Replaces the rows of a resident stream by others. @param beginWith as for `restart` */
  replace(beginWith: (empty: Sequence) => Sequence): void {
    if (this.#residency === 'resident' && !this.#isClosing) this.#beginAnew(beginWith)
  }

  #beginAnew(beginWith: (empty: Sequence) => Sequence): void {
    this.truncate(0)
    void this.dropCopy()
    this.#sequence = beginWith(this.#sequence)
  }

  async dropCopy(): Promise<void> {
    const copy = this.#copy
    this.#copy = undefined
    this.#saved = 0
    if (copy) await this.#tiers.closeCopy(this, copy)
  }

  async saveDuePage(): Promise<boolean> {
    const { slow } = this.#tiers
    return this.duePages === 0 || this.#isClosing || !slow || this.#savePage(slow)
  }

  /** Resolves when no transfer is under way. */
  async settled(): Promise<void> {
    while (this.#transfer) await this.#transfer
  }

  /** Ends all transfers. The caller releases or caches the sequence. @returns whether it holds its rows */
  async close(): Promise<boolean> {
    this.#isClosing = true
    await this.settled()
    await Promise.all(this.#saves)
    void this.dropCopy()
    return this.#residency === 'resident'
  }

  get #pageStart(): number {
    return this.#saved - (this.#saved % pageRows)
  }

  #charge(length = this.#sequence.length + this.#owner.waitingRows): boolean {
    return this.#tiers.memory.grow(this.#sequence, length)
  }

  #begin(transfer: () => Promise<void>): void {
    this.#residency = 'in flight'
    this.#transfer = transfer()
      .catch((error: unknown) => {
        this.#leave()
        this.#owner.failWaiting(error)
      })
      .finally(() => {
        this.#transfer = undefined
        this.#tiers.onTransfer()
      })
  }

  /** Saves the page of the first row that is not saved. @returns false where the slow tier is full or failing */
  #savePage(slow: SlowTier): Promise<boolean> {
    const sequence = this.#sequence
    const from = this.#pageStart
    const to = Math.min(from + pageRows, sequence.length)
    const values = slow.allocate(pageRows * sequence.rowValues).subarray(0, (to - from) * sequence.rowValues)
    const save = this.#tiers
      .savePage(values.byteLength, () => {
        this.#copy ??= this.#tiers.openCopy(this, slow)
        sequence.readRows(from, to, values)
        return this.#copy.save(from / pageRows, { rows: to - from, values })
      })
      .then((isSaved) => {
        this.#saves.delete(save)
        if (!isSaved) this.#saved = Math.min(this.#saved, from)
        return isSaved
      })
    this.#saves.add(save)
    this.#saved = to
    return save
  }

  async #saveAndLeave(slow: SlowTier): Promise<void> {
    const { canRecompute } = this.#owner
    const { memory, overlap } = this.#tiers
    const sequence = this.#sequence
    let progress: Promise<unknown> = Promise.all(this.#saves)
    try {
      this.#tiers.onEviction(this, progress)
      await progress
      while (this.#saved < sequence.length && !this.#isClosing) {
        progress = this.#savePage(slow)
        this.#tiers.onEviction(this, progress)
        if (!(await progress) && !(await this.#tiers.makeRoom(this.duePageBytes))) break
        // Rows that cannot be computed again stay charged until all are safe, because the stream may have to stay.
        if (overlap && canRecompute) memory.shrink(sequence, sequence.length - this.#saved)
      }
      if (this.#saved === sequence.length || canRecompute) return this.#leave()
      this.#residency = 'resident'
      this.#stuckLength = sequence.length
      const length = sequence.length + this.#owner.waitingRows
      if (!this.#charge(length)) this.#owner.failWaiting(this.#owner.outOfMemory(length))
    } finally {
      this.#tiers.onEvictionEnd(this)
    }
  }

  /** Rows that are not saved are dropped, where they can be computed again. */
  #leave(): void {
    if (this.#owner.canRecompute) this.#sequence.truncate(Math.min(this.#saved, this.#sequence.length))
    this.#tiers.memory.evict(this.#sequence)
    this.#residency = 'evicted'
  }

  async #loadRows(): Promise<void> {
    this.#tiers.onLoad(this)
    try {
      await this.#loadPages()
    } finally {
      this.#tiers.onLoadEnd(this)
    }
  }

  async #loadPages(): Promise<void> {
    const { overlap } = this.#tiers
    const sequence = this.#sequence
    while (!overlap && this.#tiers.evictionProgress) await this.#evictionProgress()
    // What leaves has been saved before, as a rule, and is gone at once.
    if (this.#tiers.evictionProgress && !this.#charge()) await this.#evictionProgress()
    let isCharged = false
    let pages = 0
    while (sequence.held < sequence.length && !this.#isClosing) {
      const at = Math.floor(sequence.held / pageRows)
      if (!isCharged && this.#charge()) {
        isCharged = true
        // Buffers that grow page by page would be copied each time they double.
        sequence.reserve(sequence.length + this.#owner.waitingRows)
      }
      if (!(await this.#chargeSoon(overlap ? (at + 1) * pageRows : undefined))) return this.#leave()
      if (!(await this.#loadPage(at))) return this.#loseRowsFrom(at * pageRows)
      pages += 1
      if (pages % pagesPerTurn === 0) await nextTurn()
    }
    if (!this.#isClosing && (await this.#chargeSoon())) this.#residency = 'resident'
    else this.#leave()
  }

  /** Charges as memory becomes free. @param length default: with the rows that wait; @returns false if it will not */
  async #chargeSoon(length?: number): Promise<boolean> {
    while (!this.#charge(length)) {
      if (!this.#tiers.evictionProgress || this.#isClosing) return false
      await this.#evictionProgress()
    }
    return true
  }

  async #evictionProgress(): Promise<void> {
    await this.#tiers.evictionProgress
    await nextTurn()
  }

  /** @returns false where the rows are lost */
  #loadPage(at: number): Promise<boolean> {
    const sequence = this.#sequence
    return this.#tiers.measureLoad(this.duePageBytes, async () => {
      const page = await this.#copy?.load(at)
      const from = at * pageRows
      // Truncated meanwhile.
      if (from > sequence.held || from >= sequence.length) return true
      const to = Math.min(from + pageRows, sequence.length)
      if (!page || from + page.rows < to || to > this.#saved) return false
      sequence.writeRows(from, from + page.rows, page.values)
      return true
    })
  }

  #loseRowsFrom(row: number): void {
    this.#saved = Math.min(this.#saved, row)
    this.#leave()
    if (this.#owner.canRecompute) return
    this.#owner.failWaiting(
      new BrimError('SESSION_UNKNOWN', "the stream's KV was lost while it was preempted: the slow tier failed"),
    )
  }
}
