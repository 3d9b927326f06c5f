import type { Sequence } from '../../core/engine/contract.ts'
import {
  type CachedPrefix,
  evictionsWithinShare,
  firstKvCharge,
  type KvLimits,
  type KvUsage,
  kvCharge,
  kvShortage,
  positionsWithin,
} from '../../core/policy/admission/kv.ts'
import type { PrefixCache } from './prefix-cache.ts'
import type { SequenceKind } from './served-model.ts'

export interface KvMemoryLimits extends Omit<KvLimits, 'bytesPerPosition'> {
  readonly budgetBytes: number
  /** The share of one owner, cached prefixes included. */
  readonly ownerBytes: number
}

/** What one sequence is charged. */
interface Account {
  readonly owner: string
  readonly kind: SequenceKind
  /** What its owner may be charged in all. */
  readonly shareBytes: number
  /** Its buffers; less while its rows leave. */
  kvBytes: number
  /** Memory that its stream's owner holds beside the KV. */
  heldBytes: number
}

/**
 * Shares a fixed amount of KV memory among the sequences of streams and cached prefixes, of which each owner gets at most its
 * share. Every release zeroes the KV.
 */
export class KvMemory {
  readonly #limits: KvMemoryLimits
  readonly #prefixes: PrefixCache<unknown>
  readonly #accounts = new Map<Sequence, Account>()
  /** Bytes charged to each owner that is charged any. */
  readonly #owners = new Map<string, number>()
  #usedBytes = 0

  constructor(limits: KvMemoryLimits, prefixes: PrefixCache<unknown>) {
    this.#limits = limits
    this.#prefixes = prefixes
  }

  get usage(): KvUsage {
    return { budgetBytes: this.#limits.budgetBytes, usedBytes: this.#usedBytes }
  }

  /** Oldest first. */
  *cached(): Iterable<CachedPrefix> {
    for (const { handle, owner, sequence } of this.#prefixes.cached()) yield { handle, owner, kvBytes: this.chargeOf(sequence) }
  }

  get cachedBytes(): number {
    let bytes = 0
    for (const { kvBytes } of this.cached()) bytes += kvBytes
    return bytes
  }

  /** Bytes charged for this sequence. */
  chargeOf(sequence: Sequence): number {
    const { kvBytes = 0, heldBytes = 0 } = this.#accounts.get(sequence) ?? {}
    return kvBytes + heldBytes
  }

  /** Bytes that `grow` would charge in addition. */
  missingFor(sequence: Sequence, length: number): number {
    return Math.max(0, this.#bytesAt(sequence, length) - (this.#accounts.get(sequence)?.kvBytes ?? 0))
  }

  /** Whether the share of one owner is enough for `length` positions of this sequence. */
  canHold(sequence: Sequence, length: number): boolean {
    return this.#bytesAt(sequence, length) <= this.#limits.ownerBytes
  }

  /** Whether the owner's share holds `length` positions of this sequence beside what it is charged for others. */
  isWithinShare(sequence: Sequence, length: number): boolean {
    const account = this.#accounts.get(sequence)
    if (!account) return false
    let usedBytes = this.#owners.get(account.owner) ?? 0
    for (const { owner, kvBytes } of this.cached()) if (owner === account.owner) usedBytes -= kvBytes
    return usedBytes + this.missingFor(sequence, length) <= account.shareBytes
  }

  /** The longest sequence of this kind that the memory holds, in positions. */
  positionsOf(kind: SequenceKind): number {
    return positionsWithin(this.#limits.budgetBytes, this.#limitsOf(kind))
  }

  /** Why the owner gets no more memory. */
  shortageOf(owner: string): string {
    return kvShortage(this.#shareOf(owner, this.#limits.ownerBytes))
  }

  /**
   * A sequence without rows that is charged nothing yet. Its stream waits for memory, and makes way for others: its owner needs
   * no share.
   */
  createEmpty(owner: string, kind: SequenceKind): Sequence {
    return this.#add(owner, kind, this.#limits.budgetBytes)
  }

  /** As `createEmpty`, but within the owner's share. */
  createWithinShare(owner: string, kind: SequenceKind): Sequence {
    return this.#add(owner, kind, this.#limits.ownerBytes)
  }

  /** Charges a sequence without rows for its first ones; false where the budget, or the owner's share of it, is exhausted. */
  begin(sequence: Sequence): boolean {
    const account = this.#accounts.get(sequence)
    return account !== undefined && this.#charge(sequence, 'kvBytes', firstKvCharge(this.#limitsOf(account.kind)))
  }

  /** Charges what `length` positions need, before the buffers grow; false where the memory is exhausted. */
  grow(sequence: Sequence, length: number): boolean {
    return this.#charge(sequence, 'kvBytes', this.#bytesAt(sequence, length))
  }

  /** Charges memory that the stream's owner holds beside the KV, until the release; false where the memory is exhausted. */
  hold(sequence: Sequence, bytes: number): boolean {
    const account = this.#accounts.get(sequence)
    if (account && bytes < account.heldBytes) this.#change(account, 'heldBytes', bytes)
    return this.#charge(sequence, 'heldBytes', bytes)
  }

  /** Lowers the charge of a sequence that leaves the memory to so many positions. */
  shrink(sequence: Sequence, length: number): void {
    const account = this.#accounts.get(sequence)
    if (account) this.#change(account, 'kvBytes', Math.min(account.kvBytes, length * account.kind.bytesPerPosition))
  }

  /** Frees the buffers and what is charged for them. */
  evict(sequence: Sequence): void {
    sequence.evict()
    this.shrink(sequence, 0)
  }

  release(sequence: Sequence): void {
    const account = this.#accounts.get(sequence)
    if (account) {
      this.#change(account, 'kvBytes', 0)
      this.#change(account, 'heldBytes', 0)
    }
    this.#accounts.delete(sequence)
    sequence.release()
  }

  /** Frees the memory of a cached prefix. */
  evictPrefix(handle: string): void {
    const entry = this.#prefixes.delete(handle)
    if (entry) this.release(entry.sequence)
  }

  #add(owner: string, kind: SequenceKind, shareBytes: number): Sequence {
    const sequence = kind.create()
    this.#accounts.set(sequence, { owner, kind, shareBytes, kvBytes: 0, heldBytes: 0 })
    return sequence
  }

  #bytesAt(sequence: Sequence, length: number): number {
    const account = this.#accounts.get(sequence)
    return account ? Math.max(sequence.bytes, kvCharge(length, this.#limitsOf(account.kind))) : 0
  }

  #limitsOf({ bytesPerPosition }: SequenceKind): KvLimits {
    return { ...this.#limits, bytesPerPosition }
  }

  #shareOf(owner: string, budgetBytes: number) {
    return { owner, budgetBytes, usedBytes: this.#owners.get(owner) ?? 0 }
  }

  /** Evicts cached prefixes if that frees enough memory. */
  #charge(sequence: Sequence, what: 'kvBytes' | 'heldBytes', bytes: number): boolean {
    const account = this.#accounts.get(sequence)
    if (!account) return false
    const missingBytes = bytes - account[what]
    if (missingBytes <= 0) return true
    const evictions = evictionsWithinShare(
      missingBytes,
      this.usage,
      this.#shareOf(account.owner, account.shareBytes),
      this.cached(),
    )
    if (!evictions) return false
    for (const { handle } of evictions) this.evictPrefix(handle)
    this.#change(account, what, bytes)
    return true
  }

  #change(account: Account, what: 'kvBytes' | 'heldBytes', bytes: number): void {
    const byBytes = bytes - account[what]
    account[what] = bytes
    this.#usedBytes += byBytes
    const ownBytes = (this.#owners.get(account.owner) ?? 0) + byBytes
    if (ownBytes > 0) this.#owners.set(account.owner, ownBytes)
    else this.#owners.delete(account.owner)
  }
}
