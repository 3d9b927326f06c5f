import { describe, expect, it } from 'vitest'
import { isWithin } from '../../../../lab/simulate/paper/comparison.ts'
import { summarise } from '../../../../lab/simulate/paper/pice/bench.ts'
import { cellsOf, gainOf } from '../../../../lab/simulate/paper/pice/cells.ts'
import { published } from '../../../../lab/simulate/paper/pice/published.ts'
import type { Run } from '../../../../lab/simulate/paper/pice/runs.ts'
import {
  batchOf,
  fullPlan,
  quickPlan,
  routersModel,
  scenarioOf,
  settingsOf,
  smallModelsFor,
} from '../../../../lab/simulate/paper/pice/settings.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'

describe("PICE's testbed", () => {
  it('has batches in proportion to the speeds of the models', () => {
    expect(published.map(({ model }) => batchOf(model))).toEqual([20, 21, 38, 84, 93, 202])
  })

  it('has small models that are smaller than the LLM', () => {
    expect(smallModelsFor('llama3-70b')).toEqual(['llama3-8b', 'qwen2.5-7b', 'qwen2.5-1.5b'])
    expect(smallModelsFor('qwen2.5-7b')).toEqual(['qwen2.5-1.5b'])
    expect(smallModelsFor('qwen2.5-1.5b')).toEqual(['qwen2.5-1.5b'])
    expect(routersModel('llama3-70b')).toBe('qwen2.5-7b')
    expect(routersModel('llama3-8b')).toBe('qwen2.5-1.5b')
  })

  it('is a valid scenario in every setting', () => {
    for (const plan of [quickPlan, fullPlan])
      for (const setting of settingsOf(plan)) expect(() => scenarioOf(setting, 1)).not.toThrow()
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
    settingsOf(quickPlan).map((setting) => {
      const row = published.find(({ model }) => model === setting.model)!
      const known = {
        'cloud-only': row.cloud,
        'edge-only': row.local,
        routing: row.routing,
        PICE: row.pice,
        Brim: row.pice,
        'PICE static': row.pice,
      }
      const [answersPerMin, latencyS] = setting.measured === 'table' ? known[setting.method]! : [1, 1]
      const scaled = { answersPerMin: factor * answersPerMin, latencyS: factor * latencyS }
      return { ...setting, ...scaled, ttftS: 1, cloudTokens: 1, edgeTokens: 1, deviceBusy: 1 }
    })

  it('compare every cell of Table III, and agree where the simulation does', () => {
    const cells = cellsOf({ runs: runs(1) }).filter(({ place }) => place === 'Table III')
    // Six models by three methods, three of them on devices alone; throughput and latency.
    expect(cells).toHaveLength(2 * (3 * 6 + 3))
    for (const { ours, paper, remark } of cells) expect({ ours, remark }).toEqual({ ours: paper, remark: undefined })
    expect(summarise({ runs: runs(1) })).toMatchObject({
      throughputGain: expect.closeTo(25.98 / 16.33, 6),
      latencyCut: expect.closeTo(1 - 75.15 / 121.54, 6),
    })
    expect(gainOf(runs(1), 'Brim', 'qwen2.5-72b').throughput).toBeCloseTo(21.24 / 14.891, 6)
  })

  it('count differences that nothing explains', () => {
    const cells = cellsOf({ runs: runs(2) }).filter(({ place }) => place === 'Table III')
    expect(cells.filter(isWithin)).toEqual([])
    expect(summarise({ runs: runs(2) }).cellsUnexplained).toBeGreaterThan(10)
  })
})
