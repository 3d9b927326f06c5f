import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { fitHardware } from '../../../../lab/simulate/calibrate/fit-hardware.ts'
import { type MeasuredSteps, predictedS } from '../../../../lab/simulate/calibrate/measured-steps.ts'
import { wholeModel } from '../../../../lab/simulate/hardware/model-shape.ts'
import { hardwareFileText, parseHardwareFile } from '../../../../lab/simulate/hardware/presets/hardware-file.ts'
import { gpuNamed, modelNamed } from '../../../../lab/simulate/hardware/presets/presets.ts'

const shape = modelNamed('qwen2.5-1.5b')
const model = { shape, part: wholeModel(shape) }
const machine = { ...gpuNamed('a6000'), bytesPerS: 40e9, flopPerS: 4e11, layerS: 2e-4, streamS: 3e-5 }

const sizes: readonly Omit<MeasuredSteps, 'seconds'>[] = [
  ...[0, 500, 4_000, 16_000].map((context) => ({ streams: 1, rows: 1, context, chosen: 1 })),
  ...[2, 8, 32].map((streams) => ({ streams, rows: 1, context: 200, chosen: streams })),
  ...[16, 128, 1_024].map((rows) => ({ streams: 1, rows, context: 0, chosen: 1 })),
]

const measuredWith = (noise: (seconds: number) => number[]): MeasuredSteps[] =>
  sizes.map((size) => ({ ...size, seconds: noise(predictedS(machine, model, { ...size, seconds: [] })) }))

it('finds the constants that made the measurements', () => {
  const fit = fitHardware(
    model,
    measuredWith((seconds) => [seconds]),
    machine,
  )
  for (const constant of ['bytesPerS', 'flopPerS', 'layerS', 'streamS'] as const)
    expect(fit.hardware[constant] / machine[constant]).toBeCloseTo(1, 1)
  expect(fit.p95Error).toBeLessThan(0.01)
  expect(fit.unknown).toEqual([])
  expect(fit.hardware.memoryBytes).toBe(machine.memoryBytes)
})

it('is not led astray by noise and a few steps that something else held up', () => {
  const random = seededRandom(5)
  const noisy = measuredWith((seconds) =>
    Array.from({ length: 41 }, (_, i) => seconds * (0.95 + 0.1 * random.next()) * (i % 4 === 0 ? 3 : 1)),
  )
  const fit = fitHardware(model, noisy, machine)
  expect(fit.medianError).toBeLessThan(0.06)
  expect(fit.hardware.flopPerS / machine.flopPerS).toBeGreaterThan(0.8)
  expect(fit.hardware.flopPerS / machine.flopPerS).toBeLessThan(1.25)
})

it('says of which constants the measurements tell nothing', () => {
  const decode = measuredWith((seconds) => [seconds]).filter(({ rows, streams }) => rows === 1 && streams === 1)
  expect(fitHardware(model, decode, machine).unknown).toContain('flopPerS')
})

it('weighs sizes by how often they were measured, and tells the error of the median step', () => {
  const often = { streams: 1, rows: 1, context: 0, chosen: 1, seconds: Array.from({ length: 99 }, () => 0.1) }
  // No constants can fit both.
  const once = { ...often, seconds: [0.2] }
  const fit = fitHardware(model, [often, once], machine)
  expect(fit.medianError).toBeLessThan(0.1)
  // Predicted are the 0.1 s of the others.
  expect(fit.steps[1]!.error).toBeCloseTo(-0.5, 1)
})

it('is not led astray by one size that was measured wrong', () => {
  const measured = measuredWith((seconds) => [seconds])
  const wrong = measured.map((steps, at) => (at === 5 ? { ...steps, seconds: steps.seconds.map((s) => 20 * s) } : steps))
  const errors = fitHardware(model, wrong, machine).steps.map(({ error }) => Math.abs(error))
  for (const [at, error] of errors.entries()) if (at !== 5) expect(error).toBeLessThan(0.15)
})

it('reads the KV of every stream', () => {
  const memoryOnly = { ...machine, flopPerS: Number.POSITIVE_INFINITY, layerS: 0, streamS: 0 }
  const seconds = (streams: number, context: number) =>
    predictedS(memoryOnly, model, { streams, rows: 1, context, chosen: 0, seconds: [] })
  const ofContext = seconds(1, 2_000) - seconds(1, 1_000)
  expect(seconds(8, 2_000) - seconds(8, 1_000)).toBeCloseTo(8 * ofContext, 12)
})

it('needs steps', () => {
  expect(() => fitHardware(model, [], machine)).toThrow('no steps to fit')
})

it('finds constants that a file can hold, whatever was measured', () => {
  const size = fc.constantFrom(...sizes)
  const step = fc.record({ size, seconds: fc.double({ min: 1e-6, max: 10, noNaN: true }) })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 4 }), (measured) => {
      const steps = measured.map(({ size, seconds }) => ({ ...size, seconds: [seconds] }))
      const { hardware } = fitHardware(model, steps, machine)
      const { bytesPerS, flopPerS, layerS } = parseHardwareFile(hardwareFileText(hardware, []), 'a.yaml').hardware
      expect(bytesPerS / hardware.bytesPerS).toBeCloseTo(1, 2)
      expect(flopPerS / hardware.flopPerS).toBeCloseTo(1, 2)
      expect(layerS / hardware.layerS).toBeCloseTo(1, 2)
    }),
    { numRuns: 40 },
  )
})
