import { expect, it } from 'vitest'
import { structuredBench } from '../../../lab/bench/structured/bench.ts'
import type { StructuredRun } from '../../../lab/bench/structured/report.ts'
import { captureIo } from '../../support/captured-io.ts'

it('the bench of structured answers measures valid answers, masks, and a device over a link', async () => {
  const { io } = captureIo()
  const context = { quick: true, io, progress: () => {} }
  const { summary, runs } = await structuredBench.run(context, { answers: 6, seed: 3, rttMs: 10 })
  expect(summary.valid).toBe(1)
  expect(summary.forcedShare).toBeGreaterThan(0)
  expect(summary.maskP50Us).toBeGreaterThan(0)
  expect(summary.tokensPerRound).toBeGreaterThan(1)
  expect(summary.maskShareOfStep).toBeGreaterThanOrEqual(0)
  expect(summary.secondTurnBridge).toBeGreaterThan(0)
  const kinds = (runs as StructuredRun[])
    .filter(({ kind }) => kind !== 'schema')
    .map((run) => ('server' in run ? run.server : run.kind))
  expect(kinds).toEqual([...Array(6).fill(['record', 'free']), ...Array(6).fill(['agent', 'bridge'])].flat())
})
