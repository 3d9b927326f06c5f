import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type BuildEvent, buildBundle } from '../../../../core/model/bundle/build.ts'
import type { Manifest } from '../../../../core/model/bundle/manifest.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { fixtureDir, fixtureNames } from '../../../oracle/fixtures.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { type GgufTensor, ggmlTypes, ggufFile, toGguf } from '../../../support/gguf.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const dir = shared(tempDir)

const texts = Object.values(
  JSON.parse(readFileSync(join(fixtureDir('llama'), '../strings.json'), 'utf8')) as Record<string, string>,
)
const weightsOf = ({ files }: Manifest) => files.filter(({ path }) => path.endsWith('.weights'))

// GGUF files of hybrid models are refused by name.
describe.each(fixtureNames.filter((name) => name !== 'qwen3-5'))('a GGUF file of %s', (name) => {
  it('gives the bundle of the checkpoint that it was made from', async () => {
    const file = join(dir.path, `${name}.gguf`)
    writeFileSync(file, await toGguf(fixtureDir(name), { edit: name === 'llama3-rope' ? withLlama3Factors : undefined }))
    const options = { format: 'fp32', split: 1 } as const
    const original = await buildBundle({ checkpoint: fixtureDir(name), out: join(dir.path, `${name}-a`), ...options })
    const converted = await buildBundle({ checkpoint: file, out: join(dir.path, `${name}-b`), ...options })
    expect(weightsOf(converted.manifest)).toEqual(weightsOf(original.manifest))
    expect(converted.manifest.card).toMatchObject({ name, family: original.manifest.card.family })
    expect(converted.manifest.dims).toEqual(original.manifest.dims)
    expect(converted.manifest.tokens.bos).toBe(original.manifest.tokens.bos)
    expect(converted.manifest.tokens.eos).toEqual(expect.arrayContaining(original.manifest.tokens.eos))

    const [expected, actual] = await Promise.all(
      [original, converted].map((bundle) => loadTokenizer(join(bundle.dir, 'tokenizer'))),
    )
    expect(actual!.vocabSize).toBe(expected!.vocabSize)
    expect(actual!.specialIds).toEqual(expected!.specialIds)
    for (const text of texts) {
      const ids = expected!.encode(text)
      // SentencePiece adds a space also before a text that begins with one, and after an added token (ids up to 4); the
      // Metaspace of the last fixture does not.
      if (name === 'llama3-rope' && (/^[ ▁]/.test(text) || ids.slice(1).some((id) => id <= 4))) continue
      expect(actual!.encode(text)).toEqual(ids)
      expect(actual!.decode(ids, { skipSpecialTokens: true })).toBe(expected!.decode(ids, { skipSpecialTokens: true }))
    }
  })
})

/** What llama.cpp's converter keeps of the fixture's scaling: factor 8, frequencies 1 and 4, original context 128. */
function withLlama3Factors(tensors: GgufTensor[]): GgufTensor[] {
  const divisors = Float32Array.from({ length: 16 }, (_, i) => {
    const wavelength = 2 * Math.PI * 10_000 ** (i / 16)
    if (wavelength < 128 / 4) return 1
    if (wavelength > 128) return 8
    const smooth = (128 / wavelength - 1) / 3
    return 1 / ((1 - smooth) / 8 + smooth)
  })
  return [...tensors, { name: 'rope_freqs.weight', type: ggmlTypes.F32, dims: [16], data: new Uint8Array(divisors.buffer) }]
}

it('a GGUF model in several files gives the bundle of the one in a single file', async () => {
  const tensors: GgufTensor[] = []
  const collect = (all: GgufTensor[]) => {
    tensors.push(...all)
    return all
  }
  writeFileSync(join(dir.path, 'one.gguf'), await toGguf(fixtureDir('qwen2'), { edit: collect }))
  for (const shard of [0, 1]) {
    const metadata = { 'split.count': { u32: 2 }, 'split.no': { u32: shard } }
    const own = tensors.filter((_, at) => at % 2 === shard)
    const file = shard === 0 ? await toGguf(fixtureDir('qwen2'), { metadata, edit: () => own }) : ggufFile(metadata, own)
    writeFileSync(join(dir.path, `two-0000${shard + 1}-of-00002.gguf`), file)
  }
  const build = (file: string) =>
    buildBundle({ checkpoint: join(dir.path, file), out: join(dir.path, `of-${file}`), format: 'fp32' })
  const [one, two] = [await build('one.gguf'), await build('two-00001-of-00002.gguf')]
  expect(weightsOf(two.manifest)).toEqual(weightsOf(one.manifest))
  expect(two.manifest.card.name).toBe('two')
})

describe('a quantised GGUF file', () => {
  async function build(type: 'Q4_0' | 'Q8_0' | 'F16', format?: 'int4' | 'fp32') {
    const checkpoint = await tinyCheckpoint(join(dir.path, `${type}-${format}-source`), { tie_word_embeddings: true })
    const file = join(dir.path, `${type}-${format}.gguf`)
    writeFileSync(file, await toGguf(checkpoint, { type }))
    const events: BuildEvent[] = []
    const out = join(dir.path, `${type}-${format}`)
    const { manifest } = await buildBundle({ checkpoint: file, out, format, onEvent: (event) => events.push(event) })
    return { manifest, out, converted: events.filter((event) => event.kind === 'converted') }
  }

  it('in Q4_0 becomes int4 without loss: every weight has the same value', async () => {
    const int4 = await build('Q4_0')
    const exact = await build('Q4_0', 'fp32')
    expect(matrices(int4)).toEqual(matrices(exact))
    expect(matrices(int4).size).toBe(4 * 5 + 2)
    expect(int4.converted).toEqual([expect.objectContaining({ from: 'Q4_0', to: 'int4', relativeError: 0 })])
  })

  it('in Q8_0 becomes int8 without loss', async () => {
    const int8 = await build('Q8_0')
    expect(int8.manifest.format.name).toBe('int8')
    expect(matrices(int8)).toEqual(matrices(await build('Q8_0', 'fp32')))
    expect(int8.converted).toEqual([expect.objectContaining({ from: 'Q8_0', to: 'int8', relativeError: 0 })])
  })

  it('is rounded again in a smaller format, but for embedding and head, and the loss is stated', async () => {
    const { converted, manifest } = await build('Q8_0', 'int4')
    expect(manifest.vocabularyFormat).toMatchObject({ name: 'int8' })
    expect(converted).toEqual([
      expect.objectContaining({ from: 'Q8_0', to: 'int8', relativeError: 0 }),
      expect.objectContaining({ from: 'Q8_0', to: 'int4' }),
    ])
    const { relativeError } = converted[1]!
    expect(relativeError).toBeGreaterThan(0.02)
    expect(relativeError).toBeLessThan(0.12)
  })

  it('in F16 has no loss to state beyond that of the format', async () => {
    expect((await build('F16', 'int4')).converted).toEqual([])
  })
})

/** The values of all matrices of a whole bundle, by name. */
function matrices({ manifest, out }: { manifest: Manifest; out: string }): Map<string, number[]> {
  const part = manifest.parts.whole!
  const data = readFileSync(join(out, 'whole.weights'))
  const bytesOf = (name: string) => {
    const { offset, bytes } = part.weights.find((weight) => weight.name === name)!
    return data.buffer.slice(data.byteOffset + offset, data.byteOffset + offset + bytes)
  }
  const found = new Map<string, number[]>()
  for (const { name } of part.weights) {
    if (name.endsWith('.weight'))
      found.set(
        name.slice(0, -7),
        [...new Float32Array(bytesOf(name))].map((value) => value + 0),
      )
    if (!name.endsWith('.codes')) continue
    const matrix = name.slice(0, -6)
    const scales = new Float32Array(bytesOf(`${matrix}.scales`))
    const bytes = [...new Uint8Array(bytesOf(name))]
    const isInt8 = bytes.length === 32 * scales.length
    const codes = isInt8 ? bytes : bytes.flatMap((pair) => [pair & 15, pair >>> 4])
    found.set(
      matrix,
      codes.map((code, i) => (code - (isInt8 ? 128 : 8)) * scales[Math.floor(i / 32)]! + 0),
    )
  }
  return found
}
