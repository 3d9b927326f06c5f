import type { Planned, Purpose } from './measure.ts'
import { type Dataset, datasets, methods } from './published.ts'
import type { HatParts, Setup } from './scenarios.ts'

/** Requests per second at which the paper states figures: Figs. 6 and 7, Table V. */
export const statedPerS: Readonly<Record<Dataset, number>> = { short: 6, long: 4 }
/** With P = 1 the paper states no rate; at 4 long prompts per second one A6000 would have to compute more than it can. */
export const onePipelinePerS: Readonly<Record<Dataset, number>> = { short: 6, long: 1.5 }

/** Rows of Table V. */
export const ablation: readonly { readonly row: string; readonly parts: HatParts }[] = [
  { row: 'none', parts: { drafts: false, chunks: false } },
  { row: 'PC', parts: { drafts: false } },
  { row: 'SD', parts: { chunks: false, draftAhead: false } },
  { row: 'SD+PD', parts: { chunks: false } },
  { row: 'SD+PC', parts: { draftAhead: false } },
  { row: 'SD+PC+PD', parts: {} },
]

/**
 * What Brim adds to HAT: int8 states on the way up, and a drafter that reads deep states and looks up n-grams. It gains 4.14
 * tokens per verification where the paper's adapter gains 2.99 (docs/results/acceptance); assumed: in the same proportion here.
 */
const drafterGain = 4.14 / 2.99
export const additions: Readonly<Record<Dataset, HatParts>> = {
  short: { wire: 'int8', acceptLength: 2.06 * drafterGain },
  long: { wire: 'int8', acceptLength: 1.98 * drafterGain },
}

/** What the paper leaves open, or what differs here from it: each row changes one thing. */
export const openQuestions: readonly { readonly row: string; readonly change: Partial<Setup> }[] = [
  { row: 'as in the tables', change: {} },
  { row: 'links at the top of their range, 10 and 15 MB/s', change: { rates: { up: [10, 10.01], down: [15, 15.01] } } },
  { row: 'prompts of 73 % of the length', change: { lengths: 0.73 } },
  { row: 'answers of 128 tokens', change: { outputTokens: 128 } },
  { row: 'every device asks, also while it waits', change: { anyoneAsks: true } },
  { row: 'power modes drawn, which change the memory clock', change: { drawsPowerModes: true } },
  { row: 'only AGX Orin', change: { onlyOrin: true } },
  { row: 'one piece of a prompt in the pipeline, as this bridge', change: { pipelinedPrompts: false } },
]

export function plannedRuns(requests: number): readonly Planned[] {
  const plan: Planned[] = []
  const add = (purpose: Purpose, variation: string, setup: Setup, count = requests) =>
    plan.push({ purpose, variation, setup, requests: count })
  const few = Math.ceil(requests / 10)
  for (const dataset of datasets) {
    const perS = statedPerS[dataset]
    const hat = { dataset, method: 'hat', perS } as const
    for (const method of methods) {
      const setup = { dataset, method, perS }
      for (const rate of dataset === 'short' ? [4, 5, 6, 7, 8, 9] : [2, 3, 4]) add('rates', `${rate}/s`, { ...setup, perS: rate })
      add('pipeline', 'P = 1', { ...setup, perS: onePipelinePerS[dataset], pipeline: 1 })
      add('pipeline', 'P = 2', { ...setup, pipeline: 2 })
      if (method !== 'u-sarathi') add('alone', method, { ...setup, perS: 0.02, alone: true }, few)
    }
    for (const { row, parts } of ablation) add('ablation', row, { ...hat, parts })
    add('improved', 'loaded', { ...hat, parts: additions[dataset] })
    add('improved', 'P = 1', { ...hat, parts: additions[dataset], perS: onePipelinePerS[dataset], pipeline: 1 })
    add('improved', 'alone', { ...hat, parts: additions[dataset], perS: 0.02, alone: true }, few)
    for (const { row, change } of openQuestions)
      for (const method of ['hat', 'u-shape'] as const) add('open', row, { ...hat, method, ...change })
  }
  add('longest', '2,000 tokens', { dataset: 'short', method: 'u-shape', perS: 0.02, alone: true, promptTokens: 2_000 }, few)
  return plan
}
