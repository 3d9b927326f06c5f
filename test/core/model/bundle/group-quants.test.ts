import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { type BuildEvent, buildBundle } from '../../../../core/model/bundle/build.ts'
import { openCheckpoint } from '../../../../core/model/bundle/checkpoint.ts'
import { editHeader, type HeaderEntry, tinyCheckpoint } from '../../../support/checkpoint.ts'
import { quantiseCheckpoint, writePacked } from '../../../support/group-quants.ts'
import { fresh } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const dir = fresh(tempDir)

const fixture = fileURLToPath(new URL('../../../fixtures/packed/packed.json', import.meta.url))
type Stored = { shape: number[]; data: string }
const packed: Record<'AWQ' | 'GPTQ', { groupSize: number; values: string } & Record<'qweight' | 'qzeros' | 'scales', Stored>> =
  JSON.parse(readFileSync(fixture, 'utf8'))
const bytesOf = (text: string) => Uint8Array.from(Buffer.from(text, 'base64'))

describe.each(['AWQ', 'GPTQ'] as const)('a checkpoint in %s', (method) => {
  async function checkpoint(groupSize = 32, config: Record<string, unknown> = {}): Promise<string> {
    const folder = await tinyCheckpoint(join(dir.path, 'checkpoint'), { intermediate_size: 128, ...config })
    quantiseCheckpoint(folder, method, groupSize)
    return folder
  }

  it('has the values that the published package reads', async () => {
    const folder = await checkpoint()
    const { qweight, qzeros, scales, values } = packed[method]
    const part = (name: string, dtype: string, { shape, data }: Stored) => ({
      ...{ name: `x.${name}`, dtype, shape, data: bytesOf(data) },
    })
    const embedding = { name: 'model.embed_tokens.weight', dtype: 'F32', shape: [1], data: new Uint8Array(4) }
    writePacked(join(folder, 'model.safetensors'), [
      ...[part('qweight', 'I32', qweight), part('qzeros', 'I32', qzeros), part('scales', 'F16', scales), embedding],
    ])
    await using opened = await openCheckpoint(folder)
    expect(opened.tensors.find('x.weight')).toMatchObject({ dtype: method, shape: [16, 128] })
    const read = new Float32Array(16 * 128)
    await opened.tensors.read('x.weight', 0, read)
    expect([...read]).toEqual([...new Float32Array(bytesOf(values).buffer)])
    const rows = new Float32Array(2 * 128)
    await opened.tensors.read('x.weight', 5 * 128, rows)
    expect(rows).toEqual(read.subarray(5 * 128, 7 * 128))
  })

  it.each([32, 64])('with groups of %i becomes a bundle', async (groupSize) => {
    const events: BuildEvent[] = []
    const out = join(dir.path, 'bundle')
    await buildBundle({ checkpoint: await checkpoint(groupSize), out, format: 'fp32', onEvent: (event) => events.push(event) })
    const converted = events.filter((event) => event.kind === 'converted')
    expect(converted).toEqual([expect.objectContaining({ from: method, to: 'fp32', relativeError: 0 })])
  })

  async function refuses(folder: string, code: string, message: RegExp): Promise<void> {
    const out = join(dir.path, 'bundle')
    const building = buildBundle({ checkpoint: folder, out, format: 'fp32' })
    await expect(building).rejects.toMatchObject({ code, message: expect.stringMatching(message), hint: expect.any(String) })
    expect(existsSync(out)).toBe(false)
  }

  const key = 'model.layers.1.mlp.up_proj'
  const edited = async (edit: (header: Record<string, HeaderEntry>) => void) => {
    const folder = await checkpoint()
    editHeader(folder, edit)
    return folder
  }

  it('is refused where scales or zero points are missing', async () => {
    await refuses(await edited((header) => delete header[`${key}.scales`]), 'TENSOR_MISSING', /layers\.1\.mlp\.up_proj\.scales/)
    await refuses(await edited((header) => delete header[`${key}.qzeros`]), 'TENSOR_MISSING', /layers\.1\.mlp\.up_proj\.qzeros/)
    await refuses(await edited((header) => delete header[`${key}.qweight`]), 'TENSOR_MISSING', /layers\.1\.mlp\.up_proj\.weight/)
  })

  it('is refused where its tensors have other shapes or types', async () => {
    const turned = await edited((header) => header[`${key}.scales`]!.shape.reverse())
    await refuses(
      turned,
      'TENSOR_MISMATCH',
      /model\.safetensors: the tensor .*up_proj\.scales is F16 \[128, 2\], but .* \[2, 128\]/,
    )
    const floats = await edited((header) => Object.assign(header[`${key}.qweight`]!, { dtype: 'F32' }))
    await refuses(floats, 'TENSOR_MISMATCH', /up_proj\.qweight is F32/)
    await refuses(await checkpoint(32, { hidden_size: 128, head_dim: 16 }).then(withHidden64), 'TENSOR_MISMATCH', /requires/)
  })

  it.each([
    ['bits', 8, /bits 8/],
    ['group_size', 128, /64 inputs, which are no multiple of group_size 128/],
    ['group_size', -1, /group_size -1/],
    ['quant_method', 'fp8', /quant_method fp8/],
    method === 'AWQ' ? ['version', 'gemv', /version gemv/] : ['checkpoint_format', 'marlin', /checkpoint_format marlin/],
  ] as const)('is refused with %s %s', async (field, value, message) => {
    const folder = await checkpoint()
    const path = join(folder, 'config.json')
    const config = JSON.parse(readFileSync(path, 'utf8'))
    config.quantization_config[field] = value
    writeFileSync(path, JSON.stringify(config))
    await refuses(folder, 'QUANTISATION_UNSUPPORTED', message)
  })

  if (method === 'AWQ') return
  it('is refused where the inputs of a group are no neighbours, and zero points where they are 16', async () => {
    const path = join(await checkpoint(), 'model.safetensors')
    const original = readFileSync(path)
    const end = 8 + Number(original.readBigUInt64LE(0))
    const header: Record<string, HeaderEntry> = JSON.parse(original.toString('utf8', 8, end))
    const changed = (name: string) => {
      const bytes = Buffer.from(original)
      bytes.fill(0xff, end + header[name]!.data_offsets[0], end + header[name]!.data_offsets[0] + 4)
      writeFileSync(path, bytes)
      return join(dir.path, 'checkpoint')
    }
    await refuses(changed(`${key}.g_idx`), 'QUANTISATION_UNSUPPORTED', /g_idx .*desc_act/)
    await refuses(changed(`${key}.qzeros`), 'QUANTISATION_UNSUPPORTED', /up_proj\.qzeros has a zero point of 16/)
  })
})

function withHidden64(folder: string): string {
  const path = join(folder, 'config.json')
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, 'utf8')), hidden_size: 64 }))
  return folder
}
