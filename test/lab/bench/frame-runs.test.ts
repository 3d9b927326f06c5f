import { describe, expect, it } from 'vitest'
import { figuresOver, measured, runsBy, select } from '../../../lab/frame/runs.ts'
import { tableOf, toDigits, toPercent } from '../../../lab/frame/tables.ts'

interface Run {
  readonly method: 'own' | 'other'
  readonly seed: number
  readonly load: number
  readonly ms: number | null
}
const run = (method: Run['method'], seed: number, ms: number | null, load = 1): Run => ({ method, seed, load, ms })
const { medianOf, ratioOf } = figuresOver<Run, 'ms'>(({ ms }) => ({ ms }), ['seed', 'load'])
const pair = [{ method: 'own' }, { method: 'other' }] as const

describe('the runs of an experiment', () => {
  it('are chosen by settings, of which undefined ones do not count', () => {
    const runs = [run('own', 1, 1), run('own', 2, 2), run('other', 1, 3)]
    expect(select(runs, { method: 'own', seed: 2 })).toEqual([runs[1]])
    expect(select(runs, { method: 'own', seed: undefined })).toHaveLength(2)
  })

  it('are grouped in the order of the names that are given, or of the runs', () => {
    const runs = [run('other', 1, 1), run('own', 2, 2), run('other', 3, 3)]
    const seeds = (groups: ReturnType<typeof runsBy<Run, 'method'>>) => groups.map(({ name, runs: own }) => [name, own.length])
    expect(seeds(runsBy(runs, 'method'))).toEqual([
      ['other', 2],
      ['own', 1],
    ])
    expect(seeds(runsBy(runs.slice(1, 2), 'method', ['other', 'own']))).toEqual([['own', 1]])
  })

  it('have the median of what was measured', () => {
    expect(medianOf([run('own', 1, 1), run('own', 2, null), run('own', 3, 5)], 'ms')).toBe(3)
    expect(medianOf([run('own', 1, null)], 'ms')).toBeNull()
    expect(medianOf([run('own', 1, 4)], ({ seed }) => 10 * seed)).toBe(10)
    expect(measured([run('own', 1, 4), run('own', 2, null)], ({ ms }) => ms)).toHaveLength(1)
  })

  it('are compared in pairs of the same settings: the median of their ratios', () => {
    const runs = [1, 2, 3].flatMap((seed) => [run('own', seed, seed), run('other', seed, 4), run('other', seed, 1, 2)])
    expect(ratioOf(runs, 'ms', pair)).toBe(0.5)
    expect(ratioOf(runs.slice(0, 1), 'ms', pair)).toBeNull()
    expect(ratioOf([run('own', 1, 1), run('other', 1, 0)], 'ms', pair)).toBeNull()
    expect(ratioOf(runs, 'ms', pair, ({ load }) => load)).toBe(2)
  })
})

describe('a table', () => {
  it('has a head and a cell in each row for every column, and a dash for what was not measured', () => {
    const rows = [run('own', 1, 12.34), run('other', 2, null)]
    expect(
      tableOf('Times', rows, [
        ['method', ({ method }) => method],
        ['ms', ({ ms }) => toDigits(ms, 1)],
        ['share', ({ ms }) => toPercent(ms && ms / 100)],
      ]),
    ).toEqual({
      title: 'Times',
      head: ['method', 'ms', 'share'],
      rows: [
        ['own', '12.3', '12 %'],
        ['other', '–', '–'],
      ],
    })
  })
})
