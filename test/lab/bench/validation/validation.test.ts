import { expect, it } from 'vitest'
import type { KeptHatRun } from '../../../../lab/bench/hat/runs.ts'
import { validationFigures } from '../../../../lab/bench/validation/bench.ts'
import { cellsOf } from '../../../../lab/bench/validation/cells.ts'
import { validateDisco } from '../../../../lab/bench/validation/disco.ts'
import { validateHat } from '../../../../lab/bench/validation/hat.ts'
import { fromColumns, toColumns } from '../../../../lab/frame/columns.ts'
import { summaryOf } from '../../../../lab/frame/figures.ts'
import { readDocument } from '../../../../lab/frame/results.ts'
import { gpuNamed } from '../../../../lab/simulate/hardware/presets/presets.ts'

const answers = (...times: (readonly [ttftMs: number, tbtMs: number | null, tookMs: number])[]) =>
  times.map(([ttftMs, tbtMs, tookMs], i) => ({ atMs: 1_000 * i, ttftMs, tbtMs, tookMs, tokens: 10 }))

it('compares means, P95 and throughput', () => {
  const cells = cellsOf('hat', 'run', answers([100, 10, 200], [300, 30, 1_000]), answers([110, 10, 200], [310, null, 3_000]))
  const of = (metric: string) => cells.find((cell) => cell.metric === metric)!
  expect(of('TTFT')).toMatchObject({ measured: 200, simulated: 210, error: expect.closeTo(0.05, 9) })
  expect(of('TBT')).toMatchObject({ measured: 20, simulated: 10, error: 0.5 })
  // 20 tokens in two seconds, and in four.
  expect(of('throughput')).toMatchObject({ measured: 10, simulated: 5, error: 0.5 })
  expect(summaryOf(validationFigures, cells)).toMatchObject({
    validationErrorHatTtft: expect.closeTo(0.05, 9),
    validationErrorDiscoTtft: null,
  })
})

it('leaves out what was not measured', () => {
  const none = [{ atMs: 0, ttftMs: null, tbtMs: null, tookMs: null, tokens: 0 }]
  expect(cellsOf('hat', 'run', none, answers([1, 1, 1]))).toEqual([])
})

const sampleNames = ['atMs', 'device', 'promptTokens', 'tokens', 'ttftMs', 'tbtMs', 'tookMs', 'rounds', 'looping'] as const

it('predicts runs of HAT', async () => {
  // About what calibration finds in the steps of this document.
  const hardware = { ...gpuNamed('a40'), bytesPerS: 3.3e10, flopPerS: 1e11, layerS: 4.5e-5, streamS: 3.7e-5 }
  const document = await readDocument('docs/results/hat/hat.json', { name: 'hat' })
  const all = document.runs as readonly KeptHatRun[]
  const runs = all
    .filter(({ measured, seed, workload }) => measured === 'loaded' && seed === 1 && workload === 'short')
    .filter(({ strategy }) => strategy === 'hat' || strategy === 'u-shape')
    .map((run) => ({ ...run, samples: toColumns(fromColumns(run.samples).slice(0, 12), sampleNames) }))
  const cells = validateHat({ ...document, runs }, hardware)
  expect(cells).toHaveLength(2 * 5)
  for (const { metric, error } of cells) if (metric.startsWith('TTFT')) expect(error).toBeLessThan(0.15)
})

it('compares DiSCo’s live answers with their replay', async () => {
  const cells = validateDisco(await readDocument('docs/results/disco/disco.json', { name: 'disco' }))
  expect(cells.map(({ run }) => run)).toContain('DiSCo-S')
  for (const { metric, error } of cells) if (metric === 'TBT') expect(error).toBeLessThan(0.05)
})
