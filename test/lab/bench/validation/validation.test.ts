import { expect, it } from 'vitest'
import { summaryOf } from '../../../../lab/bench/validation/bench.ts'
import { cellsOf } from '../../../../lab/bench/validation/cells.ts'
import { validateDisco } from '../../../../lab/bench/validation/disco.ts'
import { validateHat } from '../../../../lab/bench/validation/hat.ts'
import { readDocument } from '../../../../lab/frame/results.ts'
import { fitHardware } from '../../../../lab/simulate/calibrate/fit-hardware.ts'
import { readMeasurements } from '../../../../lab/simulate/calibrate/read-measurements.ts'
import { gpuNamed } from '../../../../lab/simulate/hardware/presets/gpus.ts'

const answers = (...times: (readonly [ttftMs: number, tbtMs: number | null, tookMs: number])[]) =>
  times.map(([ttftMs, tbtMs, tookMs], i) => ({ atMs: 1_000 * i, ttftMs, tbtMs, tookMs, tokens: 10 }))

it('compares means, P95 and throughput', () => {
  const cells = cellsOf('hat', 'run', answers([100, 10, 200], [300, 30, 1_000]), answers([110, 10, 200], [310, null, 3_000]))
  const of = (metric: string) => cells.find((cell) => cell.metric === metric)!
  expect(of('TTFT')).toMatchObject({ measured: 200, simulated: 210, error: expect.closeTo(0.05, 9) })
  expect(of('TBT')).toMatchObject({ measured: 20, simulated: 10, error: 0.5 })
  // 20 tokens in two seconds, and in four.
  expect(of('throughput')).toMatchObject({ measured: 10, simulated: 5, error: 0.5 })
  expect(summaryOf(cells)).toMatchObject({ validationErrorHatTtft: expect.closeTo(0.05, 9), validationErrorDiscoTtft: null })
})

it('leaves out what was not measured', () => {
  const none = [{ atMs: 0, ttftMs: null, tbtMs: null, tookMs: null, tokens: 0 }]
  expect(cellsOf('hat', 'run', none, answers([1, 1, 1]))).toEqual([])
})

it('predicts runs of HAT from the steps of its document', async () => {
  const file = 'docs/results/hat/hat.json'
  const steps = await readMeasurements(file, undefined)
  const { hardware } = fitHardware(steps, steps.steps, gpuNamed('a40'))
  const document = await readDocument(file, { name: 'hat' })
  const runs = document.runs.filter((run) => {
    const { measured, seed, strategy } = run as { measured: string; seed: number; strategy: string }
    return measured === 'loaded' && seed === 1 && ['hat', 'u-shape'].includes(strategy)
  })
  const cells = validateHat({ ...document, runs }, hardware)
  expect(cells).toHaveLength(4 * 5)
  for (const { metric, error } of cells) if (metric.startsWith('TTFT')) expect(error).toBeLessThan(0.1)
  expect(validateHat({ ...document, runs }, hardware)).toEqual(cells)
})

it('compares DiSCo’s live answers with their replay', async () => {
  const cells = validateDisco(await readDocument('docs/results/disco/disco.json', { name: 'disco' }))
  expect(cells.map(({ run }) => run)).toContain('DiSCo-S')
  for (const { metric, error } of cells) if (metric === 'TBT') expect(error).toBeLessThan(0.05)
})
