import type { KvUsage } from '../../core/policy/admission/kv.ts'

/** Bytes of the slow tier, for all streams together. */
export class TierBudget implements KvUsage {
  readonly budgetBytes: number
  #usedBytes = 0

  constructor(budgetBytes: number) {
    this.budgetBytes = budgetBytes
  }

  get usedBytes(): number {
    return this.#usedBytes
  }

  /** @returns whether the bytes were free */
  charge(bytes: number): boolean {
    if (this.#usedBytes + bytes > this.budgetBytes) return false
    this.#usedBytes += bytes
    return true
  }

  free(bytes: number): void {
    this.#usedBytes -= bytes
  }
}
