import { randomBytes } from 'node:crypto'
import type { Sequence } from '../../core/engine/contract.ts'

/** What a handle leads to: cached KV, or the open stream that has taken it over. */
export type Prefix<Stream> =
  | { readonly kind: 'cached'; readonly sequence: Sequence }
  | { readonly kind: 'taken'; readonly stream: Stream }

export interface CachedEntry {
  readonly handle: string
  readonly owner: string
  readonly sequence: Sequence
  readonly sinceMs: number
}

/**
 * KV that closed streams have left for later ones. The bridge knows neither tokens nor hashes of them: an owner refers
 * to an entry by its random handle, and finds only its own entries. Holds the sequences; `KvMemory` charges and releases them.
 */
export class PrefixCache<Stream> {
  readonly #entries = new Map<string, { readonly owner: string; readonly sinceMs: number; readonly prefix: Prefix<Stream> }>()

  /** @returns the handle of the sequence */
  add(owner: string, sequence: Sequence, nowMs: number): string {
    const handle = randomBytes(16).toString('hex')
    this.#entries.set(handle, { owner, sinceMs: nowMs, prefix: { kind: 'cached', sequence } })
    return handle
  }

  find(owner: string, handle: string): Prefix<Stream> | undefined {
    const entry = this.#entries.get(handle)
    return entry?.owner === owner ? entry.prefix : undefined
  }

  /** The handle now leads to this stream, so that other streams can copy the same prefix. */
  markTaken(handle: string, stream: Stream): void {
    const entry = this.#entries.get(handle)
    if (entry) this.#entries.set(handle, { ...entry, prefix: { kind: 'taken', stream } })
  }

  /** Deletes the handles of a stream that has closed. */
  forget(stream: Stream): void {
    for (const [handle, { prefix }] of this.#entries)
      if (prefix.kind === 'taken' && prefix.stream === stream) this.#entries.delete(handle)
  }

  /** Deletes all handles of an owner. @returns the cached ones, whose sequences the caller releases */
  deleteOwned(owner: string): CachedEntry[] {
    const cached = this.cached().filter((entry) => entry.owner === owner)
    for (const [handle, entry] of this.#entries) if (entry.owner === owner) this.#entries.delete(handle)
    return cached
  }

  delete(handle: string): void {
    this.#entries.delete(handle)
  }

  /** Oldest first. */
  cached(): CachedEntry[] {
    // A map lists its entries in the order in which they were added.
    return [...this.#entries].flatMap(([handle, { owner, sinceMs, prefix }]) =>
      prefix.kind === 'cached' ? [{ handle, owner, sinceMs, sequence: prefix.sequence }] : [],
    )
  }
}
