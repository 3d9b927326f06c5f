import { truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { packsMatrices } from '../../../../core/model/engine/packs-matrices.ts'
import type { Runtime, Tensor } from '../../../../core/model/engine/runtime.ts'
import { WeightStore } from '../../../../core/model/engine/weights.ts'
import { shared } from '../../../support/shared.ts'
import { smallConfig, workshop } from './models.ts'

const bench = shared(() => workshop(smallConfig, 'F16'))

async function fp16Weights() {
  const { folder, manifest } = await bench.open({ format: 'fp16' })
  const store = new WeightStore(bench.runtime, folder)
  const { weights: entries } = manifest.parts.whole!
  const part = await store.load(entries)
  const valueAt = (name: string, at: number) => (part.tensors.get(name) as Tensor).data?.[at]
  return { folder, entries, store, part, valueAt }
}

/** In the middle of a matrix: the system has whole pages. */
const at = 40_000

describe('fp16 weights', () => {
  it.runIf(process.platform === 'linux')('are in memory while graphs are compiled; afterwards only what steps read', async () => {
    const { store, part, valueAt } = await fp16Weights()
    const matrix = 'layers.0.gate.weight'
    const [expected, embedded] = [valueAt(matrix, at), valueAt('embedding.weight', at)]
    expect(expected).not.toBe(0)
    const seen = () => Promise.resolve(valueAt(matrix, at))
    expect(await part.pack(seen)).toBe(expected)
    expect(valueAt(matrix, at)).toBe(0)
    expect(valueAt('embedding.weight', at)).toBe(embedded)
    expect(await part.pack(() => part.pack(seen).then(seen))).toBe(expected)
    await store.release()
  })

  it.runIf(process.platform === 'linux')('are missed if their file has become shorter', async () => {
    const { folder, entries, store, part } = await fp16Weights()
    await part.pack(() => Promise.resolve())
    truncateSync(join(folder, entries[0]!.file), 8192)
    await expect(part.pack(() => Promise.resolve())).rejects.toMatchObject({ code: 'BUNDLE_CORRUPT' })
    await store.release()
  })
})

describe('a library', () => {
  it('packs matrices', async () => {
    const { folder, entries, store } = await fp16Weights()
    expect(await packsMatrices(bench.runtime, folder, entries[0]!.file)).toBe(true)
    await store.release()
  })

  it('does not, if its products follow the original', async () => {
    const released: string[] = []
    const tensor = (type: string, _dims: readonly number[], data: unknown) => ({ data, release: () => released.push(type) })
    const session = { run: () => Promise.resolve(), release: () => Promise.resolve() }
    const runtime = { tensor, session: () => Promise.resolve(session) } as unknown as Runtime
    expect(await packsMatrices(runtime, '.', 'any')).toBe(false)
    expect(released).toHaveLength(3)
  })
})
