import { PagePool } from './page-pool.ts'
import { fullValuesOf, type Page, type SlowCopy, type SlowTier } from './slow-tier.ts'
import { TierBudget } from './tier-budget.ts'

/** The slow tier in the memory of this process. Pages are zeroed when they are freed, and each is charged in full. */
export function memoryTier(budgetBytes: number): SlowTier {
  const budget = new TierBudget(budgetBytes)
  const pool = new PagePool(budgetBytes)
  return {
    usage: budget,
    isLasting: false,
    allocate: (values) => pool.acquire(values),
    releaseFree: () => pool.releaseFree(),
    open: () => new MemoryCopy(budget, pool),
    take: () => undefined,
    purge: () => {},
    close: async () => {},
  }
}

class MemoryCopy implements SlowCopy {
  readonly #budget: TierBudget
  readonly #pool: PagePool
  readonly #pages = new Map<number, Page>()
  bytes = 0

  constructor(budget: TierBudget, pool: PagePool) {
    this.#budget = budget
    this.#pool = pool
  }

  async save(at: number, page: Page): Promise<boolean> {
    this.#free(at)
    if (!this.#budget.charge(chargeOf(page))) {
      this.#pool.recycle(page)
      return false
    }
    this.bytes += chargeOf(page)
    this.#pages.set(at, page)
    return true
  }

  async load(at: number): Promise<Page | undefined> {
    return this.#pages.get(at)
  }

  async release(): Promise<void> {
    for (const at of [...this.#pages.keys()]) this.#free(at)
  }

  leave(): Promise<void> {
    return this.release()
  }

  #free(at: number): void {
    const page = this.#pages.get(at)
    if (!page) return
    this.#pool.recycle(page)
    this.bytes -= chargeOf(page)
    this.#budget.free(chargeOf(page))
    this.#pages.delete(at)
  }
}

const chargeOf = (page: Page) => fullValuesOf(page) * Float32Array.BYTES_PER_ELEMENT
