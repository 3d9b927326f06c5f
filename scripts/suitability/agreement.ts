import { featuresOf } from '../../core/policy/pice/request-features.ts'
import { logOdds, type SuitabilityWeights } from '../../core/policy/pice/suitability.ts'
import type { LabelledRequest } from './logistic-regression.ts'

interface Agreement {
  readonly n: number
  readonly suitable: number
  readonly precision: number
  readonly recall: number
  /** Of 'suitable'. */
  readonly f1: number
  /** 95 % interval of f1 over resamples of the questions. */
  readonly f1Interval: readonly [number, number]
  /** F1 of calling every request suitable: the best constant. */
  readonly f1Constant: number
}

const resamples = 2_000

/** How well the weights agree with labels by hand. */
export function agreement(weights: SuitabilityWeights, examples: readonly LabelledRequest[]): Agreement {
  const found = examples.map(({ request, label }) => ({ label, found: logOdds(weights, featuresOf(request)) >= 0 }))
  const random = lcg()
  const resampled = Array.from({ length: resamples }, () =>
    f1Of(counts(found.map(() => found[Math.floor(random() * found.length)]!))),
  ).sort((a, b) => a - b)
  const { both, onlyFound, missed } = counts(found)
  const suitable = both + missed
  const round = (value: number) => Math.round(value * 1_000) / 1_000
  return {
    n: found.length,
    suitable,
    precision: round(both / Math.max(1, both + onlyFound)),
    recall: round(both / Math.max(1, suitable)),
    f1: round(f1Of({ both, onlyFound, missed })),
    f1Interval: [round(resampled[Math.floor(0.025 * resamples)]!), round(resampled[Math.ceil(0.975 * resamples) - 1]!)],
    f1Constant: round((2 * suitable) / (found.length + suitable)),
  }
}

const f1Of = ({ both, onlyFound, missed }: ReturnType<typeof counts>): number =>
  (2 * both) / Math.max(1, 2 * both + onlyFound + missed)

const counts = (found: readonly { readonly label: 0 | 1; readonly found: boolean }[]) => ({
  both: found.filter((each) => each.label === 1 && each.found).length,
  onlyFound: found.filter((each) => each.label === 0 && each.found).length,
  missed: found.filter((each) => each.label === 1 && !each.found).length,
})

/** The same numbers each time. */
function lcg(): () => number {
  let state = 1
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}
