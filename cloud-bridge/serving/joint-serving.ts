import type { Serving } from './serving.ts'

/** What the models of a bridge use together. */
export type JointServing = Pick<Serving, 'metrics' | 'memory' | 'slow' | 'transfers' | 'purge' | 'close'>

/**
 * The servings of all models of a bridge as one: usage and transfers are sums.
 * @param metrics that all of them count in
 */
export function servedJointly(servings: readonly Serving[], metrics: Serving['metrics']): JointServing {
  const sum = (read: (serving: Serving) => number) => servings.reduce((total, serving) => total + read(serving), 0)
  return {
    metrics,
    get memory() {
      return {
        budgetBytes: sum(({ memory }) => memory.budgetBytes),
        usedBytes: sum(({ memory }) => memory.usedBytes),
        cachedBytes: sum(({ memory }) => memory.cachedBytes),
      }
    },
    // One tier for all.
    get slow() {
      return servings[0]?.slow
    },
    transfers: {
      get preemptions() {
        return sum(({ transfers }) => transfers.preemptions)
      },
      get savedBytes() {
        return sum(({ transfers }) => transfers.savedBytes)
      },
      get loadedBytes() {
        return sum(({ transfers }) => transfers.loadedBytes)
      },
    },
    purge(owner) {
      for (const serving of servings) serving.purge(owner)
    },
    async close() {
      await Promise.all(servings.map((serving) => serving.close()))
    },
  }
}
