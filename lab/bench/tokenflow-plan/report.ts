import { median } from '../../../core/policy/estimate/quantile.ts'
import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'

/** A step of the shipped model on this machine, and so many of them in an interval of 500 ms. */
export const stepMs = 25
export const stepsPerInterval = 20

/** The time of each plan. */
export interface PlanTimes {
  readonly requests: number
  /** Plans that give out the memory: one of each interval. */
  readonly choiceMs: readonly number[]
  /** The plans of the other steps. */
  readonly otherMs: readonly number[]
}

const mediansOf = ({ runs }: BenchDocument) =>
  (runs as PlanTimes[]).map(({ requests, choiceMs, otherMs }) => ({
    requests,
    choice: median(choiceMs),
    other: median(otherMs),
  }))

export const planReport: BenchReport = {
  title: 'Planning of TokenFlow',
  contents: 'the time of every plan',
  figure: (document) => ({
    title: 'Time of a plan',
    subtitle: String(document.conditions.cpu),
    columns: 2,
    panels: [
      { title: 'Choice, once per interval', key: 'choice' as const },
      { title: 'Other plans', key: 'other' as const },
    ].map(({ title, key }) => ({
      kind: 'bars' as const,
      title,
      yLabel: 'ms',
      groups: mediansOf(document).map((medians) => ({
        label: `${medians.requests} requests`,
        bars: [{ name: 'tokenflow', value: medians[key] }],
      })),
    })),
  }),
  figureText: 'Time of a plan against the number of requests',
  tables: (document) => [
    {
      title: 'Median time of a plan',
      head: ['requests', 'choice, ms', 'others, ms'],
      rows: mediansOf(document).map(({ requests, choice, other }) => [String(requests), choice.toFixed(3), other.toFixed(3)]),
    },
  ],
  conditions(document) {
    const { cpu, cores, intervals } = document.conditions
    return `${cpu}, ${cores} cores; ${loadText(document)}; ${intervals} intervals.

- The memory is full and overcommitted five times: a fifth of the requests is resident, a fifth has not begun.
- *plan* is the mean over an interval of 500 ms with ${stepsPerInterval} steps of ${stepMs} ms: one plan gives out the memory, the others fill a
  step. Medians of each kind are averaged.
- The step loop's building of the state objects is not part of these figures.`
  },
}
