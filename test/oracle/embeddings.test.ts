import { readFileSync, writeFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { encoder } from '../../core/model/bundle/manifest.ts'
import { Embedder } from '../../core/model/engine/embedder.ts'
import { openBundle } from '../../core/model/engine/open-bundle.ts'
import { tempDir } from '../support/temp-dir.ts'

const fixtures = fileURLToPath(new URL('fixtures', import.meta.url))
type Case = { readonly ids: number[] } & Readonly<Record<'mean' | 'last', string>>
const { cases } = JSON.parse(readFileSync(join(fixtures, 'embeddings.json'), 'utf8')) as { cases: Record<string, Case[]> }
const dir = tempDir()
afterAll(() => dir[Symbol.dispose]())
let built = 0

async function embedder(checkpoint: string, embedding: 'mean' | 'last' | 'auto') {
  built += 1
  const out = join(dir.path, `bundle-${built}`)
  const { manifest } = await buildBundle({ checkpoint, out, embedding, format: 'fp32' })
  const model = await openBundle(out, { parts: [encoder], threads: 1 })
  return { manifest, embedder: new Embedder(model), [Symbol.asyncDispose]: () => model.release() }
}

function valuesOf(base64: string): Float32Array {
  const bytes = Buffer.from(base64, 'base64')
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
}

const furthest = (a: Float32Array, b: Float32Array) => a.reduce((most, value, at) => Math.max(most, Math.abs(value - b[at]!)), 0)
const { signal } = new AbortController()

/** States are rounded to fp16. */
const tolerance = 3e-4

it.each(Object.keys(cases).flatMap((name) => (['mean', 'last'] as const).map((pooling) => [name, pooling] as const)))(
  '%s embeds by %s as transformers does, one by one and packed',
  async (name, pooling) => {
    await using own = await embedder(join(fixtures, name), pooling)
    const texts = cases[name]!.map(({ ids }) => ids)
    // More texts than a step has slots, of all lengths.
    const packed = await own.embedder.embed([...texts, ...texts, ...texts, ...texts, ...texts], signal)
    for (const [at, { ids, ...expected }] of cases[name]!.entries()) {
      const [alone] = await own.embedder.embed([ids], signal)
      expect(furthest(alone!, valuesOf(expected[pooling]))).toBeLessThan(tolerance)
      for (const one of [packed[at]!, packed[at + 16]!]) expect(furthest(one, alone!)).toBeLessThan(1e-4)
      expect(Math.hypot(...alone!)).toBeCloseTo(1, 5)
    }
  },
)

it('a checkpoint of the layers alone pools as it says', async () => {
  const folder = join(dir.path, 'bare')
  await cp(join(fixtures, 'families/qwen3'), folder, { recursive: true })
  withoutRoot(join(folder, 'model.safetensors'))
  await cp(join(fixtures, '../fixtures/llama/generation_config.json'), join(folder, 'generation_config.json'))
  const pooling = join(folder, '1_Pooling')
  await cp(join(fixtures, 'llama/config.json'), join(pooling, 'config.json'))
  writeFileSync(join(pooling, 'config.json'), JSON.stringify({ pooling_mode_cls_token: false, pooling_mode_mean_tokens: true }))
  await using own = await embedder(folder, 'auto')
  expect(own.manifest.parts.encoder?.pooling).toBe('mean')
  const [{ ids, mean }] = cases['families/qwen3']!.slice(2) as [Case]
  const [found] = await own.embedder.embed([ids], signal)
  expect(furthest(found!, valuesOf(mean))).toBeLessThan(tolerance)

  writeFileSync(join(pooling, 'config.json'), JSON.stringify({ pooling_mode_cls_token: true }))
  await expect(embedder(folder, 'auto')).rejects.toMatchObject({
    code: 'ARCHITECTURE_UNSUPPORTED',
    message: expect.stringContaining('cls'),
  })
})

/** As sentence-transformers saves a model: without "model." before its tensors. */
function withoutRoot(file: string): void {
  const bytes = readFileSync(file)
  const length = Number(bytes.readBigUInt64LE())
  const header = JSON.parse(bytes.toString('utf8', 8, 8 + length)) as Record<string, unknown>
  const renamed = JSON.stringify(
    Object.fromEntries(Object.entries(header).map(([name, info]) => [name.replace(/^model\./, ''), info])),
  )
  const size = Buffer.alloc(8)
  size.writeBigUInt64LE(BigInt(Buffer.byteLength(renamed)))
  writeFileSync(file, Buffer.concat([size, Buffer.from(renamed), bytes.subarray(8 + length)]))
}
