import { type CachedPrefix, evictionsFor } from '../admission/kv.ts'
import type { ServingState } from './policy.ts'

/**
 * The fast tier while a plan is made: what is taken from it and given back, and the cached prefixes, oldest first, that make
 * way as soon as nothing else is free.
 */
export class Room {
  readonly evict: string[] = []
  readonly #state: ServingState
  #freeBytes: number
  #cached: readonly CachedPrefix[] | undefined

  constructor(state: ServingState) {
    this.#state = state
    this.#freeBytes = state.memory.budgetBytes - state.memory.usedBytes
  }

  /** Without evicting a prefix; negative where more is charged than the budget. */
  get freeBytes(): number {
    return this.#freeBytes
  }

  get cachedBytes(): number {
    return this.#prefixes.reduce((sum, { kvBytes }) => sum + kvBytes, 0)
  }

  /** @returns whether it fitted; nothing is taken or evicted otherwise */
  take(bytes: number): boolean {
    if (bytes > Math.max(0, this.#freeBytes)) {
      const evictions = evictionsFor(bytes, { budgetBytes: this.#freeBytes, usedBytes: 0 }, this.#prefixes)
      if (!evictions) return false
      for (const { handle, kvBytes } of evictions) {
        this.evict.push(handle)
        this.#freeBytes += kvBytes
      }
      this.#cached = this.#prefixes.slice(evictions.length)
    }
    this.#freeBytes -= bytes
    return true
  }

  give(bytes: number): void {
    this.#freeBytes += bytes
  }

  // Read on demand: there may be many, and most plans need none.
  get #prefixes(): readonly CachedPrefix[] {
    this.#cached ??= this.#state.cached
    return this.#cached
  }
}
