import { beforeAll, describe, expect, it } from 'vitest'
import { benchTokenFlow, tokenFlowBench } from '../../../lab/bench/tokenflow/bench.ts'
import { quickPlan } from '../../../lab/bench/tokenflow/plan.ts'
import type { FlowRun, RestartTurn } from '../../../lab/bench/tokenflow/runs.ts'
import type { BenchResult } from '../../../lab/frame/bench.ts'
import { benchPage } from '../../../lab/frame/page.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'

/** Six requests at one bridge. */
const tiny = {
  ...quickPlan,
  share: 0.1,
  servers: ['tokenflow'],
  crowds: [],
  ablation: { ...quickPlan.ablation, servers: [] },
  saturated: { streams: 4, answerTokens: 32 },
  costTurns: 1,
  restarts: 1,
} as const

let result: BenchResult
let runs: readonly FlowRun[]
beforeAll(async () => {
  const { io } = captureIo({ env: process.env as Record<string, string> })
  result = await benchTokenFlow(tiny, { quick: true, io, progress: io.err })
  runs = result.runs as readonly FlowRun[]
}, 120_000)

describe('brim bench tokenflow', () => {
  it.each([
    ['--workloads', 'burst 60 SL,nothing', 'nothing'],
    ['--seeds', '0', '--seeds'],
  ])('rejects %s=%s before anything is started', async (option, value, named) => {
    const { io, err } = captureIo()
    const command = brim(['bench', 'tokenflow', `${option}=${value}`], io)
    await expect(command).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(named) })
    expect(err()).toBe('')
  })

  it('records the arrival of every token of every request', () => {
    expect(runs.map(({ server, samples }) => `${server} ${samples.length}`)).toEqual(['tokenflow 6'])
    const [{ samples, overcommitment } = { samples: [], overcommitment: 0 }] = runs
    expect(samples.map(({ error }) => error)).toEqual(Array.from({ length: 6 }, () => null))
    for (const sample of samples) expect(sample.arrivedMs.length).toBeGreaterThan(100)
    expect(overcommitment).toBeGreaterThan(2)
  })

  it('finds that a bridge which was killed computes neither an interrupted answer nor a first turn again', () => {
    const [turn] = result.conditions.restarts as readonly RestartTurn[]
    expect(turn!.continuedRows).toBeLessThan(500)
    expect(turn!.nextTurnRows).toBeLessThan(500)
  })

  it('has the figures that it measured, and a page', () => {
    for (const figure of [
      'stepLoopOverhead',
      'writeThroughCost',
      'failedRequests',
      'warmTtftAfterRestart',
      'nextTurnAfterRestart',
    ])
      expect(result.summary[figure], figure).toEqual(expect.any(Number))
    const machine = { cpu: 'c', memoryGiB: 1, platform: 'p', node: 'n', loadAverageBefore: 0, loadAverageAfter: 0 }
    const conditions = { ...machine, command: 'c', startedAt: 's', commit: 'x', ...result.conditions }
    const page = benchPage({ bench: 'tokenflow', ...result, conditions }, tokenFlowBench.report, tokenFlowBench.goals)
    expect(page).not.toMatch(/undefined|NaN|Infinity/)
  })
})
