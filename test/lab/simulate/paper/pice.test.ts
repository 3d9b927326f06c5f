import { describe, expect, it } from 'vitest'
import { paperCells, paperSummary } from '../../../../lab/simulate/paper/cells.ts'
import { isWithin } from '../../../../lab/simulate/paper/comparison.ts'
import { comparedRuns, type Run } from '../../../../lab/simulate/paper/pice/runs.ts'
import {
  batchOf,
  models,
  paper,
  routersModel,
  scenarioOf,
  settingsOf,
  smallModelsFor,
} from '../../../../lab/simulate/paper/pice/settings.ts'
import { quantityOf } from '../../../../lab/simulate/paper/quantity.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'

describe("PICE's testbed", () => {
  it('has batches in proportion to the speeds of the models', () => {
    expect(models.map(batchOf)).toEqual([20, 21, 38, 84, 93, 202])
  })

  it('has small models that are smaller than the LLM', () => {
    expect(smallModelsFor('llama3-70b')).toEqual(['llama3-8b', 'qwen2.5-7b', 'qwen2.5-1.5b'])
    expect(smallModelsFor('qwen2.5-7b')).toEqual(['qwen2.5-1.5b'])
    expect(smallModelsFor('qwen2.5-1.5b')).toEqual(['qwen2.5-1.5b'])
    expect(routersModel('llama3-70b')).toBe('qwen2.5-7b')
    expect(routersModel('llama3-8b')).toBe('qwen2.5-1.5b')
  })

  it('is a valid scenario in every setting', () => {
    for (const isQuick of [true, false])
      for (const setting of settingsOf(isQuick)) expect(() => scenarioOf(setting, 1)).not.toThrow()
  })

  it('answers cloud-only and by PICE at about the rates of Table III', async () => {
    const perMin = async (method: 'cloud-only' | 'PICE' | 'Brim') => {
      const result = await runScenario(scenarioOf({ measured: 'table', method, model: 'qwen2.5-72b', rpm: 30, requests: 120 }, 1))
      return 60 * result.all.answersPerS
    }
    const [cloud, pice] = [await perMin('cloud-only'), await perMin('PICE')]
    expect(cloud / 14.891).toBeGreaterThan(0.75)
    expect(cloud / 14.891).toBeLessThan(1.25)
    expect(pice).toBeGreaterThan(1.1 * cloud)
    // No abler small models than the devices can afford.
    expect(await perMin('Brim')).toBeGreaterThan(1.1 * pice)
  })
})

describe('the cells beside the paper', () => {
  /** Every setting as the paper has it, or 1. */
  const runs = (factor: number): Run[] =>
    settingsOf(true).map((setting) => {
      const row = paper.published.table as Record<string, Record<string, [number, number]>>
      const likePice = setting.method === 'Brim' || setting.method === 'PICE static'
      const known = row[setting.model]![likePice ? 'PICE' : setting.method]!
      const [answersPerMin, latencyS] = setting.measured === 'table' ? known : ([1, 1] as const)
      const scaled = { answersPerMin: factor * answersPerMin, latencyS: factor * latencyS }
      return { ...setting, ...scaled, ttftS: 1, cloudTokens: 1, edgeTokens: 1, deviceBusy: 1 }
    })

  it('compare every cell of Table III, and agree where the simulation does', () => {
    const cells = paperCells(paper, comparedRuns(runs(1))).filter(({ place }) => place === 'Table III')
    // Six models by three methods, three of them on devices alone; throughput and latency.
    expect(cells).toHaveLength(2 * (3 * 6 + 3))
    for (const { ours, paper, remark } of cells) expect({ ours, remark }).toEqual({ ours: paper, remark: undefined })
    expect(paperSummary(paper, comparedRuns(runs(1)))).toMatchObject({
      throughputGain: expect.closeTo(25.98 / 16.33, 6),
      latencyCut: expect.closeTo(1 - 75.15 / 121.54, 6),
    })
    const of = { measured: 'table', model: 'qwen2.5-72b', method: 'Brim' }
    expect(quantityOf({ ...paper.summary.throughputGain!, of }, comparedRuns(runs(1)))).toBeCloseTo(21.24 / 14.891, 6)
  })

  it('count differences that nothing explains', () => {
    const cells = paperCells(paper, comparedRuns(runs(2))).filter(({ place }) => place === 'Table III')
    expect(cells.filter(isWithin)).toEqual([])
    expect(paperSummary(paper, comparedRuns(runs(2))).cellsUnexplained).toBeGreaterThan(10)
  })
})
