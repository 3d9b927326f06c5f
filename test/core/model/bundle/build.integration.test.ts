import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { type BuildEvent, type BuildOptions, buildBundle } from '../../../../core/model/bundle/build.ts'
import { readManifest, verifyHashes } from '../../../../core/model/bundle/bundle.ts'
import {
  formatOf,
  formats,
  graphKey,
  type Manifest,
  type PartName,
  slotCounts,
  type WeightEntry,
} from '../../../../core/model/bundle/manifest.ts'
import { TensorFiles } from '../../../../core/model/bundle/tensor-files.ts'
import { tinyQwen2Config } from '../../../../lab/random-checkpoint.ts'
import { repeatTensor, tinyCheckpoint } from '../../../support/checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'
import { tokenizerJson } from '../../../support/tokenizer-json.ts'

const dir = shared(tempDir)
let llama: string
let qwen: string
beforeAll(async () => {
  llama = await tinyCheckpoint(join(dir.path, 'llama'), {}, { adapter: { split: 1, heads: 2, kvHeads: 1, headDim: 32 } })
  qwen = await tinyCheckpoint(join(dir.path, 'qwen'), tinyQwen2Config, { dtype: 'BF16' })
  writeFileSync(join(llama, 'tokenizer.json'), JSON.stringify(tokenizerJson({ a: 0 }, 159)))
  writeFileSync(join(llama, 'generation_config.json'), JSON.stringify({ eos_token_id: [2, 7], pad_token_id: 0 }))
})

let count = 0
async function build(options: Partial<BuildOptions> = {}) {
  const events: BuildEvent[] = []
  const out = join(dir.path, `bundle-${count++}`)
  const built = await buildBundle({ checkpoint: llama, out, format: 'fp32', onEvent: (event) => events.push(event), ...options })
  return { ...built, events }
}

const weight = (manifest: Manifest, part: PartName, name: string): WeightEntry | undefined =>
  manifest.parts[part]?.weights.find((entry) => entry.name === name)

describe('a bundle', () => {
  it.each(formats)('in %s has the manifest that the build returned, with matching hashes', async (format) => {
    const { dir: out, manifest } = await build({ format, split: 1 })
    expect(await readManifest(out)).toEqual(manifest)
    await verifyHashes(out, manifest)
    const found = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length
    expect(manifest.files.length).toBe(found - 1)
  })

  it('of a split model has the parts input, adapter, middle and output', async () => {
    const { manifest } = await build({ split: 1 })
    expect(Object.entries(manifest.parts).map(([name, part]) => [name, part.layers, part.kvHeads, part.headDim])).toEqual([
      ['input', [0, 1], 2, 16],
      ['adapter', [0, 1], 1, 32],
      ['middle', [1, 4], 2, 16],
      ['output', [4, 4], 2, 16],
    ])
    const keys = [false, true].flatMap((branching) => slotCounts.map((slots) => graphKey(slots, branching)))
    expect(Object.keys(manifest.parts.middle?.graphs ?? {}).toSorted()).toEqual(keys.toSorted())
    expect(Object.keys(manifest.parts.output?.graphs ?? {})).toEqual(['1'])
  })

  it('in int4 has embedding and head in int8, but at accuracy level 1, where such a head is slow', async () => {
    const typesAndRows = async (accuracyLevel: 1 | 4) => {
      const { manifest } = await build({ format: 'int4', accuracyLevel })
      const codes = manifest.parts.whole!.weights.filter(({ name }) => /^(embedding|head)\.codes$/.test(name))
      const { hidden, vocab } = manifest.dims
      return { format: manifest.vocabularyFormat?.name, bits: codes.map(({ bytes }) => (8 * bytes) / (hidden * vocab)) }
    }
    expect(await typesAndRows(4)).toEqual({ format: 'int8', bits: [8, 8] })
    expect(await typesAndRows(1)).toEqual({ format: undefined, bits: [4, 4] })
  })

  it('may have other weights in the parts that devices compute', async () => {
    const { dir: out, manifest } = await build({ split: 1, format: 'fp16', deviceFormat: 'int4' })
    expect(await readManifest(out)).toEqual(manifest)
    expect(manifest).toMatchObject({ format: { name: 'fp16' }, deviceFormat: { name: 'int4', blockSize: 32, accuracyLevel: 4 } })
    const typesOf = (part: PartName) => new Set(manifest.parts[part]!.weights.map(({ type }) => type))
    for (const part of ['input', 'adapter', 'output'] as const) {
      expect(typesOf(part)).toContain('uint8')
      expect(formatOf(manifest, part).name).toBe('int4')
    }
    expect(typesOf('middle')).toContain('float16')
    expect(typesOf('middle')).not.toContain('uint8')
    expect(formatOf(manifest, 'middle').name).toBe('fp16')
    await expect(build({ deviceFormat: 'int4' })).rejects.toMatchObject({ code: 'USAGE' })
  })

  it('carries the prompts that its model was trained on', async () => {
    const text = '{"foresight": "How long?"}'
    const checkpoint = join(dir.path, 'with-prompts')
    cpSync(llama, checkpoint, { recursive: true })
    writeFileSync(join(checkpoint, 'pice-prompts.json'), text)
    const { dir: out, manifest } = await build({ checkpoint })
    expect(readFileSync(join(out, 'tokenizer/pice-prompts.json'), 'utf8')).toBe(text)
    expect(manifest.files).toContainEqual(expect.objectContaining({ path: 'tokenizer/pice-prompts.json' }))
  })

  it('uses an lm_head.weight that differs from the embedding although the configuration ties them', async () => {
    const untied = await tinyCheckpoint(join(dir.path, 'untied'), { tie_word_embeddings: false })
    const config = join(untied, 'config.json')
    writeFileSync(config, readFileSync(config, 'utf8').replace('"tie_word_embeddings": false', '"tie_word_embeddings": true'))
    const head = await TensorFiles.open([join(untied, 'model.safetensors')])
    const values = new Float32Array(64)
    await head.read('lm_head.weight', 0, values)
    await head[Symbol.asyncDispose]()

    const { dir: out, manifest } = await build({ checkpoint: untied })
    const entry = weight(manifest, 'whole', 'head.weight')!
    const bytes = readFileSync(join(out, entry.file)).subarray(entry.offset, entry.offset + 256)
    expect(new Float32Array(Uint8Array.from(bytes).buffer)).toEqual(values)
  })

  it('stores a head once that equals the embedding, whether the checkpoint repeats it or not', async () => {
    const repeated = join(dir.path, 'repeated')
    cpSync(qwen, repeated, { recursive: true })
    repeatTensor(join(repeated, 'model.safetensors'), 'model.embed_tokens.weight', 'lm_head.weight')
    const { manifest } = await build({ checkpoint: repeated })
    expect(weight(manifest, 'whole', 'head.weight')?.offset).toBe(weight(manifest, 'whole', 'embedding.weight')?.offset)
  })

  it('without a split has one part and no adapter', async () => {
    const checkpoint = join(dir.path, 'with-template')
    cpSync(llama, checkpoint, { recursive: true })
    writeFileSync(join(checkpoint, 'chat_template.jinja'), '{{ messages[0].content }}')
    const { manifest, events } = await build({ checkpoint })
    expect(manifest.split).toBeNull()
    expect(Object.keys(manifest.parts)).toEqual(['whole'])
    expect(events.filter((event) => event.kind === 'warning')).toEqual([])
  })

  it('contains the tokenizer, its configuration and the special tokens', async () => {
    const { dir: out, manifest } = await build()
    expect(readdirSync(join(out, 'tokenizer')).sort()).toEqual(['config.json', 'generation_config.json', 'tokenizer.json'])
    expect(manifest.tokens).toEqual({ bos: 1, eos: [2, 7], pad: 0 })
  })

  it('counts a tied head once in its number of parameters', async () => {
    const perLayer = 64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 96 + 2 * 64
    expect((await build({ split: 1 })).manifest.card.parameters).toBe(4 * perLayer + 2 * 160 * 64 + 64)
    expect((await build({ checkpoint: qwen })).manifest.card.parameters).toBe(4 * (perLayer + 64 + 2 * 32) + 160 * 64 + 64)
  })

  it.each(['fp32', 'int4'] as const)('in %s stores tied embeddings once', async (format) => {
    const { manifest } = await build({ checkpoint: qwen, split: 1, format })
    for (const role of format === 'int4' ? ['codes', 'scales'] : ['weight']) {
      const [table, head] = [weight(manifest, 'input', `embedding.${role}`), weight(manifest, 'output', `head.${role}`)]
      expect(head).toMatchObject({ file: 'input.weights', offset: table?.offset, bytes: table?.bytes, type: table?.type })
    }
    expect(manifest.files.find(({ path }) => path === 'output.weights')?.bytes).toBe(64 * 4)
  })

  it('aligns each weight to a cache line, without overlap', async () => {
    const { manifest } = await build({ split: 1, format: 'int4' })
    for (const part of Object.values(manifest.parts)) {
      const own = part.weights.toSorted((a, b) => a.offset - b.offset)
      for (const [i, entry] of own.entries()) {
        expect(entry.offset % 64).toBe(0)
        const previous = own[i - 1]
        if (previous) expect(entry.offset).toBeGreaterThanOrEqual(previous.offset + previous.bytes)
      }
    }
  })

  it("stores the checkpoint's values in fp32, with the rows of q, k and v concatenated", async () => {
    const { dir: out, manifest } = await build({ split: 1 })
    const qkv = weight(manifest, 'middle', 'layers.2.qkv.weight')
    const stored = readFileSync(join(out, 'middle.weights')).subarray(qkv?.offset, (qkv?.offset ?? 0) + (qkv?.bytes ?? 0))
    expect(stored).toEqual(
      Buffer.concat(['q', 'k', 'v'].map((p) => tensorBytes(llama, `model.layers.2.self_attn.${p}_proj.weight`))),
    )
  })

  it('comes with warnings if the device gets a tenth of the layers or more, and if there is no tokenizer', async () => {
    const { events } = await build({ checkpoint: qwen, split: 2 })
    expect(events.flatMap((event) => (event.kind === 'warning' ? [event.message] : []))).toEqual([
      expect.stringMatching(/the device gets 2 of 4 layers \(50 %\)/),
      expect.stringMatching(/no tokenizer\.json/),
    ])
  })

  it('comes with a warning if there is no chat template', async () => {
    const { events } = await build()
    expect(events).toContainEqual({ kind: 'warning', message: expect.stringMatching(/no chat template/) })
  })

  it('omits an adapter for another split, with a warning', async () => {
    const { manifest, events } = await build({ split: 2 })
    expect(manifest.parts.adapter).toBeUndefined()
    expect(events).toContainEqual({
      kind: 'warning',
      message: expect.stringMatching(/trained for a split after layer 1, not 2: the bundle will not contain it/),
    })
  })

  it('reports progress up to the last byte', async () => {
    const { events, manifest } = await build({ split: 1 })
    const last = events.flatMap((event) => (event.kind === 'progress' ? [event] : [])).at(-1)
    const weights = Object.values(manifest.parts).flatMap((part) => part.weights)
    const bytes = weights.reduce((sum, entry) => sum + entry.bytes, 0)
    expect(last).toEqual({ kind: 'progress', part: 'output', doneBytes: bytes, totalBytes: bytes })
  })
})

describe('the model id', () => {
  it('does not depend on the name and the adapter', async () => {
    const first = await build({ split: 1, name: 'one' })
    const bare = await tinyCheckpoint(join(dir.path, 'bare'))
    for (const file of ['tokenizer.json', 'generation_config.json']) cpSync(join(llama, file), join(bare, file))
    const second = await build({ checkpoint: bare, split: 1, name: 'two' })
    expect(second.manifest.parts.adapter).toBeUndefined()
    expect(second.manifest.modelId).toBe(first.manifest.modelId)
  })

  it('depends on weights, format, accuracy level, block size and split', async () => {
    const wide = await tinyCheckpoint(join(dir.path, 'wide'), { intermediate_size: 128 })
    const other = await tinyCheckpoint(join(dir.path, 'other'), {}, { seed: 2 })
    const variants: Partial<BuildOptions>[] = [
      { split: 1 },
      { split: 2 },
      {},
      { split: 1, format: 'fp16' },
      { split: 1, format: 'int4' },
      { split: 1, format: 'int4', accuracyLevel: 1 },
      { split: 1, deviceFormat: 'int4' },
      { checkpoint: wide, format: 'int4' },
      { checkpoint: wide, format: 'int4', blockSize: 64 },
      { split: 1, checkpoint: other },
    ]
    const ids = await Promise.all(variants.map(async (options) => (await build(options)).manifest.modelId))
    expect(new Set(ids).size).toBe(variants.length)
  })
})

describe('the target', () => {
  const listing = () => readdirSync(dir.path).filter((name) => name.startsWith('target'))

  it('does not appear if the build is aborted', async () => {
    for (const stopAt of ['input', 'middle', 'output'] as const) {
      const stop = new AbortController()
      const onEvent = (event: BuildEvent) => {
        if (event.kind === 'progress' && event.part === stopAt) stop.abort(new Error('Ctrl-C'))
      }
      const out = join(dir.path, 'target/deep/bundle')
      await expect(build({ out, split: 1, signal: stop.signal, onEvent })).rejects.toThrow('Ctrl-C')
      expect(listing()).toEqual([])
    }
  })

  it('is replaced only with --force, and only if it is a bundle', async () => {
    const out = join(dir.path, 'target')
    const first = await build({ out, split: 1 })
    await expect(build({ out })).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE', hint: expect.stringContaining('--force') })
    expect(await readManifest(out)).toEqual(first.manifest)
    const second = await build({ out, replace: true })
    expect(await readManifest(out)).toEqual(second.manifest)
    expect(existsSync(join(out, 'middle.weights'))).toBe(false)
    expect(listing()).toEqual(['target'])
    mkdirSync(join(dir.path, 'home'))
    writeFileSync(join(dir.path, 'home/diary.txt'), 'dear diary')
    await expect(build({ out: join(dir.path, 'home'), replace: true })).rejects.toMatchObject({
      message: expect.stringMatching(/is not a bundle/),
    })
    expect(readFileSync(join(dir.path, 'home/diary.txt'), 'utf8')).toBe('dear diary')
  })
})

describe('a draft of a killed build', () => {
  it('is removed by the next build, which leaves the draft of a running process', async () => {
    const out = join(dir.path, 'after-kill')
    const endedPid = spawnSync(process.execPath, ['--version']).pid
    const [orphan, alive] = [endedPid, process.ppid].map((pid) => `${out}.partial-${hostname()}-${pid}`) as [string, string]
    for (const folder of [orphan, alive]) mkdirSync(folder)
    await build({ out })
    expect([orphan, alive, out].map((path) => existsSync(path))).toEqual([false, true, true])
  })
})

describe('two builds of one target at once', () => {
  it('leave the bundle of the first to finish; the second fails', async () => {
    const first = await build({ split: 1 })
    const out = join(dir.path, 'contested')
    const onEvent = () => cpSync(first.dir, out, { recursive: true })
    await expect(build({ out, onEvent })).rejects.toMatchObject({ code: 'TARGET_UNWRITABLE', message: `${out} exists already` })
    expect(await readManifest(out)).toEqual(first.manifest)
    expect(readdirSync(dir.path).filter((name) => name.startsWith('contested'))).toEqual(['contested'])
  })
})

function tensorBytes(checkpoint: string, name: string): Buffer {
  const bytes = readFileSync(join(checkpoint, 'model.safetensors'))
  const start = 8 + Number(bytes.readBigUInt64LE(0))
  const [from, to] = JSON.parse(bytes.toString('utf8', 8, start))[name].data_offsets
  return bytes.subarray(start + from, start + to)
}
