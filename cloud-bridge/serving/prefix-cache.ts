import { randomBytes } from 'node:crypto'
import type { Sequence } from '../../core/model/engine/contract.ts'
import type { TokenPrefix } from './token-prefixes.ts'

/** What a handle leads to: cached KV, or the open stream that has taken it over. */
export type Prefix<Stream> =
  | { readonly kind: 'cached'; readonly sequence: Sequence }
  | { readonly kind: 'taken'; readonly stream: Stream }

export interface CachedEntry {
  readonly handle: string
  readonly owner: string
  readonly sequence: Sequence
  readonly sinceMs: number
  /** Of token streams: the ids of its positions. */
  readonly ids: readonly number[] | undefined
}

/**
 * KV that closed streams have left for later ones of the same owner. Of a device's rows the bridge knows neither tokens nor
 * hashes: the device refers to an entry by its random handle. A client's answers are found by their token ids. Holds the
 * sequences; `KvMemory` charges and releases them.
 */
export class PrefixCache<Stream> {
  /** Oldest first, as a map lists its entries in the order in which they were added. */
  readonly #cached = new Map<string, CachedEntry>()
  readonly #taken = new Map<string, { readonly owner: string; readonly stream: Stream }>()
  readonly #handles = new Map<Stream, string>()

  /** @returns the handle of the sequence */
  add(owner: string, sequence: Sequence, nowMs: number, ids?: readonly number[]): string {
    const handle = randomBytes(16).toString('hex')
    this.#cached.set(handle, { handle, owner, sequence, sinceMs: nowMs, ids })
    return handle
  }

  find(owner: string, handle: string): Prefix<Stream> | undefined {
    const cached = this.#cached.get(handle)
    if (cached?.owner === owner) return { kind: 'cached', sequence: cached.sequence }
    const taken = this.#taken.get(handle)
    return taken?.owner === owner ? { kind: 'taken', stream: taken.stream } : undefined
  }

  /** The owner's entries whose ids are known, oldest first. */
  *withIds(owner: string): Iterable<TokenPrefix & { readonly handle: string }> {
    for (const { handle, owner: of, sequence, ids } of this.#cached.values())
      if (ids && of === owner) yield { handle, sequence, ids }
  }

  /** The handle now leads to this stream, so that other streams can copy the same prefix. */
  markTaken(handle: string, stream: Stream): void {
    const entry = this.#cached.get(handle)
    if (!entry) return
    this.#cached.delete(handle)
    this.#taken.set(handle, { owner: entry.owner, stream })
    this.#handles.set(stream, handle)
  }

  /** Deletes the handle of a stream that has closed. */
  forget(stream: Stream): void {
    const handle = this.#handles.get(stream)
    if (handle !== undefined) this.#taken.delete(handle)
    this.#handles.delete(stream)
  }

  /** Deletes all handles of these owners. @returns the cached ones, whose sequences the caller releases */
  deleteOwned(isOwned: (owner: string) => boolean): CachedEntry[] {
    const cached = [...this.cached()].filter(({ owner }) => isOwned(owner))
    for (const { handle } of cached) this.#cached.delete(handle)
    for (const taken of [...this.#taken.values()]) if (isOwned(taken.owner)) this.forget(taken.stream)
    return cached
  }

  /** Deletes a cached prefix, whose sequence the caller releases. @returns undefined where the handle leads to none */
  delete(handle: string): CachedEntry | undefined {
    const entry = this.#cached.get(handle)
    this.#cached.delete(handle)
    return entry
  }

  get oldest(): CachedEntry | undefined {
    return this.#cached.values().next().value
  }

  /** Oldest first. */
  cached(): Iterable<CachedEntry> {
    return this.#cached.values()
  }
}
