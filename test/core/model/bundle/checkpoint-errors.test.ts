import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { type BuildOptions, buildBundle } from '../../../../core/model/bundle/build.ts'
import { editHeader, type HeaderEntry, tinyCheckpoint } from '../../../support/checkpoint.ts'
import { fresh } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'
import { tokenizerJson } from '../../../support/tokenizer-json.ts'

const dir = fresh(tempDir)
let checkpoint: string
beforeEach(async () => {
  checkpoint = await tinyCheckpoint(join(dir.path, 'checkpoint'))
})

async function refuses(code: string, message: RegExp, options: Partial<BuildOptions> = {}) {
  const out = join(dir.path, 'bundle')
  await expect(buildBundle({ checkpoint, out, format: 'fp32', ...options })).rejects.toMatchObject({
    name: 'BrimError',
    code,
    message: expect.stringMatching(message),
  })
  expect(existsSync(out)).toBe(false)
}

const writeJson = (file: string, value: unknown) => writeFileSync(join(checkpoint, file), JSON.stringify(value))

/** Writes 32 bits over the first value of a tensor. */
function overwrite(tensor: string, bits: number): void {
  const path = join(checkpoint, 'model.safetensors')
  const bytes = readFileSync(path)
  const end = 8 + Number(bytes.readBigUInt64LE(0))
  const header: Record<string, HeaderEntry> = JSON.parse(bytes.toString('utf8', 8, end))
  bytes.writeUInt32LE(bits, end + (header[tensor]?.data_offsets[0] ?? 0))
  writeFileSync(path, bytes)
}

describe('a checkpoint is rejected', () => {
  it('if the folder does not exist or has no weights', async () => {
    await refuses('CHECKPOINT_NOT_FOUND', /has no config\.json/, { checkpoint: join(dir.path, 'nowhere') })
    rmSync(join(checkpoint, 'model.safetensors'))
    await refuses('CHECKPOINT_NOT_FOUND', /has neither model\.safetensors nor model\.safetensors\.index\.json/)
  })

  it.each(['config.json', 'model.safetensors', 'tokenizer.json'])('if %s is a pointer of Git LFS', async (file) => {
    writeFileSync(join(checkpoint, file), 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 11422654\n')
    const code =
      { 'model.safetensors': 'SAFETENSORS_INVALID', 'tokenizer.json': 'TOKENIZER_INVALID' }[file] ?? 'CHECKPOINT_INVALID'
    await refuses(code, new RegExp(`${file} is a pointer of Git LFS`))
  })

  it('if config.json is not JSON', async () => {
    writeFileSync(join(checkpoint, 'config.json'), '{"hidden_size": 6')
    await refuses('CHECKPOINT_INVALID', /config\.json is not a JSON object/)
  })

  it('if a tensor is missing, with its name', async () => {
    editHeader(checkpoint, (header) => delete header['model.layers.2.mlp.up_proj.weight'])
    await refuses('TENSOR_MISSING', /model\.layers\.2\.mlp\.up_proj\.weight/)
  })

  it('if a tensor is not part of the architecture, with its name and file', async () => {
    const extra: HeaderEntry = { dtype: 'F32', shape: [0], data_offsets: [0, 0] }
    editHeader(checkpoint, (header) => {
      header['model.layers.0.self_attn.q_norm.weight'] = extra
    })
    await refuses('TENSOR_UNEXPECTED', /model\.safetensors: the tensor model\.layers\.0\.self_attn\.q_norm\.weight/)
  })

  it('if a shape differs from config.json, with both shapes', async () => {
    editHeader(checkpoint, (header) => header['model.layers.1.mlp.down_proj.weight']?.shape.reverse())
    await refuses(
      'TENSOR_MISMATCH',
      /model\.layers\.1\.mlp\.down_proj\.weight is \[96, 64\], the configuration requires \[64, 96\]/,
    )
  })

  it('if a weight is not a floating-point number', async () => {
    editHeader(checkpoint, (header) => Object.assign(header['model.norm.weight'] ?? {}, { dtype: 'I32' }))
    await refuses('TENSOR_MISMATCH', /model\.norm\.weight is I32/)
  })

  it('if the weights file is truncated', async () => {
    truncateSync(join(checkpoint, 'model.safetensors'), 100_000)
    await refuses('SAFETENSORS_INVALID', /model\.safetensors is cut short: the tensor/)
  })

  it('if a weight is NaN or infinite, with the name of the tensor', async () => {
    overwrite('model.layers.3.self_attn.v_proj.weight', 0x7fc00000)
    await refuses('VALUE_OUT_OF_RANGE', /model\.layers\.3\.self_attn\.v_proj\.weight holds NaN or infinity/)
    overwrite('model.layers.3.self_attn.v_proj.weight', 0xff800000)
    await refuses('VALUE_OUT_OF_RANGE', /v_proj\.weight holds NaN or infinity/, { format: 'int4' })
  })

  it('if fp16 cannot represent a weight, with the tensor and the value', async () => {
    overwrite('model.layers.3.self_attn.v_proj.weight', 0x48000000)
    await refuses('VALUE_OUT_OF_RANGE', /v_proj\.weight holds 131072, which fp16 cannot represent/, { format: 'fp16' })
  })

  it('if the tokenizer has ids beyond the embedding', async () => {
    writeJson('tokenizer.json', tokenizerJson({ a: 0, b: 159 }, 160))
    await refuses('VOCABULARY_MISMATCH', /has ids up to 160, but the embedding has 160 rows/)
  })

  it('if tokenizer.json is invalid or has an unsupported decoder', async () => {
    writeJson('tokenizer.json', { model: { vocab: 'many' } })
    await refuses('TOKENIZER_INVALID', /tokenizer\.json: .*vocab/s)
    writeJson('tokenizer.json', { ...tokenizerJson({ a: 0 }, 1), decoder: { type: 'WordPiece' } })
    await refuses('TOKENIZER_INVALID', /tokenizer\.json: the decoder WordPiece is not a BPE decoder/)
  })

  it('if a width is not a multiple of the int4 block size', async () => {
    checkpoint = await tinyCheckpoint(join(dir.path, 'odd'), { intermediate_size: 72 })
    await refuses('ARCHITECTURE_UNSUPPORTED', /multiples of 32, but the MLP width is 72/, { format: 'int4' })
    checkpoint = await tinyCheckpoint(join(dir.path, 'narrow'))
    await refuses('ARCHITECTURE_UNSUPPORTED', /multiples of 128, but the hidden size is 64/, { format: 'int4', blockSize: 128 })
  })
})

describe('shards', () => {
  const index = (file: string) => writeJson('model.safetensors.index.json', { weight_map: { a: 'one.safetensors', b: file } })

  it('must all exist', async () => {
    renameSync(join(checkpoint, 'model.safetensors'), join(checkpoint, 'one.safetensors'))
    index('two.safetensors')
    await refuses('CHECKPOINT_INVALID', /cannot open .*two\.safetensors/)
  })

  it('must not contain a tensor twice', async () => {
    copyFileSync(join(checkpoint, 'model.safetensors'), join(checkpoint, 'two.safetensors'))
    renameSync(join(checkpoint, 'model.safetensors'), join(checkpoint, 'one.safetensors'))
    index('two.safetensors')
    await refuses('CHECKPOINT_INVALID', /both in one\.safetensors and in two\.safetensors/)
  })

  it('must be in the folder of the checkpoint', async () => {
    rmSync(join(checkpoint, 'model.safetensors'))
    index('../elsewhere.safetensors')
    await refuses('CHECKPOINT_INVALID', /index\.json does not map tensors to files/)
  })
})

describe('a split', () => {
  it.each([0, 4, 5, -1, 1.5, Number.NaN])('after layer %d of 4 is out of range', async (split) => {
    await refuses('SPLIT_OUT_OF_RANGE', /the model has 4/, { split })
  })
})

describe('an adapter', () => {
  const adapter = { split: 2, heads: 4, kvHeads: 2, headDim: 16 }

  it('that was requested must have been trained for this split', async () => {
    await tinyCheckpoint(checkpoint, {}, { adapter })
    await refuses('SPLIT_OUT_OF_RANGE', /trained for a split after layer 2, not 1/, {
      split: 1,
      adapter: join(checkpoint, 'adapter'),
    })
  })

  it('that was requested must exist, and the model must be split', async () => {
    await refuses('CHECKPOINT_NOT_FOUND', /has no adapter_config\.json/, { split: 1, adapter: checkpoint })
    await refuses('USAGE', /needs a split model/, { adapter: checkpoint })
  })

  it("must have the model's hidden size", async () => {
    await tinyCheckpoint(checkpoint, {}, { adapter })
    const path = join(checkpoint, 'adapter/adapter_config.json')
    writeFileSync(path, readFileSync(path, 'utf8').replace('"hidden_size": 64', '"hidden_size": 128'))
    await refuses('CHECKPOINT_INVALID', /hidden_size is 128, the model's is 64/, { split: 2 })
  })

  it('must have all its tensors and no others', async () => {
    await tinyCheckpoint(checkpoint, {}, { adapter })
    editHeader(
      join(checkpoint, 'adapter'),
      (header) => {
        header['gate.weight'] = header['o_proj.weight'] as HeaderEntry
        delete header['o_proj.weight']
      },
      'adapter.safetensors',
    )
    await refuses('TENSOR_MISSING', /o_proj\.weight/, { split: 2 })
  })
})
