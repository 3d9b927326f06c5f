import { beforeAll, describe, expect, it } from 'vitest'
import { benchPice, piceBench } from '../../../../lab/bench/pice/bench.ts'
import { paperLoad, quickPlan } from '../../../../lab/bench/pice/plan.ts'
import type { PiceRun } from '../../../../lab/bench/pice/runs.ts'
import type { BenchResult } from '../../../../lab/frame/bench.ts'
import { benchPage } from '../../../../lab/frame/page.ts'
import { brim } from '../../../support/brim.ts'
import { captureIo } from '../../../support/captured-io.ts'

/** Short answers of one bridge with one device, as fast as this machine is. */
const tiny = {
  ...quickPlan,
  devices: 1,
  paces: { cloud: { stepMs: 0, rowMs: 0 }, device: { stepMs: 0, rowMs: 0 } },
  answerTokens: 24,
  warmAnswers: 1,
  prompts: 2,
  requests: 2,
  loads: { 'cloud-only': [paperLoad], 'edge-only': [paperLoad], PICE: [paperLoad] },
} as const

let result: BenchResult
let runs: readonly PiceRun[]
beforeAll(async () => {
  const { io } = captureIo({ env: process.env as Record<string, string> })
  result = await benchPice(tiny, { quick: true, io, progress: io.err })
  runs = result.runs as readonly PiceRun[]
}, 120_000)

describe('brim bench pice', () => {
  it('rejects an unknown method before anything is started', async () => {
    const { io, err } = captureIo()
    const command = brim(['bench', 'pice', '--methods=cloud-only,nothing'], io)
    await expect(command).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('nothing') })
    expect(err()).toBe('')
  })

  it('answers and judges every request of every method', () => {
    expect(runs.map(({ method, samples }) => `${method} ${samples.length}`)).toEqual(['cloud-only 2', 'edge-only 2', 'PICE 2'])
    for (const { samples } of runs)
      for (const { error, tookMs, tokens, quality } of samples) {
        expect(error).toBeNull()
        expect(tookMs).toBeGreaterThan(0)
        expect(tokens).toBeGreaterThan(0)
        expect(quality?.rouge1).toBeGreaterThanOrEqual(0)
      }
    expect(runs[0]?.samples.map(({ quality }) => quality?.rouge1)).toEqual([1, 1])
    expect(runs[1]?.samples.map(({ by, cloudTokens }) => `${by} ${cloudTokens}`)).toEqual(['device 0', 'device 0'])
  })

  it('has the figures that it measured, and a page', () => {
    for (const figure of ['throughputOverCloudOnly', 'prefixTokensSaved', 'parallelOverSequential', 'answered'])
      expect(result.summary[figure], figure).toEqual(expect.any(Number))
    const machine = { cpu: 'c', memoryGiB: 1, platform: 'p', node: 'n', loadAverageBefore: 0, loadAverageAfter: 0 }
    const conditions = { ...machine, command: 'c', startedAt: 's', commit: 'x', ...result.conditions }
    const page = benchPage({ bench: 'pice', ...result, conditions }, piceBench.report, piceBench.goals)
    expect(page).not.toMatch(/undefined|NaN|Infinity/)
  })
})
