import type { Planned, Purpose } from './measure.ts'
import { type Dataset, datasets, methods } from './published.ts'
import type { HatParts, Setup } from './scenarios.ts'

/** Requests per second at which the paper states figures: Figs. 6 and 7, Table V. */
export const statedPerS: Readonly<Record<Dataset, number>> = { short: 6, long: 4 }
/** With P = 1 the paper states no rate; at 4 long prompts per second one A6000 would have to compute more than it can. */
export const onePipelinePerS: Readonly<Record<Dataset, number>> = { short: 6, long: 1.5 }

/** Another rate for it. */
export const slowPerS = 1
export const slowRow = `P = 1, ${slowPerS}/s`
export const longAnswersRow = 'P = 1, answers of 128 tokens'

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
 * Our drafter reads deep states and looks up n-grams: 4.14 tokens per verification where the paper's adapter gains 2.99
 * (docs/results/acceptance); assumed: in the same proportion here.
 */
const drafterGain = 4.14 / 2.99
const paperAcceptLength = { short: 2.06, long: 1.98 } as const satisfies Record<Dataset, number>

/** What Brim adds to HAT, one after the other. */
const additionSteps: readonly { readonly row: string; readonly parts: (dataset: Dataset) => HatParts }[] = [
  { row: 'int8 states on the way up', parts: () => ({ wire: 'int8' }) },
  { row: '+ our drafter', parts: (dataset) => ({ acceptLength: drafterGain * paperAcceptLength[dataset] }) },
  { row: '+ int4 weights on devices', parts: () => ({ deviceWeights: 'int4' }) },
  { row: '+ drafts that end by their pace', parts: () => ({ pacedDrafts: true }) },
  { row: '+ branches at each drafted token', parts: () => ({ branching: 'each' }) },
]

/** Each row has the parts of those before it. */
export const additionRows: readonly { readonly row: string; readonly parts: (dataset: Dataset) => HatParts }[] =
  additionSteps.map(({ row }, at) => ({
    row,
    parts: (dataset) => Object.assign({}, ...additionSteps.slice(0, at + 1).map(({ parts }) => parts(dataset))) as HatParts,
  }))

const last = additionRows.at(-1)!
/** The row with all of them. */
export const allAdditions = last.row
export const additions = (dataset: Dataset): HatParts => last.parts(dataset)

/** With all additions, one of the limits that they leave moved: what would have to be better for still shorter rounds. */
export const limitRows: readonly { readonly row: string; readonly change: (setup: Setup) => Partial<Setup> }[] = [
  { row: 'links of 1 GB/s', change: () => ({ rates: { up: [1_000, 1_000.01], down: [1_000, 1_000.01] } }) },
  { row: 'only AGX Orin', change: () => ({ onlyOrin: true }) },
  { row: 'a tenth of the requests', change: ({ perS }) => ({ perS: perS / 10 }) },
  { row: 'half the stages', change: () => ({ pipeline: 2 }) },
  {
    row: 'a drafter that gains half as much again',
    change: ({ parts = {} }) => ({ parts: { ...parts, acceptLength: 1.5 * parts.acceptLength! } }),
  },
]

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
      if (dataset === 'long') add('pipeline', slowRow, { ...setup, perS: slowPerS, pipeline: 1 })
      if (method !== 'u-sarathi') add('alone', method, { ...setup, perS: 0.02, alone: true }, few)
    }
    for (const { row, parts } of ablation) add('ablation', row, { ...hat, parts })
    for (const { row, parts } of additionRows) add('improved', row, { ...hat, parts: parts(dataset) })
    const improved: Setup = { ...hat, parts: additions(dataset) }
    add('improved', 'P = 1', { ...improved, perS: onePipelinePerS[dataset], pipeline: 1 })
    add('improved', 'alone', { ...improved, perS: 0.02, alone: true }, few)
    for (const { row, change } of limitRows) add('limits', row, { ...improved, ...change(improved) })
    for (const { row, change } of openQuestions)
      for (const method of ['hat', 'u-shape'] as const) add('open', row, { ...hat, method, ...change })
  }
  add('pipeline', longAnswersRow, { dataset: 'short', method: 'u-sarathi', perS: 6, pipeline: 1, outputTokens: 128 })
  add('longest', '2,000 tokens', { dataset: 'short', method: 'u-shape', perS: 0.02, alone: true, promptTokens: 2_000 }, few)
  return plan
}
