import { closeSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { drafterParts, type Manifest, type PartName } from '../../../../core/model/bundle/manifest.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { testPart } from '../../../../core/model/engine/self-test.ts'
import { tinyQwen2Config } from '../../../../lab/random-checkpoint.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const adapter = { split: 1, heads: 2, kvHeads: 1, headDim: 32 }
const drafters = {
  adapter: { ...adapter, features: true },
  adapterPaper: adapter,
  medusa: { heads: 4, tree: [[0], [0, 0]] },
}
const allParts = ['input', 'adapter', 'adapter-paper', 'middle', 'output', 'medusa']
const llama3 = { rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 64 }

const dir = shared(tempDir)
let runtime: Runtime
let checkpoints: Record<string, string>
beforeAll(async () => {
  runtime = await openRuntime()
  const make = (name: string, config: object) => tinyCheckpoint(join(dir.path, name), { ...config }, drafters)
  checkpoints = {
    llama: await make('llama', {}),
    'llama with biases and scaled rope': await make('biased', { attention_bias: true, mlp_bias: true, rope_scaling: llama3 }),
    qwen2: await make('qwen2', tinyQwen2Config),
  }
})
afterAll(() => runtime.close())

let count = 0
async function build(checkpoint: string, options: Partial<Parameters<typeof buildBundle>[0]>) {
  return buildBundle({
    checkpoint: checkpoints[checkpoint] ?? '',
    out: join(dir.path, `bundle-${count++}`),
    format: 'fp32',
    ...options,
  })
}

async function testAll(folder: string, manifest: Manifest) {
  const tests = []
  for (const part of Object.keys(manifest.parts) as PartName[]) tests.push(await testPart(runtime, folder, manifest, part, 1))
  return tests
}

describe('golden vectors', () => {
  const variants = [
    ['fp32', 4, 1e-3],
    ['fp16', 4, 1e-3],
    ['int4', 1, 1e-3],
    ['int4', 4, 0.05],
    ['int8', 1, 1e-3],
    ['int8', 4, 0.05],
  ] as const
  const models = ['llama', 'llama with biases and scaled rope', 'qwen2']
  const cases = models.flatMap((model) => variants.map(([format, level, limit]) => ({ model, format, level, limit })))

  it.each(cases)('of $model in $format (level $level) match every part', async ({ model, format, level, limit }) => {
    // A whole part is made of the same nodes; one format of each model shows that it has vectors too.
    for (const shape of [{ split: 1, drafters: drafterParts }, ...(format === 'fp32' ? [{}] : [])]) {
      const { dir: folder, manifest } = await build(model, { format, accuracyLevel: level, ...shape })
      const tests = await testAll(folder, manifest)
      expect(tests.map(({ part }) => part)).toEqual('split' in shape ? allParts : ['whole'])
      for (const test of tests) {
        expect(test).toMatchObject({ passed: true })
        expect(test.error).toBeLessThan(limit)
      }
    }
  })

  it('can contain states that exceed fp16', async () => {
    const loud = await tinyCheckpoint(join(dir.path, 'loud'))
    raiseFirstEmbeddings(loud)
    const { dir: folder, manifest } = await buildBundle({
      checkpoint: loud,
      out: join(dir.path, 'loud-bundle'),
      split: 1,
      format: 'fp32',
    })
    const golden = JSON.parse(readFileSync(join(folder, 'middle.golden.json'), 'utf8'))
    expect(golden.input.wide.index).toEqual([0, 1, 2, 3])
    for (const test of await testAll(folder, manifest)) expect(test).toMatchObject({ passed: true })
  })

  it('do not match if a matrix has changed', async () => {
    const damaged: [part: PartName, matrix: string][] = [
      ['input', 'layers.0.qkv'],
      ['adapter', 'adapter.qkv'],
      ['adapter', 'adapter.feature'],
      ['adapter-paper', 'adapter.output'],
      ['middle', 'layers.1.qkv'],
      ['output', 'head'],
      ['medusa', 'medusa'],
    ]
    for (const [part, name] of damaged) {
      const { dir: folder, manifest } = await build('llama', { split: 1, format: 'int4', drafters: drafterParts })
      const matrix = manifest.parts[part]?.weights.find((entry) => entry.name === `${name}.codes`)
      const file = openSync(join(folder, matrix?.file ?? ''), 'r+')
      // All codes become 0, which is minus eight steps.
      writeSync(file, new Uint8Array(matrix?.bytes ?? 0), 0, matrix?.bytes ?? 0, matrix?.offset ?? 0)
      closeSync(file)
      const test = await testPart(runtime, folder, manifest, part, 1)
      expect(test).toMatchObject({ part, passed: false })
    }
  })

  it.each(['adapter', 'adapter-paper'] as const)('are rejected if the manifest has other inputs: %s', async (part) => {
    const { dir: folder, manifest } = await build('llama', { split: 1, drafters: drafterParts })
    const own = manifest.parts[part]!
    const changed = { ...manifest, parts: { ...manifest.parts, [part]: { ...own, features: !own.features } } }
    await expect(testPart(runtime, folder, changed, part, 1)).rejects.toMatchObject({
      code: 'BUNDLE_INVALID',
      message: expect.stringContaining(`part ${part} `),
    })
  })

  it('do not match if positions are rotated wrongly', async () => {
    const { dir: folder, manifest } = await build('llama', { split: 1 })
    const sin = manifest.parts.middle?.weights.find(({ name }) => name === 'rope.sin')
    const bytes = readFileSync(join(folder, 'middle.weights'))
    const table = new Float32Array(bytes.buffer, bytes.byteOffset + (sin?.offset ?? 0), (sin?.bytes ?? 0) / 4)
    for (let i = 0; i < table.length; i++) table[i] = -(table[i] ?? 0)
    writeFileSync(join(folder, 'middle.weights'), bytes)
    expect(await testPart(runtime, folder, manifest, 'middle', 1)).toMatchObject({ passed: false })
  })
})

/** Multiplies the embedding, the first tensor of the file, by a million. */
function raiseFirstEmbeddings(checkpoint: string): void {
  const path = join(checkpoint, 'model.safetensors')
  const bytes = Uint8Array.from(readFileSync(path))
  const start = 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true))
  const values = new Float32Array(bytes.buffer.slice(start, start + 160 * 64 * 4)).map((value) => value * 1e6)
  bytes.set(new Uint8Array(values.buffer), start)
  writeFileSync(path, bytes)
}
