import { describe, expect, it } from 'vitest'
import { paperCells, paperSummary } from '../../../../lab/simulate/paper/cells.ts'
import { deviceProfiles, paper } from '../../../../lab/simulate/paper/disco/profiles.ts'
import {
  type CostRun,
  comparedRuns,
  comparisonsOf,
  constrainedSides,
  type Run,
  type TtftRun,
} from '../../../../lab/simulate/paper/disco/runs.ts'
import { type Setting, scenarioOf, settingsOf } from '../../../../lab/simulate/paper/disco/settings.ts'
import { scopeOf } from '../../../../lab/simulate/paper/text.ts'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'

const p99 = { plan: 600, beside: 1_000, alone: 1_200 }
const settings = (measured: Setting['measured']) => settingsOf(true).filter((setting) => setting.measured === measured)
const ttft = settings('ttft').map((setting) => ({ ...setting, meanMs: 300, p99Ms: p99[setting.method] }) as TtftRun)
const tail = settings('tail').map((setting) => ({ ...setting, meanMs: 330, p99Ms: 500 }) as TtftRun)
const costOf = (setting: Setting) => ({
  ...setting,
  dollars: { no: 100, paper: 30, brim: 20 }[setting.migrates],
  migrations: 0.5,
  bufferedMean: setting.server === 'LLaMA' ? null : 5,
  bufferedP99: 6,
  tbtP99Ms: 209,
  delayedTokens: 0,
})
const cost = settings('cost').map((setting) => costOf(setting) as CostRun)
const overhead = settings('overhead').map(
  (setting) => ({ ...costOf(setting), bufferedMean: setting.patience === 0.995 ? 8 : 7 }) as CostRun,
)
const times = { updateUs: [1], planUs: [2], allLengthsMs: [3], sortedMs: [4] }
const plans = constrainedSides.map((constrained): Run => ({ measured: 'plan', times: { ...times, samples: 1_000, constrained } }))
const runs: Run[] = [...ttft, ...tail, ...cost, ...overhead, ...plans]
const all = comparedRuns(runs)
const cells = paperCells(paper, all)

describe('the cells of DiSCo’s tables', () => {
  it('are cuts against chance beside the other side, means over budgets', () => {
    const table2 = cells.filter(({ place }) => place === 'Table 2')
    expect(table2).toHaveLength(4 * 2 * deviceProfiles.length)
    for (const { ours } of table2) expect(ours).toBeCloseTo(40)
    expect(comparisonsOf(ttft, 'alone').every(({ p99Cut }) => p99Cut === 0.5)).toBe(true)
  })

  it('have the paper’s values by device, its columns turned round', () => {
    const of = (row: string) => cells.find((cell) => cell.row.startsWith(row))!.paper
    expect(of('GPT, server limited, Pixel 7 Pro, Bloom-1.1B')).toBe(44.04)
    expect(of('DeepSeek, server limited, Xiaomi 14')).toBe(0)
  })

  it('leave out what did not happen, and have our way beside the paper’s', () => {
    const table3 = cells.filter(({ place, metric }) => place === 'Table 3' && metric === 'delay_num, mean')
    expect(table3.map(({ row }) => row.split(',')[0])).not.toContain('LLaMA')
    const fig7 = cells.filter(({ place }) => place === 'Fig. 7')
    for (const { ours, improved } of fig7) expect([ours, improved]).toEqual([70, 80])
    expect(cost.filter(({ migrates, constrained }) => migrates === 'paper' && constrained === 'server')).toHaveLength(24)
  })

  it('are explained by the t_m that come nearest to them', () => {
    const remarkOf = (row: string) => cells.find((cell) => cell.row === row && cell.metric === 'delay_num, mean')!.remark
    expect(remarkOf('Command, device limited')).toContain('enough for 99.5 % it gives 8')
    expect(remarkOf('Command, server limited')).toContain('prompt and answer, in place of the prompt alone, it is 7')
  })

  it('have the other α beside the one of all runs', () => {
    expect(scopeOf(paper.values, all)).toEqual({
      ...{ tailMean: 1, tailP99: 0.6, otherTailMean: expect.closeTo(1.1), otherTailP99: 0.5 },
    })
  })

  it('are each within a quarter of the paper, or explained', () => {
    const { cells: compared, cellsWithin25, cellsExplained, cellsUnexplained } = paperSummary(paper, all)
    expect(cellsUnexplained).toBe(0)
    expect(cellsWithin25! + cellsExplained!).toBe(compared)
    for (const { remark, paper, ours } of cells)
      if (paper !== null) expect(remark === undefined).toBe(Math.abs(ours - paper) <= 0.25 * paper)
  })
})

describe('the scenarios of DiSCo’s tables', () => {
  const [device] = deviceProfiles.map(({ name }) => name)
  const of = { measured: 'ttft', server: 'GPT', device: device!, migrates: 'no' } as const
  const setting = { ...of, constrained: 'device', budget: 0.5 } as const

  it('let the limited side start by chance beside the other one, or alone', async () => {
    const shareOf = async (method: 'beside' | 'alone') => {
      const { all } = await runScenario(scenarioOf({ ...setting, method }, 1, 200, 1))
      return [all.work.devicePromptTokens > 0, all.work.serverPromptTokens > 0, all.answered]
    }
    expect(await shareOf('beside')).toEqual([true, true, 200])
    expect(await shareOf('alone')).toEqual([true, true, 200])
    const { all } = await runScenario(scenarioOf({ ...setting, method: 'alone', budget: 0 }, 1, 50, 1))
    expect(all.work.devicePromptTokens).toBe(0)
  })

  it('know the server from the first request on, and have no tail where the device is in time', async () => {
    const planned = await runScenario(scenarioOf({ ...setting, method: 'plan' }, 1, 300, 1))
    const chance = await runScenario(scenarioOf({ ...setting, method: 'alone' }, 1, 300, 1))
    expect(planned.all.ttftMs.p99).toBeLessThan(chance.all.ttftMs.p99)
  })
})
