import type { Clock } from '../../core/kit/base/clock.ts'
import type { Warn } from '../../core/kit/base/sampled-warnings.ts'
import type { Sequence } from '../../core/model/engine/contract.ts'
import { pageRows } from '../../core/policy/serving/write-through.ts'
import type { PageKeys } from './page-keys.ts'
import type { SlowCopy, SlowTier } from './slow-tier.ts'

export interface StreamKvHost {
  /** Undefined: rows that leave the memory are lost. */
  readonly slow: SlowTier | undefined
  readonly clock: Clock
  readonly warn: Warn
}

interface Transferred<Outcome> {
  readonly outcome: Outcome
  /** 0: unknown. */
  readonly seconds: number
}

/** The rows of one stream: the sequence, which steps use, and pages of them in the slow tier. Moves the rows that the machine names. */
export class StreamKv {
  sequence: Sequence
  /** Why rows could not be loaded. */
  failure: unknown
  readonly #host: StreamKvHost
  readonly #keys: PageKeys | undefined
  #copy: SlowCopy | undefined

  /** @param keys of its pages, which may outlive the stream; absent: they do not */
  constructor(sequence: Sequence, host: StreamKvHost, keys?: PageKeys) {
    this.sequence = sequence
    this.#host = host
    this.#keys = keys
  }

  /** Whether its pages can be left to a later stream. */
  get hasKeys(): boolean {
    return this.#keys !== undefined
  }

  /** The pages that an earlier stream has left are this stream's from now on. @param maxRows of them @returns their rows */
  takePages(maxRows: number): number {
    if (!this.#keys) return 0
    const taken = this.#host.slow?.take(this.#keys, this.#keys.first(Math.floor(maxRows / pageRows)))
    this.#copy = taken?.copy
    return (taken?.pages ?? 0) * pageRows
  }

  /** Saves the rows of pages. @param from the first of a page. Whatever is wrong, the bridge goes on with the rows that it has. */
  async save(from: number, to: number): Promise<Transferred<'saved' | 'full' | 'failed'>> {
    const { slow, clock, warn } = this.#host
    if (!slow) return { outcome: 'failed', seconds: 0 }
    const startedMs = clock.nowMs()
    try {
      for (let row = from; row < to; row += pageRows)
        if (!(await this.#savePage(slow, row, Math.min(row + pageRows, to))))
          return { outcome: this.#isFull(slow) ? 'full' : 'failed', seconds: 0 }
      return { outcome: 'saved', seconds: (clock.nowMs() - startedMs) / 1_000 }
    } catch (err) {
      warn({ err }, 'KV not saved')
      return { outcome: 'failed', seconds: 0 }
    }
  }

  async #savePage(slow: SlowTier, from: number, to: number): Promise<boolean> {
    const { rowValues } = this.sequence
    const values = slow.allocate(pageRows * rowValues).subarray(0, (to - from) * rowValues)
    this.#copy ??= slow.open(this.#keys)
    const copy = this.#copy
    await this.sequence.readRows(from, to, values)
    const at = from / pageRows
    return copy.save(at, { rows: to - from, values }, to - from === pageRows ? this.#keys?.at(at) : undefined)
  }

  /** Loads rows of one page. @param reserve the buffers are to hold so many rows; 0: as many as are loaded */
  async load(from: number, reserve: number): Promise<Transferred<'loaded' | 'lost' | 'failed'>> {
    const { clock } = this.#host
    const startedMs = clock.nowMs()
    try {
      if (reserve > 0) this.sequence.reserve(reserve)
      const page = await this.#copy?.load(from / pageRows)
      const outcome = this.#write(from, page)
      return { outcome, seconds: (clock.nowMs() - startedMs) / 1_000 }
    } catch (error) {
      this.failure = error
      return { outcome: 'failed', seconds: 0 }
    }
  }

  /** Frees the buffers. The rows after the first `rows` are lost. */
  leave(rows: number): void {
    if (this.sequence.length > rows) this.sequence.truncate(rows)
    this.sequence.evict()
  }

  /** @param isLeft to a later stream, if there is a tier for it; else the pages are freed */
  async endCopy(isLeft: boolean): Promise<void> {
    const copy = this.#copy
    this.#copy = undefined
    await (isLeft ? copy?.leave() : copy?.release())
  }

  /** @param page undefined: it is lost */
  #write(from: number, page: { readonly rows: number; readonly values: Float32Array } | undefined): 'loaded' | 'lost' {
    const { held, length } = this.sequence
    // Truncated meanwhile.
    if (from > held || from >= length) return 'loaded'
    if (!page || from + page.rows < Math.min(from + pageRows, length)) return 'lost'
    this.sequence.writeRows(from, from + page.rows, page.values)
    return 'loaded'
  }

  #isFull({ usage }: SlowTier): boolean {
    return usage.usedBytes + pageRows * this.sequence.rowValues * Float32Array.BYTES_PER_ELEMENT > usage.budgetBytes
  }
}
