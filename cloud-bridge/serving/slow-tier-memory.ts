import type { Page, SlowCopy, SlowTier } from './slow-tier.ts'
import { TierBudget } from './tier-budget.ts'

/** The slow tier in the memory of this process. Pages are zeroed when they are freed. */
export function memoryTier(budgetBytes: number): SlowTier {
  const budget = new TierBudget(budgetBytes)
  return { usage: budget, open: () => new MemoryCopy(budget), close: async () => {} }
}

class MemoryCopy implements SlowCopy {
  readonly #budget: TierBudget
  readonly #pages = new Map<number, Page>()
  bytes = 0

  constructor(budget: TierBudget) {
    this.#budget = budget
  }

  async save(at: number, page: Page): Promise<boolean> {
    this.#free(at)
    if (!this.#budget.charge(page.values.byteLength)) return false
    this.bytes += page.values.byteLength
    this.#pages.set(at, page)
    return true
  }

  async load(at: number): Promise<Page | undefined> {
    return this.#pages.get(at)
  }

  async release(): Promise<void> {
    for (const at of [...this.#pages.keys()]) this.#free(at)
  }

  #free(at: number): void {
    const values = this.#pages.get(at)?.values
    if (!values) return
    values.fill(0)
    this.bytes -= values.byteLength
    this.#budget.free(values.byteLength)
    this.#pages.delete(at)
  }
}
