import { type CachedPrefix, evictionsWithinShare, type KvUsage, kvShortage } from '../admission/kv.ts'
import type { StreamState } from './policy.ts'

/** What one stream is charged. Changed by `KvMemory` alone. */
export interface KvAccount {
  readonly owner: string
  /** An answer waits for memory, and is preempted for others: its owner needs no share. */
  readonly source: StreamState['source']
  /** For its KV: less than the buffers take while its rows leave. */
  bufferBytes: number
  /** Memory that the stream's owner holds beside the KV. */
  heldBytes: number
}

export interface KvMemoryLimits {
  readonly budgetBytes: number
  /** The share of one owner, cached prefixes included. */
  readonly ownerBytes: number
}

/**
 * Shares a fixed amount of KV memory among streams and cached prefixes, of which each owner gets at most its share. Counts bytes;
 * the buffers are elsewhere. Mutable.
 */
export class KvMemory {
  readonly #limits: KvMemoryLimits
  readonly #onEvict: (handle: string) => void
  /** Oldest first, as a map lists its entries in the order in which they were added. */
  readonly #cached = new Map<string, CachedPrefix>()
  /** Bytes charged to each owner that is charged any. */
  readonly #owners = new Map<string, number>()
  #usedBytes = 0
  #cachedBytes = 0

  /** @param onEvict the memory of a cached prefix is needed: its buffers are to be released */
  constructor(limits: KvMemoryLimits, onEvict: (handle: string) => void) {
    this.#limits = limits
    this.#onEvict = onEvict
  }

  get budgetBytes(): number {
    return this.#limits.budgetBytes
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  get cachedBytes(): number {
    return this.#cachedBytes
  }

  /** Oldest first. */
  get cached(): readonly CachedPrefix[] {
    return [...this.#cached.values()]
  }

  isCached(handle: string): boolean {
    return this.#cached.has(handle)
  }

  /** Whether the share of one owner is enough for so many bytes. */
  canHold(bytes: number): boolean {
    return bytes <= this.#limits.ownerBytes
  }

  /** Whether the owner's share holds so much more beside what it is charged for other streams. */
  isWithinShare(account: KvAccount, moreBytes: number): boolean {
    const { owner } = account
    let usedBytes = this.#owners.get(owner) ?? 0
    for (const { owner: other, kvBytes } of this.#cached.values()) if (other === owner) usedBytes -= kvBytes
    return usedBytes + moreBytes <= this.#shareOf(account)
  }

  /** Why the owner gets no more memory. */
  shortageOf(owner: string): string {
    return kvShortage({ owner, budgetBytes: this.#limits.ownerBytes, usedBytes: this.#owners.get(owner) ?? 0 })
  }

  /** Raises the charge for the KV to so many bytes; false where the memory is exhausted: the charge stays as it was. */
  charge(account: KvAccount, bytes: number): boolean {
    return this.#charge(account, 'bufferBytes', bytes)
  }

  /** Sets the charge for memory that the stream's owner holds beside the KV; false where the memory is exhausted. */
  hold(account: KvAccount, bytes: number): boolean {
    if (bytes < account.heldBytes) this.#change(account, 'heldBytes', bytes)
    return this.#charge(account, 'heldBytes', bytes)
  }

  /** Lowers the charge for the KV. */
  lower(account: KvAccount, bytes: number): void {
    if (bytes < account.bufferBytes) this.#change(account, 'bufferBytes', bytes)
  }

  release(account: KvAccount): void {
    this.#change(account, 'bufferBytes', 0)
    this.#change(account, 'heldBytes', 0)
  }

  /** What the stream was charged is charged to a cached prefix from now on. */
  cache(handle: string, account: KvAccount): void {
    const kvBytes = account.bufferBytes + account.heldBytes
    this.#cached.set(handle, { handle, owner: account.owner, kvBytes })
    this.#cachedBytes += kvBytes
    account.bufferBytes = 0
    account.heldBytes = 0
  }

  /** What a cached prefix of the same owner is charged is charged to the stream, in place of its own KV. @returns false where there is none */
  takeCached(handle: string, account: KvAccount): boolean {
    const entry = this.#uncache(handle)
    if (!entry) return false
    this.lower(account, 0)
    account.bufferBytes = entry.kvBytes
    return true
  }

  /** Frees the memory of a cached prefix. */
  evictCached(handle: string): void {
    const entry = this.#uncache(handle)
    if (!entry) return
    this.#count(entry.owner, -entry.kvBytes)
    this.#onEvict(handle)
  }

  #uncache(handle: string): CachedPrefix | undefined {
    const entry = this.#cached.get(handle)
    this.#cached.delete(handle)
    this.#cachedBytes -= entry?.kvBytes ?? 0
    return entry
  }

  #shareOf({ source }: KvAccount): number {
    return source === 'answer' ? this.#limits.budgetBytes : this.#limits.ownerBytes
  }

  /** Evicts cached prefixes if that frees enough memory. */
  #charge(account: KvAccount, what: 'bufferBytes' | 'heldBytes', bytes: number): boolean {
    const missingBytes = bytes - account[what]
    if (missingBytes <= 0) return true
    const ownBytes = this.#owners.get(account.owner) ?? 0
    const fits = this.#usedBytes + missingBytes <= this.budgetBytes && ownBytes + missingBytes <= this.#shareOf(account)
    if (!fits && !this.#evictFor(missingBytes, account, ownBytes)) return false
    this.#change(account, what, bytes)
    return true
  }

  #evictFor(bytes: number, account: KvAccount, ownBytes: number): boolean {
    const usage: KvUsage = { budgetBytes: this.budgetBytes, usedBytes: this.#usedBytes }
    const share = { owner: account.owner, budgetBytes: this.#shareOf(account), usedBytes: ownBytes }
    const evictions = evictionsWithinShare(bytes, usage, share, this.#cached.values())
    for (const { handle } of evictions ?? []) this.evictCached(handle)
    return evictions !== undefined
  }

  #change(account: KvAccount, what: 'bufferBytes' | 'heldBytes', bytes: number): void {
    const byBytes = bytes - account[what]
    if (byBytes === 0) return
    account[what] = bytes
    this.#count(account.owner, byBytes)
  }

  #count(owner: string, byBytes: number): void {
    this.#usedBytes += byBytes
    const ownBytes = (this.#owners.get(owner) ?? 0) + byBytes
    if (ownBytes > 0) this.#owners.set(owner, ownBytes)
    else this.#owners.delete(owner)
  }
}
