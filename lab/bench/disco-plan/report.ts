import { median } from '../../../core/policy/estimate/quantile.ts'
import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { loadText } from '../../frame/page.ts'
import { type PlanTimes, paperPlanMs } from '../../simulate/paper/disco/plan-times.ts'

const mediansOf = ({ runs }: BenchDocument) =>
  (runs as PlanTimes[]).map(({ samples, constrained, updateUs, planUs, allLengthsMs, sortedMs }) => ({
    samples,
    constrained,
    paperMs: paperPlanMs[constrained][samples],
    updateUs: median(updateUs),
    planUs: median(planUs),
    allLengthsMs: median(allLengthsMs),
    sortedMs: median(sortedMs),
  }))

export const planReport: BenchReport = {
  title: 'Planning of DiSCo',
  contents: 'the time of every batch of plans',
  figure: (document) => ({
    title: 'Time of a plan against the number of samples',
    subtitle: String(document.conditions.cpu),
    columns: 2,
    panels: [
      {
        kind: 'bars',
        title: 'Plan of a request, from histograms',
        yLabel: 'µs',
        groups: groupsOf(document, ({ constrained, planUs }) => [{ name: `limited ${constrained}`, value: planUs }]),
      },
      {
        kind: 'bars',
        title: 'Plan of all prompt lengths, from sorted samples',
        yLabel: 'ms',
        groups: groupsOf(document, ({ constrained, sortedMs }) => [{ name: `limited ${constrained}`, value: sortedMs }]),
      },
    ],
  }),
  figureText: 'Time of a plan against the number of samples',
  tables: (document) => [
    {
      title: 'Median times',
      head: [
        'limited side',
        'samples',
        'update, µs',
        'plan of a request, µs',
        'of all lengths, ms',
        'of all lengths from sorted samples, ms',
        'paper (M1), ms',
      ],
      rows: mediansOf(document).map((times) => [
        times.constrained,
        String(times.samples),
        times.updateUs.toFixed(2),
        times.planUs.toFixed(2),
        times.allLengthsMs.toFixed(3),
        times.sortedMs.toFixed(3),
        String(times.paperMs ?? ''),
      ]),
    },
  ],
  conditions(document) {
    const { cpu, cores, batches, perBatch } = document.conditions
    return `${cpu}, ${cores} cores; ${loadText(document)}; ${batches} batches of ${perBatch}.

- Times to the first token and prompt lengths are log-normal, as the paper's synthetic ones.
- *update*: an answer's prompt length and time to the first token are learned. *plan of a request*: when device and server start on it.
  Both happen once for each request, and their time does not depend on the number of samples: histograms have a fixed size.
- *of all lengths* plans every prompt length at once, as the paper does. *From sorted samples* is the same policy on the samples
  themselves, which are sorted for each plan: what histograms save.
- Budgets of 0.1 to 0.9 take turns; α is 0.05.`
  },
}

type Medians = ReturnType<typeof mediansOf>[number]

/** One group of bars for each number of samples. */
function groupsOf(document: BenchDocument, barsOf: (times: Medians) => { readonly name: string; readonly value: number }[]) {
  const medians = mediansOf(document)
  return [...new Set(medians.map(({ samples }) => samples))].map((samples) => ({
    label: `${samples} samples`,
    bars: medians.filter((times) => times.samples === samples).flatMap(barsOf),
  }))
}
