import { describe, expect, it } from 'vitest'
import { paperCells } from '../../../../lab/simulate/paper/cells.ts'
import { experimentsOf, scenarioFor } from '../../../../lab/simulate/paper/experiments.ts'
import { PaperFile, readPaper } from '../../../../lab/simulate/paper/paper-file.ts'
import { quantityOf } from '../../../../lab/simulate/paper/quantity.ts'
import { paperReport } from '../../../../lab/simulate/paper/report.ts'
import { fill } from '../../../../lab/simulate/paper/text.ts'

const runs = [
  { method: 'own', load: 1, ms: 30 },
  { method: 'own', load: 2, ms: 10 },
  { method: 'own', load: 2, ms: 30 },
  { method: 'other', load: 1, ms: 40 },
  { method: 'other', load: 2, ms: 40 },
  { method: 'other', load: 3, ms: null },
]
const quantity = { figure: 'ms', of: { method: 'own' }, over: { method: 'other' }, as: 'ratio', across: {}, by: 'mean' } as const

describe('a quantity of runs', () => {
  it('is the mean of a figure, set in relation to that of the runs with what differs', () => {
    const base = { load: 2 }
    const as = (how: 'ratio' | 'inverse' | 'share cut' | 'percent cut' | 'percent change' | 'share gain') =>
      quantityOf({ ...quantity, as: how }, runs, base)
    expect(as('ratio')).toBe(0.5)
    expect(as('inverse')).toBe(2)
    expect([as('share cut'), as('percent cut'), as('percent change'), as('share gain')]).toEqual([0.5, 50, -50, -0.5])
    expect(quantityOf(quantity, runs, base, { method: 'other' })).toBe(1)
  })

  it('is summarised across the values that the runs have', () => {
    const across = { load: 'all' } as const
    expect(quantityOf({ ...quantity, across }, runs)).toBe((0.75 + 0.5) / 2)
    expect(quantityOf({ ...quantity, across, by: 'min' }, runs)).toBe(0.5)
    expect(quantityOf({ ...quantity, across: { load: [1] }, by: 'max' }, runs)).toBe(0.75)
  })

  it('names the runs that are missing, and is null where none has the figure', () => {
    expect(() => quantityOf(quantity, runs, { load: 4 })).toThrow('no run of {"load":4,"method":"own"}')
    expect(quantityOf({ ...quantity, of: { load: 3 }, over: undefined }, runs)).toBeNull()
  })
})

describe('a text', () => {
  it('shows values as they are, with digits, in per cent and with significant digits', () => {
    const scope = { a: 0.1234, list: [1, 2], none: null, run: { b: 1234.5 } }
    expect(fill('{a} {a:2} {a:%} {run.b:3g} {list} {none:1}', scope)).toBe('0.1234 0.12 12 % 1230 1, 2 –')
    expect(() => fill('{run.c}', scope)).toThrow('no value of {run.c}')
  })
})

const paper = PaperFile.parse({
  title: 'A paper',
  contents: 'every run',
  counts: { cells: 'compared' },
  goals: {},
  published: { ms: { own: [10, 20], other: [40, null] } },
  scenario: {
    base: { cloud: { model: 'llama3-8b', gpu: 'h200' }, workload: { modes: [{ mode: 'cloud' }] } },
    by: { method: { own: { cloud: { gpu: 'a6000' } } } },
  },
  experiments: [
    { each: { method: ['own', 'other'], load: [1, 2] }, quick: { load: [2] } },
    { each: { method: ['own'] }, with: { alone: true } },
  ],
  names: { method: { own: 'Ours' } },
  cells: [
    {
      place: 'Here',
      each: { method: ['own', 'other', 'third'], load: [1, 2] },
      row: '{method} at {load}',
      cells: [
        {
          metric: 'time',
          figure: 'ms',
          paper: ['ms', '{method}', 0],
          improved: { when: { method: 'own' }, of: { method: 'other' } },
          remarks: [
            {
              when: { method: ['own'], load: 1 },
              values: { more: { run: { load: 2 } } },
              text: 'with {load} it is not {more.ms}',
            },
            { text: 'for {method}' },
          ],
        },
      ],
    },
    { place: 'There', needs: { method: 'fourth' }, row: 'never', cells: [{ metric: 'time', figure: 'ms', paper: ['ms'] }] },
  ],
  figure: {
    ...{ title: 'Figure', subtitle: '', columns: 1, text: '' },
    panels: [
      {
        ...{ kind: 'lines', title: 'time', xLabel: 'load', yLabel: 'ms', of: {} },
        ...{ series: { by: 'method', values: ['own', 'third'] }, points: { x: 'load', y: 'ms' } },
      },
    ],
  },
  tables: [{ title: 'T', rows: [{ each: { method: 'all' }, labels: ['{method}'] }], columns: [{ head: 'ms', text: '{ms:1}' }] }],
  values: { share: quantity },
  conditions: '{seeds} seeds, {share:2}',
})

describe('a paper’s file', () => {
  it('is valid for every paper', () => {
    for (const name of ['hat', 'pice', 'disco', 'tokenflow'] as const) expect(readPaper(name).cells.length).toBeGreaterThan(5)
  })

  it('makes a cell of every published value, with the first remark that applies where they differ', () => {
    const cells = paperCells(paper, runs)
    expect(cells.map(({ row, paper, ours, improved, remark }) => [row, paper, ours, improved, remark])).toEqual([
      ['Ours at 1', 10, 30, 40, 'with 1 it is not 10'],
      ['Ours at 2', 10, 20, 40, 'for Ours'],
      ['other at 1', 40, 40, undefined, undefined],
      ['other at 2', 40, 40, undefined, undefined],
    ])
  })

  it('makes settings, the quick ones too, and their scenarios', () => {
    expect(experimentsOf(paper, false)).toHaveLength(5)
    expect(experimentsOf(paper, true)).toEqual([
      { method: 'own', load: 2 },
      { method: 'other', load: 2 },
      { method: 'own', alone: true },
    ])
    const more = {
      name: 'one',
      seed: 1,
      workload: { requests: 3, arrivals: { kind: 'burst' }, promptTokens: 5, outputTokens: 5 },
    }
    expect(scenarioFor(paper, { method: 'own' }, more).cloud).toMatchObject({ model: 'llama3-8b', gpu: 'a6000' })
    expect(scenarioFor(paper, { method: 'other' }, more).workload).toMatchObject({ requests: 3, modes: [{ mode: 'cloud' }] })
  })

  it('makes the page: lines of the values that have runs, tables, texts', () => {
    const report = paperReport(paper, () => runs)
    const document = { bench: 'a', conditions: { seeds: 2 }, summary: {}, runs: [] }
    expect(report.figure(document).panels).toEqual([
      {
        ...{ kind: 'lines', title: 'time', xLabel: 'load', yLabel: 'ms' },
        series: [
          {
            name: 'Ours',
            points: [
              [1, 30],
              [2, 20],
            ],
          },
        ],
      },
    ])
    expect(report.tables!(document).at(-1)).toEqual({
      title: 'T',
      head: ['', 'ms'],
      rows: [
        ['Ours', '30.0'],
        ['other', '40.0'],
      ],
    })
    expect(report.conditions(document)).toBe('2 seeds, 0.58')
  })
})
