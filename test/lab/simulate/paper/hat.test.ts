import { describe, expect, it } from 'vitest'
import { paperCells, paperSummary } from '../../../../lab/simulate/paper/cells.ts'
import { orderingsKept, type PaperCell } from '../../../../lab/simulate/paper/comparison.ts'
import { hatPaperBench } from '../../../../lab/simulate/paper/hat/bench.ts'
import { comparedRuns, measure } from '../../../../lab/simulate/paper/hat/measure.ts'
import { paper } from '../../../../lab/simulate/paper/hat/published.ts'
import { plannedRuns, type Setup, scenarioOf } from '../../../../lab/simulate/paper/hat/scenarios.ts'

const setup: Setup = { dataset: 'short', method: 'hat', perS: 6 }

describe('the set-up of the HAT paper', () => {
  it('has 20 AGX Xavier and 10 AGX Orin in three groups of ten', () => {
    const { devices } = scenarioOf(setup, 10, 1)
    const countOf = (part: string) => devices.filter(({ name }) => name.includes(part)).reduce((sum, { count }) => sum + count, 0)
    expect(['xavier', 'orin', ' 2 m', ' 8 m', ' 14 m'].map(countOf)).toEqual([20, 10, 10, 10, 10])
  })

  it('gives HAT’s parts to its ablation, and only U-Sarathi small steps', () => {
    const parts = { drafts: false, draftAhead: false }
    expect(scenarioOf({ ...setup, parts }, 10, 1).policies.hat).toMatchObject({ ...parts, chunks: true, acceptLength: 2.06 })
    expect(scenarioOf({ ...setup, method: 'u-sarathi' }, 10, 1).cloud).toMatchObject({ stepRows: 128, promptRows: 128 })
    expect(scenarioOf({ ...setup, method: 'u-shape' }, 10, 1).cloud).toMatchObject({ stepRows: 2_048, promptRows: 2_048 })
  })
})

describe('the comparison with the HAT paper', () => {
  it('has a figure for every one of the paper, and tables and figure of them', async () => {
    const plan = plannedRuns(3)
    const measured = await measure(plan[0]!)
    const runs = plan.map((planned) => ({ ...measured, ...planned }))
    const cells = paperCells(paper, comparedRuns(runs))
    expect(new Set(cells.map(({ place }) => place))).toEqual(
      new Set(['Table IV', 'Table V', 'Fig. 1b', 'Fig. 6', 'Fig. 7', 'Fig. 8', 'Fig. 9', 'Fig. 10', 'Fig. 11', 'Fig. 12']),
    )
    for (const { ours, row, metric } of cells) expect(ours, `${row}, ${metric}`).toBeGreaterThanOrEqual(0)
    const document = { bench: 'paper-hat', conditions: { requests: 3 }, summary: paperSummary(paper, comparedRuns(runs)), runs }
    expect(hatPaperBench.report.tables!(document)).toHaveLength(13)
    expect(hatPaperBench.report.figure(document).panels).toHaveLength(10)
    expect(hatPaperBench.report.findings!(document)).not.toContain('NaN')
  })

  it('measures one run by the clock of the simulation', async () => {
    const planned = plannedRuns(20).find(({ purpose, setup: { method } }) => purpose === 'alone' && method === 'u-shape')!
    const run = await measure({ ...planned, requests: 20 })
    expect(await measure({ ...planned, requests: 20 })).toEqual(run)
    expect(run.acceptLength).toBe(1)
    // Four stages, and what the device, its link and the wait add.
    expect(run.tbtMs).toBeGreaterThan(4 * run.stageMs)
    expect(run.decodeSlaMs).toBeGreaterThan(run.decodeCurveMs[0]! - 1)
    expect(run.prefillCurveMs).toEqual(run.prefillCurveMs.toSorted((a, b) => a - b))
  })

  it('counts the ranks that are the same, ties aside', () => {
    const cell = (row: string, paper: number, ours: number): PaperCell => ({
      place: 'A',
      row,
      metric: 'm',
      paper,
      ours,
      unit: '',
    })
    expect(orderingsKept([cell('x, a', 1, 10), cell('x, b', 2, 30), cell('x, c', 3, 20), cell('y, d', 9, 1)])).toBe(2 / 3)
    expect(orderingsKept([cell('x, a', 100, 2), cell('x, b', 102, 1)])).toBeNaN()
  })
})
