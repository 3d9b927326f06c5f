import type { BenchDocument, BenchReport, Table } from '../../frame/bench.ts'
import { distinct, select } from '../../frame/runs.ts'
import { mean } from '../../frame/statistics.ts'
import type { BarPanel, Figure, LinePanel, Series } from '../../plot/plot.ts'
import { paperCells } from './cells.ts'
import { comparisonTables } from './comparison.ts'
import type { PaperFile } from './paper-file.ts'
import { combinationsOf, firstRun, type PaperRun, quantityOf } from './quantity.ts'
import { fill, namesOf, scopeOf, type TextScope } from './text.ts'

type Panel = PaperFile['figure']['panels'][number]
type Lines = Extract<Panel, { kind: 'lines' }>
type Bars = Extract<Panel, { kind: 'bars' }>

/**
 * The page of a paper.
 * @param runsOf the runs of a document, and what the paper's code makes of them
 * @param more what texts may name beside the file's own values, conditions and summary
 */
export function paperReport(
  paper: PaperFile,
  runsOf: (document: BenchDocument) => readonly PaperRun[],
  more: (document: BenchDocument) => TextScope = () => ({}),
): BenchReport {
  const { title, contents, figure, values, findings, conditions } = paper
  const text = (template: string) => (document: BenchDocument) =>
    fill(template, {
      ...paper.constants,
      ...document.conditions,
      ...document.summary,
      ...scopeOf(values, runsOf(document)),
      ...more(document),
    }).trimEnd()
  return {
    title,
    contents,
    figure: (document) => figureOf(paper, runsOf(document)),
    figureText: figure.text,
    tables(document) {
      const runs = runsOf(document)
      return [...comparisonTables(paperCells(paper, runs)), ...paper.tables.map((table) => tableOf(paper, table, runs))]
    },
    ...(findings !== undefined && { findings: text(findings) }),
    conditions: text(conditions),
  }
}

function tableOf(
  paper: PaperFile,
  { title, labels, columns, rows }: PaperFile['tables'][number],
  runs: readonly PaperRun[],
): Table {
  return {
    title,
    head: [...labels, ...columns.map(({ head }) => head)],
    rows: rows.flatMap((row) => {
      if (select(runs, row.needs).length === 0) return []
      return combinationsOf(row.each, select(runs, row.of)).map((varied) => [
        ...row.labels.map((label) => fill(label, namesOf(paper, varied))),
        ...columns.map(({ of, text }) => fill(text, firstRun(runs, { ...row.of, ...varied, ...of }))),
      ])
    }),
  }
}

function figureOf(paper: PaperFile, runs: readonly PaperRun[]): Figure {
  const { title, subtitle, columns, panels } = paper.figure
  return {
    title,
    subtitle,
    columns,
    panels: panels.flatMap((panel): readonly (LinePanel | BarPanel)[] => {
      if (select(runs, panel.needs).length === 0) return []
      return panel.kind === 'lines' ? linePanels(paper, panel, runs) : [barPanel(paper, panel, runs)]
    }),
  }
}

function linePanels(
  paper: PaperFile,
  { each, of, series, points, isDense, ...panel }: Lines,
  runs: readonly PaperRun[],
): LinePanel[] {
  const { kind, xLabel, yLabel } = panel
  return combinationsOf(each, select(runs, of)).map((varied): LinePanel => {
    const lines = series.values.flatMap((value): Series[] => {
      const own = select(runs, { ...of, ...varied, [series.by]: value })
      const name = String(namesOf(paper, { [series.by]: value })[series.by])
      return own.length === 0 ? [] : [{ name, points: pointsOf(own, points) }]
    })
    const title = fill(panel.title, namesOf(paper, varied))
    return { kind, title, xLabel, yLabel, series: lines, ...(isDense && { isDense }) }
  })
}

function pointsOf(runs: readonly PaperRun[], points: Lines['points']): Series['points'] {
  if (typeof points === 'string') return runs[0]![points] as Series['points']
  const { x, y } = points
  return (distinct(runs, x) as number[])
    .toSorted((a, b) => a - b)
    .map((value) => [value, mean(select(runs, { [x]: value }).map((run) => run[y] as number))!])
}

function barPanel(
  paper: PaperFile,
  { kind, title, yLabel, each, label, names: own, of, bars, ...rest }: Bars,
  runs: readonly PaperRun[],
): BarPanel {
  const quantity = { ...rest, of: {}, across: {}, by: 'mean' } as const
  return {
    kind,
    title,
    yLabel,
    groups: combinationsOf(each, select(runs, of)).map((varied) => {
      const names = namesOf({ names: { ...paper.names, ...own } }, varied)
      return {
        label: fill(label, names),
        bars: bars.flatMap((bar) => {
          const value = quantityOf(quantity, runs, { ...of, ...varied, ...bar.of })
          return value === null ? [] : [{ name: fill(bar.name, names), value }]
        }),
      }
    }),
  }
}
