import type { BenchDocument, BenchReport, Summary, Table } from '../../../frame/bench.ts'
import type { Figure, LinePanel } from '../../../plot/plot.ts'
import { comparisonTables, countsOf, type PaperCell } from '../comparison.ts'
import { cellsOf, datasetNames, runOf } from './cells.ts'
import { type Run, roundParts } from './measure.ts'
import { additionRows, allAdditions, limitRows, openQuestions, statedPerS } from './plan.ts'
import { type Dataset, datasets, methods } from './published.ts'

const runsOf = ({ runs }: BenchDocument) => runs as readonly Run[]

/** Figures that differ by less are no rank. */
const tie = 0.05

/** Pairs of methods in one figure of the paper, of which the same one is ahead here. */
export function orderingsKept(cells: readonly PaperCell[]): { readonly kept: number; readonly pairs: number } {
  let [kept, pairs] = [0, 0]
  for (const [at, one] of cells.entries())
    for (const other of cells.slice(at + 1)) {
      if (!areComparable(one, other) || Math.abs(one.paper! / other.paper! - 1) < tie) continue
      pairs += 1
      if (Math.sign(one.paper! - other.paper!) === Math.sign(one.ours - other.ours)) kept += 1
    }
  return { kept, pairs }
}

const areComparable = (one: PaperCell, other: PaperCell): boolean =>
  one.place === other.place &&
  one.metric === other.metric &&
  one.paper !== null &&
  other.paper !== null &&
  one.row.split(',')[0] === other.row.split(',')[0]

export function summarise(runs: readonly Run[]): Summary {
  const cells = cellsOf(runs)
  const { compared, within, unexplained } = countsOf(cells)
  const { kept, pairs } = orderingsKept(cells)
  const gain = (dataset: Dataset, figure: 'ttftMs' | 'tbtMs', purpose: 'rates' | 'improved') => {
    const loaded = `${statedPerS[dataset]}/s`
    const own = purpose === 'rates' ? runOf(runs, 'rates', loaded, dataset) : runOf(runs, 'improved', allAdditions, dataset)
    return 1 - own[figure] / runOf(runs, 'rates', loaded, dataset, 'u-shape')[figure]
  }
  return {
    cells: compared,
    cellsWithin25Percent: within / compared,
    cellsUnexplained: unexplained,
    orderingsKept: kept / pairs,
    ttftReductionShort: gain('short', 'ttftMs', 'rates'),
    ttftReductionLong: gain('long', 'ttftMs', 'rates'),
    tbtReductionShort: gain('short', 'tbtMs', 'rates'),
    tbtReductionLong: gain('long', 'tbtMs', 'rates'),
    ttftReductionShortImproved: gain('short', 'ttftMs', 'improved'),
    ttftReductionLongImproved: gain('long', 'ttftMs', 'improved'),
    tbtReductionShortImproved: gain('short', 'tbtMs', 'improved'),
    tbtReductionLongImproved: gain('long', 'tbtMs', 'improved'),
  }
}

function openTable(runs: readonly Run[]): Table {
  return {
    title: 'What the paper leaves open, and what differs: one change at a time, TTFT and TBT in ms',
    head: ['', ...datasets.flatMap((dataset) => ['hat', 'u-shape'].map((method) => `${method}, ${datasetNames[dataset]}`))],
    rows: openQuestions.map(({ row }) => [
      row,
      ...datasets.flatMap((dataset) =>
        (['hat', 'u-shape'] as const).map((method) => {
          const { ttftMs, tbtMs } = runOf(runs, 'open', row, dataset, method)
          return `${Math.round(ttftMs)} / ${tbtMs.toFixed(1)}`
        }),
      ),
    ]),
  }
}

/** Where the time between tokens goes: parts of a round over the tokens that it gains. */
function roundTables(runs: readonly Run[]): readonly Table[] {
  return datasets.map((dataset): Table => {
    const loaded = `${statedPerS[dataset]}/s`
    const shape = runOf(runs, 'rates', loaded, dataset, 'u-shape')
    const row = (name: string, run: Run) => [
      name,
      String(Math.round(run.ttftMs)),
      run.tbtMs.toFixed(1),
      `${((100 * run.tbtMs) / shape.tbtMs - 100).toFixed(0)} %`,
      run.acceptLength.toFixed(2),
      ...roundParts.map((part) => (run.roundMs[part] / run.acceptLength).toFixed(1)),
    ]
    return {
      title: `Where the time goes, ${datasetNames[dataset]}, ${loaded}: ms, parts of a round per token that it gains`,
      head: ['', 'TTFT', 'TBT', 'beside U-shape', 'tokens per round', ...roundParts],
      rows: [
        row('U-shape', shape),
        row('HAT', runOf(runs, 'rates', loaded, dataset)),
        ...additionRows.map(({ row: name }) => row(name, runOf(runs, 'improved', name, dataset))),
        ...limitRows.map(({ row: name }) => row(`all, and ${name}`, runOf(runs, 'limits', name, dataset))),
      ],
    }
  })
}

function byRate(runs: readonly Run[], dataset: Dataset, figure: 'ttftMs' | 'tbtMs'): LinePanel {
  const name = figure === 'ttftMs' ? 'TTFT' : 'TBT'
  return {
    kind: 'lines',
    title: `${name}, ${datasetNames[dataset]}`,
    xLabel: 'requests per second',
    yLabel: `${name}, ms`,
    series: methods.map((method) => ({
      name: method,
      points: runs
        .filter(({ purpose, setup }) => purpose === 'rates' && setup.dataset === dataset && setup.method === method)
        .map((run) => [run.setup.perS, Math.round(10 * run[figure]) / 10] as const),
    })),
  }
}

function byStages(runs: readonly Run[], dataset: Dataset, figure: 'ttftMs' | 'tbtMs'): LinePanel {
  const name = figure === 'ttftMs' ? 'TTFT' : 'TBT'
  return {
    kind: 'lines',
    title: `${name} by pipeline, SpecBench`,
    xLabel: 'P',
    yLabel: `${name}, ms`,
    series: methods.map((method) => ({
      name: method,
      points: (['P = 1', 'P = 2', 'P = 4'] as const).map((stages) => {
        const run =
          stages === 'P = 4'
            ? runOf(runs, 'rates', `${statedPerS[dataset]}/s`, dataset, method)
            : runOf(runs, 'pipeline', stages, dataset, method)
        return [Number(stages.slice(-1)), Math.round(10 * run[figure]) / 10] as const
      }),
    })),
  }
}

/** Share of requests within a limit, by the limit. */
function compliance(runs: readonly Run[], dataset: Dataset, phase: 'prefill' | 'decode'): LinePanel {
  return {
    kind: 'lines',
    title: `Within a limit, P = 1: ${phase}, ${datasetNames[dataset].split(',')[0]}`,
    xLabel: phase === 'prefill' ? 'ms per 128 prompt tokens' : 'ms per 10 tokens',
    yLabel: 'percent of requests',
    isDense: true,
    series: methods.map((method) => {
      const run = runOf(runs, 'pipeline', 'P = 1', dataset, method)
      const curve = phase === 'prefill' ? run.prefillCurveMs : run.decodeCurveMs
      // The slowest twentieth would leave the rest no width.
      const points = curve.slice(0, -1).map((ms, at) => [ms, (100 * at) / (curve.length - 1)] as const)
      return { name: method, points: points.filter(([ms], at) => points[at + 1]?.[0] !== ms) }
    }),
  }
}

function figure(document: BenchDocument): Figure {
  const runs = runsOf(document)
  return {
    title: 'HAT’s evaluation, simulated',
    subtitle: '30 Jetsons, WiFi of 5–10 and 10–15 MB/s, pipelines of A6000; the paper’s Figs. 6, 7, 9, 10, 11',
    columns: 4,
    panels: [
      ...datasets.flatMap((dataset) => [byRate(runs, dataset, 'ttftMs'), byRate(runs, dataset, 'tbtMs')]),
      ...datasets.flatMap((dataset) => [compliance(runs, dataset, 'prefill'), compliance(runs, dataset, 'decode')]),
      byStages(runs, 'short', 'ttftMs'),
      byStages(runs, 'short', 'tbtMs'),
    ],
  }
}

/** What the additions leave of the time between tokens of short prompts, and what would shorten it further. */
function limitsText(runs: readonly Run[]): string {
  const shape = runOf(runs, 'rates', `${statedPerS.short}/s`, 'short', 'u-shape')
  const all = runOf(runs, 'improved', allAdditions, 'short')
  const perToken = (ms: number) => `${(ms / all.acceptLength).toFixed(1)} ms`
  const { cloud, uplink, downlink, drafting, choosing } = all.roundMs
  const limits = limitRows.map(({ row }) => {
    const { tbtMs } = runOf(runs, 'limits', row, 'short')
    return `${row} ${Math.round(100 * (1 - tbtMs / shape.tbtMs))} %`
  })
  return (
    `- What is left between the tokens of short prompts, ${all.tbtMs.toFixed(1)} ms: ${perToken(cloud)} in the cloud, of which ${perToken(all.stages * all.stageMs)} are its ${all.stages} stages ` +
    `one after the other, which every verification passes; ${perToken(uplink + downlink)} on the link, and ${perToken(drafting + choosing)} on the device. ` +
    `The reduction with one of these limits moved, which is not ours to move: ${limits.join(', ')}.`
  )
}

function findings(document: BenchDocument): string {
  const { summary } = document
  const percent = (name: string) => `${Math.round(100 * (summary[name] ?? Number.NaN))} %`
  return [
    `- ${percent('cellsWithin25Percent')} of the paper’s ${summary.cells} figures are met within a quarter; the tables say why the others are not. ` +
      `Where the paper ranks two methods, ${percent('orderingsKept')} of the ranks are the same here.`,
    `- Under load HAT’s TTFT is ${percent('ttftReductionShort')} (short prompts) and ${percent('ttftReductionLong')} (long) below U-shape’s, its TBT ${percent('tbtReductionShort')} and ${percent('tbtReductionLong')}; the paper has 41 to 54 % and 41 to 77 %.`,
    `- With Brim’s additions these are ${percent('ttftReductionShortImproved')} and ${percent('ttftReductionLongImproved')}, ${percent('tbtReductionShortImproved')} and ${percent('tbtReductionLongImproved')}. The additions: int8 states on the way up and int4 weights in what devices compute (\`brim model build --device-format int4\`), which change the answers a little; a drafter that gains 38 % more tokens per verification than the paper’s, as ours does on the demonstration model: an assumption here; drafts that end where another token is not worth its time in place of η, and branches of drafting ahead at each drafted token (\`--draft-paced\`, \`--draft-branching each\`), which change no answer.`,
    limitsText(runsOf(document)),
    '- What hurts HAT most is what its paper does not show: devices that draft for two answers at once, or at a slow memory clock. See the table of open questions.',
    '- The paper’s cloud computes the pieces of one prompt in all stages at once, this bridge one piece after the other: the last row of that table. With P in Eq. 3 its chunks would be too small for that (TTFT 0.55 s in place of 0.44 s for short prompts, 2.5 s in place of 1.6 s for long ones), so the bridge’s P there is 1.',
  ].join('\n')
}

export const hatPaperReport: BenchReport = {
  title: 'The HAT paper, simulated',
  contents: 'every run',
  figure,
  figureText: 'TTFT and TBT by request rate, shares of requests within limits, TTFT and TBT by length of the pipeline',
  tables(document) {
    const runs = runsOf(document)
    return [...comparisonTables(cellsOf(runs)), ...roundTables(runs), openTable(runs)]
  },
  findings,
  conditions: ({ conditions }) =>
    [
      `${conditions.requests} requests per run. Devices: 10 AGX Orin 32GB and 20 AGX Xavier at full speed, in three groups whose links walk through`,
      'the upper half, the middle and the lower half of 5–10 MB/s up and 10–15 MB/s down (megabytes of 2²⁰ bytes, as iperf3 counts; a round',
      'trip takes 4 ms). A device that waits for an answer does not ask another one while others are idle. Cloud: A6000, P = 4 unless noted.',
      'Prompts are log-normal with the paper’s means and standard deviations; answers have 64 to 128 tokens (the paper states the maximum).',
      'Drafters know how certain they are: of their tokens with probability p, a share of p is right; the distribution of p gives the paper’s',
      'accept lengths with η = 0.6. One of two alternatives is the correction of a rejected last token in half of the cases. Rates of GPUs',
      'and boards are those of the presets (`brim simulate presets`), the same for all cells.',
    ].join('\n'),
}
