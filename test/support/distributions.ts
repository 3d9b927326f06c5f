import type { PromptLengths } from '../../core/policy/disco/dispatch.ts'
import type { Distribution } from '../../core/policy/estimate/distribution.ts'

/** A few values, each with its probability. */
export interface Atom {
  readonly value: number
  readonly p: number
}

/** Ascending, without repetition, with probabilities in proportion to the weights. */
export function atomsOf(weighted: readonly (readonly [value: number, weight: number])[]): Atom[] {
  const byValue = new Map<number, number>()
  for (const [value, weight] of weighted) byValue.set(value, (byValue.get(value) ?? 0) + weight)
  const total = [...byValue.values()].reduce((sum, weight) => sum + weight, 0)
  return [...byValue].sort(([a], [b]) => a - b).map(([value, weight]) => ({ value, p: weight / total }))
}

/** F has a step at each atom. */
export const stepDistribution = (atoms: readonly Atom[]): Distribution => ({
  cdf: (x) => atoms.filter(({ value }) => value <= x).reduce((sum, { p }) => sum + p, 0),
  quantile(q) {
    if (q <= 0) return 0
    let below = 0
    for (const { value, p } of atoms) {
      below += p
      if (below >= q - 1e-12) return value
    }
    return atoms.at(-1)?.value ?? Number.POSITIVE_INFINITY
  },
})

/** F rises in straight lines from 0 at `start` through the atoms, without a step. @param start below all atoms */
export function lineDistribution(atoms: readonly Atom[], start = 0): Distribution {
  return {
    cdf(x) {
      let [from, below] = [start, 0]
      for (const { value, p } of atoms) {
        if (x <= value) return below + p * Math.max((x - from) / (value - from), 0)
        below += p
        from = value
      }
      return 1
    },
    quantile(q) {
      if (q <= 0) return 0
      let [from, below] = [start, 0]
      for (const { value, p } of atoms) {
        if (below + p >= q) return from + ((value - from) * (q - below)) / p
        below += p
        from = value
      }
      return from
    },
  }
}

/** Every length counts for itself. */
export function exactLengths(atoms: readonly Atom[]): PromptLengths {
  const mean = atoms.reduce((sum, { value, p }) => sum + value * p, 0)
  const shareOf = (counts: (value: number) => boolean) =>
    atoms.filter(({ value }) => counts(value)).reduce((sum, { value, p }) => sum + (value * p) / mean, 0)
  return {
    sharesAt: (length) => ({ smaller: shareOf((value) => value < length), alike: shareOf((value) => value === length) }),
    cdf: (length) => atoms.reduce((sum, { value, p }) => sum + (value <= length ? p : 0), 0),
  }
}
