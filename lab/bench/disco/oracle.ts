import type { SideWork } from '../../../core/policy/disco/controller-plan.ts'
import { costOf } from '../../../core/policy/disco/costs.ts'
import { otherSide, type Side, type TokenCosts } from '../../../core/policy/disco/state.ts'

/** A request as an oracle knows it: when each side would have its first token. */
export interface KnownStarts {
  readonly promptTokens: number
  /** Of the side that the budget does not limit, which always starts at once. */
  readonly freeMs: number
  readonly limitedMs: number
}

/**
 * The lowest P99 TTFT that any dispatcher could reach on these requests, if it knew all starts beforehand: the limited side starts on
 * those that need it, shortest prompts first. @param share b, of all prompt tokens
 */
export function leastP99Ms(requests: readonly KnownStarts[], share: number): number {
  const budget = share * requests.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
  // As many may be later as there are order statistics above the quantile.
  const mayBeLater = requests.length - 1 - Math.floor(0.99 * (requests.length - 1))
  const isReached = (ms: number) => {
    const late = requests.filter(({ freeMs }) => freeMs > ms)
    const helped = late.filter(({ limitedMs }) => limitedMs <= ms).map(({ promptTokens }) => promptTokens)
    const lateAnyway = late.length - helped.length
    if (lateAnyway > mayBeLater) return false
    const needed = helped.sort((a, b) => a - b).slice(0, Math.max(0, late.length - mayBeLater))
    return needed.reduce((sum, tokens) => sum + tokens, 0) <= budget
  }
  const times = requests.flatMap(({ freeMs, limitedMs }) => [freeMs, limitedMs]).sort((a, b) => a - b)
  let [low, high] = [0, times.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (isReached(times[middle]!)) high = middle
    else low = middle + 1
  }
  return times[low] ?? Number.NaN
}

/**
 * The least that an answer could cost by migrating, if its length were known at its first token and the target went on at once, whether or not its
 * reader would have to wait. @param work of the answer without migration
 */
export function leastDollars(work: Readonly<Record<Side, SideWork>>, prices: Readonly<Record<Side, TokenCosts>>): number {
  const source: Side = work.local.tokens > work.remote.tokens ? 'local' : 'remote'
  const target = otherSide(source)
  const alone = costOf(prices.local, work.local) + costOf(prices.remote, work.remote)
  const { promptTokens, tokens } = work[source]
  const moved = tokens - 1
  const atTarget = costOf(prices[target], { promptTokens: promptTokens + 1, tokens: moved })
  return Math.min(alone, alone - prices[source].output * moved + atTarget)
}
