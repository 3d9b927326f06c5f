import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { TensorFiles } from '../../core/model/bundle/tensor-files.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = shared(tempDir)

const config = { ...tinyLlamaConfig, hidden_size: 256, num_attention_heads: 16 }

it('writes the same bytes for the same seed, others for another', async () => {
  const bytes = async (name: string, seed: number) => {
    await writeRandomCheckpoint(join(dir.path, name), { config, dtype: 'BF16', seed })
    return readFileSync(join(dir.path, name, 'model.safetensors'))
  }
  const first = await bytes('a', 1)
  expect((await bytes('b', 1)).equals(first)).toBe(true)
  expect((await bytes('c', 2)).equals(first)).toBe(false)
})

it.each(['F32', 'F16', 'BF16'] as const)('gives weights in %s that keep activations at their size', async (dtype) => {
  const folder = join(dir.path, dtype)
  await writeRandomCheckpoint(folder, { config, dtype, seed: 3 })
  await using files = await TensorFiles.open([join(folder, 'model.safetensors')])
  const matrix = new Float32Array(96 * 256)
  await files.read('model.layers.1.mlp.gate_proj.weight', 0, matrix)
  const mean = matrix.reduce((sum, value) => sum + value, 0) / matrix.length
  const variance = matrix.reduce((sum, value) => sum + (value - mean) ** 2, 0) / matrix.length
  expect(Math.abs(mean)).toBeLessThan(0.002)
  expect(variance * 256).toBeGreaterThan(0.95)
  expect(variance * 256).toBeLessThan(1.05)
  const norm = new Float32Array(256)
  await files.read('model.norm.weight', 0, norm)
  for (const value of norm) expect(Math.abs(value - 1)).toBeLessThanOrEqual(0.21)
})
