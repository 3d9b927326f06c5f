import { BrimError } from '../../core/base/errors.ts'
import type { Part, Sequence } from '../../core/engine/contract.ts'
import {
  type CachedPrefix,
  evictionsFor,
  firstKvCharge,
  type KvLimits,
  type KvUsage,
  kvCharge,
} from '../../core/policy/admission/kv.ts'
import type { PrefixCache } from './prefix-cache.ts'

/** Shares a fixed amount of KV memory among the sequences of streams and cached prefixes. Every release zeroes the KV. */
export class KvMemory {
  readonly #part: Part
  readonly #limits: KvLimits
  readonly #budgetBytes: number
  readonly #prefixes: PrefixCache<unknown>
  readonly #charges = new Map<Sequence, number>()
  #usedBytes = 0

  constructor(part: Part, limits: KvLimits & { readonly budgetBytes: number }, prefixes: PrefixCache<unknown>) {
    this.#part = part
    this.#limits = limits
    this.#budgetBytes = limits.budgetBytes
    this.#prefixes = prefixes
  }

  get usage(): KvUsage {
    return { budgetBytes: this.#budgetBytes, usedBytes: this.#usedBytes }
  }

  /** Oldest first. */
  cached(): CachedPrefix[] {
    return this.#prefixes.cached().map(({ handle, sequence }) => ({ handle, kvBytes: this.chargeOf(sequence) }))
  }

  /** Bytes charged for this sequence. */
  chargeOf(sequence: Sequence): number {
    return this.#charges.get(sequence) ?? 0
  }

  /** Bytes that this sequence is charged with `length` positions. */
  chargeAt(sequence: Sequence, length: number): number {
    return Math.max(sequence.bytes, kvCharge(length, this.#limits))
  }

  /** Whether the whole budget is enough for `length` positions. */
  canHold(length: number): boolean {
    return kvCharge(length, this.#limits) <= this.#budgetBytes
  }

  /** A charged sequence without rows; undefined where the budget is exhausted. */
  create(): Sequence | undefined {
    const sequence = this.#part.createSequence()
    if (this.#charge(sequence, firstKvCharge(this.#limits))) return sequence
    sequence.release()
    return undefined
  }

  /** Charges what `length` positions need, before the buffers grow; false where they exceed the budget. */
  grow(sequence: Sequence, length: number): boolean {
    return this.#charge(sequence, this.chargeAt(sequence, length))
  }

  /**
   * Moves the rows out of the memory and charges nothing for them; `grow` and the next step bring them back. False where the
   * system has no memory for the copy.
   */
  evict(sequence: Sequence): boolean {
    try {
      sequence.evict()
    } catch (error) {
      if (error instanceof BrimError && error.code === 'OUT_OF_MEMORY') return false
      throw error
    }
    this.#refund(sequence)
    return true
  }

  release(sequence: Sequence): void {
    this.#refund(sequence)
    sequence.release()
  }

  /** Frees the memory of a cached prefix. */
  evictPrefix(handle: string): void {
    const entry = this.#prefixes.cached().find((cached) => cached.handle === handle)
    if (!entry) return
    this.#prefixes.delete(handle)
    this.release(entry.sequence)
  }

  /** Evicts cached prefixes if that frees enough memory. */
  #charge(sequence: Sequence, bytes: number): boolean {
    const missingBytes = bytes - this.chargeOf(sequence)
    if (missingBytes <= 0) return true
    const evictions = evictionsFor(missingBytes, this.usage, this.cached())
    if (!evictions) return false
    for (const { handle } of evictions) this.evictPrefix(handle)
    this.#charges.set(sequence, bytes)
    this.#usedBytes += missingBytes
    return true
  }

  #refund(sequence: Sequence): void {
    this.#usedBytes -= this.chargeOf(sequence)
    this.#charges.delete(sequence)
  }
}
