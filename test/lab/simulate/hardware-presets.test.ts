import { expect, it } from 'vitest'
import { headOf, layersOf, wholeModel } from '../../../lab/simulate/hardware/model-shape.ts'
import { boardNamed, boards, gpuNamed, gpus, modelNamed, models } from '../../../lab/simulate/hardware/presets/presets.ts'
import { headS, stepS, together, workOf } from '../../../lab/simulate/hardware/roofline.ts'

it.each([
  ['llama3-8b', 8.03],
  ['llama3-70b', 70.6],
  ['qwen2.5-1.5b', 1.54],
  ['qwen2.5-7b', 7.62],
  ['qwen2.5-32b', 32.8],
  ['qwen2.5-72b', 72.7],
  ['vicuna-7b', 6.74],
  ['vicuna-13b', 13.0],
  ['bloom-560m', 0.56],
  ['bloom-1.1b', 1.07],
  ['qwen1.5-0.5b', 0.464],
])('%s has the number of weights that its makers state: %d billion', (name, billions) => {
  const shape = modelNamed(name)
  const matrices = wholeModel(shape).weightBytes / 2 + shape.vocabulary * shape.hidden * (shape.tiesEmbedding ? 1 : 2)
  expect(matrices / 1e9 / billions).toBeCloseTo(1, 1.7)
})

// The paper names two A100; its figures are those of one where a model fits into one.
it.each([
  ['qwen2.5-72b', 2, 18.19],
  ['llama3-70b', 2, 18.82],
  ['qwen2.5-32b', 1, 22.13],
  ['llama3-8b', 1, 76.5],
  ['qwen2.5-7b', 1, 84.28],
  ['qwen2.5-1.5b', 1, 183.33],
])('%s on %d A100 decodes as fast as PICE measured (Table I): %d tokens/s', (name, count, tokensPerS) => {
  const shape = modelNamed(name)
  const group = together(gpuNamed('a100-80'), count)
  const seconds = stepS(group, wholeModel(shape), workOf(1, 256)) + headS(group, headOf(shape), 1)
  const error = 1 / seconds / tokensPerS - 1
  console.log(`${name}: ${(1 / seconds).toFixed(2)} tokens/s, ${(100 * error).toFixed(1)} % off`)
  expect(Math.abs(error)).toBeLessThan(0.1)
})

it('computes a long prompt as fast as HAT measured (§2.3)', () => {
  const shape = modelNamed('vicuna-7b')
  const prompt = workOf(2_000, 0)
  const cloudS = stepS(gpuNamed('a6000'), layersOf(shape, 2, 32), prompt)
  const deviceS = stepS(boardNamed('agx-orin-32').hardware, layersOf(shape, 0, 2), prompt)
  console.log(`cloud ${cloudS.toFixed(3)} s of 0.28 s, device ${deviceS.toFixed(3)} s of 0.09 s`)
  expect(Math.abs(cloudS / 0.28 - 1)).toBeLessThan(0.1)
  expect(Math.abs(deviceS / 0.09 - 1)).toBeLessThan(0.1)
})

it('says which name was meant', () => {
  expect(gpuNamed('H200').name).toBe('h200')
  expect(() => gpuNamed('h20')).toThrow('there is no GPU preset "h20"; the presets are a6000, ')
  expect(() => modelNamed('lama3-8b')).toThrow(expect.objectContaining({ hint: 'did you mean "llama3-8b"?' }))
  expect(() => boardNamed('toaster')).toThrow(expect.objectContaining({ hint: 'brim simulate presets shows what they are' }))
})

it('has a source for each preset, and no name twice', () => {
  for (const presets of [gpus, boards, models]) {
    expect(new Set(presets.map(({ name }) => name)).size).toBe(presets.length)
    for (const { source } of presets) expect(source).not.toBe('')
  }
})
