import type { PromptLengths } from '../../../../core/policy/disco/dispatch.ts'
import type { Distribution } from '../../../../core/policy/estimate/distribution.ts'

/** F of samples as they are. */
export function sortedDistribution(samples: Float64Array): Distribution {
  const sorted = samples.toSorted()
  return {
    cdf: (x) => countBelow(sorted, x, true) / sorted.length,
    quantile: (q) => (q <= 0 ? 0 : (sorted[Math.max(Math.ceil(q * sorted.length - 1e-9), 1) - 1] ?? Number.POSITIVE_INFINITY)),
  }
}

/** p(l) of samples as they are, and all lengths, ascending. */
export function sortedLengths(samples: Float64Array): PromptLengths & { readonly all: readonly number[] } {
  const sorted = samples.toSorted()
  /** Tokens of the first so many prompts. */
  const tokens = new Float64Array(sorted.length + 1)
  for (const [i, length] of sorted.entries()) tokens[i + 1] = (tokens[i] ?? 0) + length
  const total = tokens.at(-1) ?? 0
  return {
    all: [...new Set(sorted)],
    cdf: (length) => countBelow(sorted, length, true) / sorted.length,
    sharesAt(length) {
      const smaller = tokens[countBelow(sorted, length, false)] ?? 0
      const upTo = tokens[countBelow(sorted, length, true)] ?? 0
      return { smaller: smaller / total, alike: (upTo - smaller) / total }
    },
  }
}

/** How many samples are less than x, or at most x. */
function countBelow(sorted: Float64Array, x: number, includesEqual: boolean): number {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    const value = sorted[middle] ?? 0
    if (value < x || (includesEqual && value === x)) low = middle + 1
    else high = middle
  }
  return low
}
