import { existsSync, readFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Chain } from '../../../../core/model/engine/contract.ts'
import { openModel } from '../../../../core/model/engine/open-model.ts'
import { shared } from '../../../support/shared.ts'
import { largestDifference, smallConfig, someIds, workshop } from './models.ts'

/** Linux only. */
const memoryFile = '/proc/self/smaps'

const bench = shared(() => workshop({ ...smallConfig, tie_word_embeddings: true }, 'F16'))

describe('a bundle', () => {
  it.each([{}, { split: 1 }])('in fp16 equals the one in fp32 if the weights are fp16 (%o)', async (split) => {
    const exact = (await bench.open({ format: 'fp32', ...split })).chain({ cuts: 'full' })
    const stored = (await bench.open({ format: 'fp16', ...split })).chain({ cuts: 'full' })
    expect(await logitsOf(stored)).toEqual(await logitsOf(exact))
  })

  it.each([1, 4] as const)('in int4 at level %i is close to the original model', async (accuracyLevel) => {
    const exact = await logitsOf((await bench.open({ format: 'fp32' })).chain({ cuts: 'full' }))
    const rounded = await logitsOf((await bench.open({ format: 'int4', accuracyLevel })).chain({ cuts: 'full' }))
    const scale = Math.sqrt(exact.reduce((sum, value) => sum + value ** 2, 0) / exact.length)
    const error = Math.sqrt(exact.reduce((sum, value, i) => sum + (value - rounded[i]!) ** 2, 0) / exact.length)
    expect(error / scale).toBeLessThan(0.4)
    expect(largestDifference(rounded, exact)).toBeGreaterThan(0)
  })

  it.each([0, 1.5, 257, Number.NaN])('is not loaded for %d threads', async (threads) => {
    const { folder } = await bench.open({ format: 'fp32' })
    await expect(openModel(bench.runtime, folder, { parts: 'chain', threads })).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  })

  it.skipIf(!existsSync(memoryFile))('leaves no page of its weights in memory that the library has packed', async () => {
    const { folder, manifest } = await bench.open({ format: 'fp32' })
    expect(residentKiB(join(folder, manifest.parts.whole!.weights[0]!.file))).toBe(0)
  })

  it('with a truncated file is not loaded', async () => {
    for (const format of ['fp32', 'fp16'] as const) {
      const { folder, manifest } = await bench.open({ format })
      truncateSync(join(folder, manifest.parts.whole!.weights[0]!.file), 5000)
      const open = openModel(bench.runtime, folder, { parts: 'chain', threads: 1 })
      await expect(open).rejects.toMatchObject({ code: 'BUNDLE_CORRUPT', message: expect.stringContaining(folder) })
    }
  })
})

/** Resident memory of the mappings of a file. */
function residentKiB(path: string): number {
  const mappings = readFileSync(memoryFile, 'utf8').split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/)
  const own = mappings.filter((mapping) => mapping.split('\n')[0]?.endsWith(path))
  expect(own.length).toBeGreaterThan(0)
  return own.reduce((sum, mapping) => sum + Number(/^Rss:\s+(\d+)/m.exec(mapping)?.[1]), 0)
}

function logitsOf(chain: Chain): Promise<Float32Array> {
  return chain.step([{ sequence: chain.createSequence(), ids: someIds(chain.manifest, 40), select: 'all' }])
}
