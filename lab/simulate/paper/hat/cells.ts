import { explained, isWithin, type PaperCell } from '../comparison.ts'
import type { Purpose, Run } from './measure.ts'
import { ablation, allAdditions, statedPerS } from './plan.ts'
import {
  type Dataset,
  datasets,
  type Method,
  methods,
  paperAblation,
  paperAlone,
  paperDecodeSla,
  paperLongest,
  paperLongOver,
  paperOneStage,
  paperPrefillSla,
  paperStepMs,
  paperTbtGrowth,
  paperTbtOfHatOver,
  paperTtftMs,
} from './published.ts'
import { type CellSubject, remarkOn } from './remarks.ts'

export const datasetNames: Readonly<Record<Dataset, string>> = { short: 'SpecBench, Vicuna-7B', long: 'CNN/DM, Vicuna-13B' }
const others = methods.filter((method): method is Exclude<Method, 'hat'> => method !== 'hat')

/** The run of a purpose; every planned one exists. */
export function runOf(runs: readonly Run[], purpose: Purpose, variation: string, dataset: Dataset, method: Method = 'hat'): Run {
  const found = runs.find(
    (run) =>
      run.purpose === purpose && run.variation === variation && run.setup.dataset === dataset && run.setup.method === method,
  )
  if (!found) throw new Error(`no run "${purpose}, ${variation}" of ${method} on ${dataset} prompts`)
  return found
}

/** Every figure that the paper prints, beside the simulated one. */
export function cellsOf(runs: readonly Run[]): readonly PaperCell[] {
  const cells: PaperCell[] = []
  const add = (subject: CellSubject, cell: PaperCell) => {
    cells.push(isWithin(cell) ? cell : explained(cell, remarkOn(subject, cell, runs)))
  }
  for (const dataset of datasets) aloneCells(runs, dataset, add)
  for (const dataset of datasets) ablationCells(runs, dataset, add)
  loadCells(runs, add)
  for (const dataset of datasets) stageCells(runs, dataset, add)
  for (const dataset of datasets) slaCells(runs, dataset, add)
  pipelineCells(runs, add)
  longestCells(runs, add)
  return cells
}

type Add = (subject: CellSubject, cell: PaperCell) => void

function aloneCells(runs: readonly Run[], dataset: Dataset, add: Add): void {
  const shape = runOf(runs, 'alone', 'u-shape', dataset, 'u-shape')
  const improved = runOf(runs, 'improved', 'alone', dataset)
  for (const method of ['u-medusa', 'hat'] as const) {
    const own = runOf(runs, 'alone', method, dataset, method)
    const [accept, speedup] = paperAlone[dataset][method]!
    const row = `${datasetNames[dataset]}, ${method}`
    const extra = (value: number) => (method === 'hat' ? { improved: value } : {})
    add(
      { dataset, method, kind: 'accept' },
      {
        place: 'Table IV',
        row,
        metric: 'accept length',
        paper: accept,
        ours: own.acceptLength,
        ...extra(improved.acceptLength),
        unit: '',
      },
    )
    const speedups = { ours: shape.tbtMs / own.tbtMs, ...extra(shape.tbtMs / improved.tbtMs) }
    add(
      { dataset, method, kind: 'speedup' },
      { place: 'Table IV', row, metric: 'decode speed-up', paper: speedup, ...speedups, unit: '×' },
    )
  }
}

function ablationCells(runs: readonly Run[], dataset: Dataset, add: Add): void {
  const improved = runOf(runs, 'improved', allAdditions, dataset)
  for (const { row } of ablation) {
    const run = runOf(runs, 'ablation', row, dataset)
    const [ttft, tbt] = paperAblation[dataset][row]!
    const isWhole = row === 'SD+PC+PD'
    const method = row.includes('PC') ? 'hat' : 'u-shape'
    const place = 'Table V'
    const name = `${datasetNames[dataset]}, ${row}`
    add(
      { dataset, method, kind: 'ttft' },
      {
        place,
        row: name,
        metric: 'TTFT',
        paper: ttft,
        ours: run.ttftMs,
        ...(isWhole ? { improved: improved.ttftMs } : {}),
        unit: 'ms',
      },
    )
    add(
      { dataset, method, kind: 'tbt' },
      {
        place,
        row: name,
        metric: 'TBT',
        paper: tbt,
        ours: run.tbtMs,
        ...(isWhole ? { improved: improved.tbtMs } : {}),
        unit: 'ms',
      },
    )
  }
}

/** Figs. 6 and 7. */
function loadCells(runs: readonly Run[], add: Add): void {
  for (const dataset of datasets) {
    const place = dataset === 'short' ? 'Fig. 6' : 'Fig. 7'
    const improved = runOf(runs, 'improved', allAdditions, dataset)
    const perS = statedPerS[dataset]
    for (const method of methods) {
      const run = runOf(runs, 'rates', `${perS}/s`, dataset, method)
      add(
        { dataset, method, kind: 'ttft' },
        {
          place,
          row: `${datasetNames[dataset]}, ${perS}/s, ${method}`,
          metric: 'TTFT',
          paper: paperTtftMs[dataset][method],
          ours: run.ttftMs,
          ...(method === 'hat' ? { improved: improved.ttftMs } : {}),
          unit: 'ms',
        },
      )
    }
    const hat = runOf(runs, 'rates', '4/s', dataset)
    for (const method of others)
      add(
        { dataset, method, kind: 'ratio' },
        {
          place,
          row: `${datasetNames[dataset]}, 4/s, hat over ${method}`,
          metric: 'TBT',
          paper: paperTbtOfHatOver[dataset][method],
          ours: hat.tbtMs / runOf(runs, 'rates', '4/s', dataset, method).tbtMs,
          unit: '×',
        },
      )
  }
  for (const method of methods) {
    const [from, to] = [runOf(runs, 'rates', '4/s', 'short', method), runOf(runs, 'rates', '9/s', 'short', method)]
    add(
      { dataset: 'short', method, kind: 'ratio' },
      {
        place: 'Fig. 6',
        row: `${datasetNames.short}, 9/s over 4/s, ${method}`,
        metric: 'TBT',
        paper: paperTbtGrowth[method],
        ours: to.tbtMs / from.tbtMs,
        unit: '×',
      },
    )
  }
}

function stageCells(runs: readonly Run[], dataset: Dataset, add: Add): void {
  for (const method of methods) {
    const run = runOf(runs, 'rates', `${statedPerS[dataset]}/s`, dataset, method)
    const [stage, deviation] = paperStepMs[dataset][method]
    const row = `${datasetNames[dataset]}, ${method}`
    const place = 'Fig. 8'
    add(
      { dataset, method, kind: 'stage' },
      { place, row, metric: 'delay of a GPU, mean', paper: stage, ours: run.stageMs, unit: 'ms' },
    )
    add(
      { dataset, method, kind: 'deviation' },
      { place, row, metric: 'standard deviation', paper: deviation, ours: run.stageDeviationMs, unit: 'ms' },
    )
  }
}

/** Figs. 9 and 10. */
function slaCells(runs: readonly Run[], dataset: Dataset, add: Add): void {
  const place = dataset === 'short' ? 'Fig. 9' : 'Fig. 10'
  const { limitMs, percent } = paperPrefillSla[dataset]
  const { quantile, ms } = paperDecodeSla[dataset]
  const improved = runOf(runs, 'improved', 'P = 1', dataset)
  for (const method of methods) {
    const run = runOf(runs, 'pipeline', 'P = 1', dataset, method)
    const row = `${datasetNames[dataset]}, P = 1, ${method}`
    const extra = (value: number) => (method === 'hat' ? { improved: value } : {})
    add(
      { dataset, method, kind: 'sla', oneStage: true },
      {
        place,
        row,
        metric: `within ${limitMs} ms per 128 prompt tokens`,
        paper: percent[method],
        ours: run.prefillSlaPercent,
        ...extra(improved.prefillSlaPercent),
        unit: '%',
      },
    )
    add(
      { dataset, method, kind: 'tbt', oneStage: true },
      {
        place,
        row,
        metric: `P${100 * quantile} of 10 tokens`,
        paper: ms[method],
        ours: run.decodeSlaMs,
        ...extra(improved.decodeSlaMs),
        unit: 'ms',
      },
    )
  }
}

/** Figs. 11 and 12. */
function pipelineCells(runs: readonly Run[], add: Add): void {
  const improved = runOf(runs, 'improved', 'P = 1', 'short')
  for (const method of methods) {
    const run = runOf(runs, 'pipeline', 'P = 1', 'short', method)
    const [ttft, tbt] = paperOneStage[method]
    const row = `${datasetNames.short}, P = 1, ${method}`
    const [place, dataset] = ['Fig. 11', 'short'] as const
    const extra = (value: number) => (method === 'hat' ? { improved: value } : {})
    add(
      { dataset, method, kind: 'ttft', oneStage: true },
      { place, row, metric: 'TTFT', paper: ttft, ours: run.ttftMs, ...extra(improved.ttftMs), unit: 'ms' },
    )
    add(
      { dataset, method, kind: 'tbt', oneStage: true },
      { place, row, metric: 'TBT', paper: tbt, ours: run.tbtMs, ...extra(improved.tbtMs), unit: 'ms' },
    )
  }
  const hat = runOf(runs, 'rates', '4/s', 'long')
  for (const method of others) {
    const other = runOf(runs, 'rates', '4/s', 'long', method)
    const row = `${datasetNames.long}, P = 4, hat over ${method}`
    const ratios = { ttft: hat.ttftMs / other.ttftMs, tbt: hat.tbtMs / other.tbtMs }
    for (const kind of ['ttft', 'tbt'] as const)
      add(
        { dataset: 'long', method, kind: 'ratio' },
        { place: 'Fig. 12', row, metric: kind.toUpperCase(), paper: paperLongOver[kind][method], ours: ratios[kind], unit: '×' },
      )
  }
}

/** Fig. 1b. */
function longestCells(runs: readonly Run[], add: Add): void {
  const run = runOf(runs, 'longest', '2,000 tokens', 'short', 'u-shape')
  add(
    { dataset: 'short', method: 'u-shape', kind: 'part' },
    {
      place: 'Fig. 1b',
      row: 'U-shape, prompt of 2,000 tokens, Vicuna-7B',
      metric: 'TTFT',
      paper: paperLongest.ttft,
      ours: run.ttftMs,
      unit: 'ms',
    },
  )
}
