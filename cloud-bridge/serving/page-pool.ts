import { uncountedFloats } from '../../core/kit/base/uncounted-memory.ts'
import { loadReleasePages } from '../../core/model/engine/resident-memory.ts'
import { fullValuesOf, type Page } from './slow-tier.ts'

/** Memory is allocated for so many bytes of pages at once. */
const blockBytes = 16 * 2 ** 20

/** Zeroed memory for pages, which is recycled. */
export class PagePool {
  readonly #blocks = new Set<ArrayBufferLike>()
  /** By their number of values. */
  readonly #free = new Map<number, Float32Array[]>()
  readonly #releasePages = loadReleasePages()
  readonly #maxBytes: number
  #bytes = 0

  /** @param maxBytes where blocks exceed this, free pages (of another size) are given back to the system before more are allocated */
  constructor(maxBytes = Number.POSITIVE_INFINITY) {
    this.#maxBytes = maxBytes
  }

  acquire(values: number): Float32Array {
    const free = this.#freeOf(values)
    if (free.length === 0) this.#allocate(values, free)
    return free.pop()!
  }

  /** Zeroes the page, whose memory another one may use then. Memory that is not the pool's own is only zeroed. */
  recycle(page: Page): void {
    const { buffer, byteOffset } = page.values
    page.values.fill(0)
    if (!this.#blocks.has(buffer)) return
    const values = fullValuesOf(page)
    this.#freeOf(values).push(new Float32Array(buffer, byteOffset, values))
  }

  /** Gives the memory of free pages back to the system, until they are used again. */
  releaseFree(): void {
    for (const page of [...this.#free.values()].flat()) this.#releasePages(page)
  }

  #freeOf(values: number): Float32Array[] {
    const free = this.#free.get(values) ?? []
    this.#free.set(values, free)
    return free
  }

  #allocate(values: number, free: Float32Array[]): void {
    const pages = Math.max(1, Math.floor(blockBytes / (values * Float32Array.BYTES_PER_ELEMENT)))
    const block = uncountedFloats(pages * values)
    if (this.#bytes + block.byteLength > this.#maxBytes) this.releaseFree()
    this.#blocks.add(block.buffer)
    this.#bytes += block.byteLength
    for (let page = pages - 1; page >= 0; page--) free.push(block.subarray(page * values, (page + 1) * values))
  }
}
