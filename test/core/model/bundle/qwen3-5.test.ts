import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { readManifest } from '../../../../core/model/bundle/bundle.ts'
import { readArchitecture } from '../../../../core/model/bundle/families/index.ts'
import { memoryNeeds } from '../../../../core/model/bundle/memory-need.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const folder = fixtureDir('qwen3-5')
const config = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as Record<string, unknown>

const fp32 = { name: 'fp32', accuracyLevel: 4, blockSize: 32, zeroPoints: false } as const

describe('config.json of Qwen3.5', () => {
  it('says which layers attend, and the shape of the others', () => {
    const { layers, delta, ropes, gatedAttention } = readArchitecture(config)
    expect(layers.map(({ mixer }) => mixer)).toEqual(['delta', 'delta', 'delta', 'attention', 'delta'])
    expect(delta).toEqual({ keyHeads: 2, valueHeads: 4, keyDim: 16, valueDim: 16, taps: 4 })
    expect([ropes.global.rotated, gatedAttention]).toEqual([16, true])
  })

  it.each<[string, object, string, RegExp]>([
    ['experts', { architectures: ['Qwen3_5MoeForCausalLM'] }, 'ARCHITECTURE_UNSUPPORTED', /it has experts/],
    ['biases of attention', { attention_bias: true }, 'ARCHITECTURE_UNSUPPORTED', /attention_bias/],
    ['layers of another number', { layer_types: ['full_attention'] }, 'CHECKPOINT_INVALID', /layer_types names 1 layers of 5/],
    ['heads that cannot be shared', { linear_num_key_heads: 3 }, 'CHECKPOINT_INVALID', /4 value heads cannot share 3 key heads/],
    ['a rotation that the operator lacks', { head_dim: 32 }, 'ARCHITECTURE_UNSUPPORTED', /rotating 8 elements of a head/],
    ['a hostile convolution', { linear_conv_kernel_dim: 1_000_000 }, 'CHECKPOINT_INVALID', /linear_conv_kernel_dim/],
    ['no text model', { architectures: ['Qwen3_5ForConditionalGeneration'] }, 'CHECKPOINT_INVALID', /without a text_config/],
  ])('is rejected with %s', (_, change, code, message) => {
    expect(() => readArchitecture({ ...config, ...change })).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    )
  })
})

describe('a checkpoint of Qwen3.5', () => {
  it('that also reads pictures gives the bundle of its text model', async () => {
    using dir = tempDir()
    const checkpoint = join(dir.path, 'pictures')
    cpSync(folder, checkpoint, { recursive: true })
    const { tie_word_embeddings, ...text } = config
    const outer = { architectures: ['Qwen3_5ForConditionalGeneration'], tie_word_embeddings, text_config: text }
    writeFileSync(join(checkpoint, 'config.json'), JSON.stringify(outer))
    renameTensors(join(checkpoint, 'model.safetensors'))
    const hashes = async (from: string, name: string) => {
      const { dir: out } = await buildBundle({ checkpoint: from, out: join(dir.path, name), format: 'fp32', split: 2 })
      return (await readManifest(out)).files.filter(({ path }) => path.endsWith('.weights'))
    }
    expect(await hashes(checkpoint, 'a')).toEqual(await hashes(folder, 'b'))
  })

  it('needs KV for the layers that attend and states for the others', () => {
    const model = readArchitecture(config)
    const formats = { format: fp32, deviceFormat: fp32, vocabularyFormat: undefined }
    const needs = (context: number) => memoryNeeds(model, formats, 2, [], { sessions: 3, context })
    // Keys and values of one layer with a head of 64; states of two layers at the bridge: 3 x 128 and 4 x 16 x 16 values.
    expect(needs(100).bridge.kvBytes - needs(0).bridge.kvBytes).toBe(3 * 100 * 2 * 64 * 4)
    expect(needs(0).bridge.kvBytes).toBe(3 * 7 * 2 * (3 * 128 + 4 * 16 * 16) * 4)
    expect(needs(100).device.kvBytes).toBe(7 * 2 * (3 * 128 + 4 * 16 * 16) * 4)
  })

  it.each([
    ['more layers than the part has', { layers: 9 }],
    ['a state of gigabytes', { keyDim: 1_024, valueDim: 1_024, valueHeads: 1_024 }],
  ])('in a bundle whose manifest has %s is rejected', async (_, change) => {
    using dir = tempDir()
    const { dir: out } = await buildBundle({ checkpoint: folder, out: join(dir.path, 'bundle'), format: 'fp32' })
    const path = join(out, 'manifest.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as { parts: { whole: { recurrent: object } } }
    Object.assign(manifest.parts.whole.recurrent, change)
    writeFileSync(path, JSON.stringify(manifest))
    await expect(readManifest(out)).rejects.toMatchObject({ code: 'BUNDLE_INVALID' })
  })
})

/** As in published checkpoints, with a tensor of each part that is not read. */
function renameTensors(path: string): void {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const { __metadata__: _, ...tensors } = JSON.parse(bytes.toString('utf8', 8, data)) as Record<string, object>
  const renamed = Object.entries(tensors).map(([name, info]) => [name.replace(/^model\./, 'model.language_model.'), info])
  const end = bytes.length - data
  const extra = { dtype: 'BF16', shape: [1], data_offsets: [end, end + 2] }
  const more = { dtype: 'BF16', shape: [1], data_offsets: [end + 2, end + 4] }
  const header = Buffer.from(JSON.stringify({ ...Object.fromEntries(renamed), 'model.visual.x': extra, 'mtp.x': more }))
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(header.length))
  writeFileSync(path, Buffer.concat([size, header, bytes.subarray(data), Buffer.alloc(4)]))
}
