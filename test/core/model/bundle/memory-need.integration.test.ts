import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assessModel } from '../../../../core/model/bundle/assess-model.ts'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openCheckpoint } from '../../../../core/model/bundle/checkpoint.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { type TempDir, tempDir } from '../../../support/temp-dir.ts'

/** Share by which the memory of a process may differ from the estimate: the allocator and the graphs. */
const tolerance = 0.25

const dist = fileURLToPath(new URL('../../../../dist', import.meta.url))

let dir: TempDir
let checkpoint: string
let warmUp: string
beforeAll(async () => {
  dir = tempDir()
  const wide = { hidden_size: 640, intermediate_size: 2_560, vocab_size: 24_000, num_attention_heads: 10, num_key_value_heads: 5 }
  checkpoint = await tinyCheckpoint(join(dir.path, 'wide'), { ...wide, num_hidden_layers: 8, tie_word_embeddings: false })
  warmUp = join(dir.path, 'warm-up')
  await buildBundle({ checkpoint: await tinyCheckpoint(join(dir.path, 'tiny')), out: warmUp, format: 'fp32', split: 1 })
}, 120_000)
afterAll(() => dir[Symbol.dispose]())

/** Bytes by which a process of its own grows when it opens these parts, after it has opened those of a tiny model. */
function measured(bundle: string, parts: readonly string[]): number {
  const script = `
    import { openBundle } from '${dist}/core/model/engine/open-bundle.js'
    import { releaseUnusedMemory } from '${dist}/core/model/engine/resident-memory.js'
    import { readFileSync } from 'node:fs'
    const anonymous = () => Number(/^RssAnon:\\s+(\\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]) * 1024
    const parts = ${JSON.stringify(parts)}
    const warm = await openBundle('${warmUp}', { parts, threads: 1 })
    releaseUnusedMemory()
    const before = anonymous()
    const model = await openBundle('${bundle}', { parts, threads: 1 })
    releaseUnusedMemory()
    console.log(anonymous() - before)
    await model.release()
    await warm.release()`
  const options = { encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } } as const
  return Number(execFileSync(process.execPath, ['--input-type=module', '--eval', script], options))
}

if (process.platform !== 'linux') console.warn('skipped: measured memory of bundles: needs /proc')
describe.skipIf(process.platform !== 'linux')('memory of an assessment', () => {
  it.each(['fp16', 'int8', 'int4'] as const)(
    'is what a process takes for the parts in %s',
    async (format) => {
      await using opened = await openCheckpoint(checkpoint)
      const found = (await assessModel(opened, { sessions: 4, context: 128 })).formats.find((each) => each.format === format)
      if (!found || 'problem' in found) throw new Error(`no assessment of ${format}`)
      expect(found.split).toBe(1)
      const bundle = join(dir.path, format)
      const { manifest } = await buildBundle({ checkpoint, out: bundle, format, split: 1 })
      // The rows of a mapped embedding become resident as steps read them.
      const mapped = manifest.parts.input!.weights.filter(({ name, type }) => name.startsWith('embedding.') && type !== 'float16')
      const device = measured(bundle, ['input', 'output']) + mapped.reduce((sum, { bytes }) => sum + bytes, 0)
      const bridge = measured(bundle, ['middle'])
      console.info(`${format}: device ${device} of ${found.device.weightBytes}, bridge ${bridge} of ${found.bridge.weightBytes}`)
      expect(Math.abs(device / found.device.weightBytes - 1)).toBeLessThan(tolerance)
      expect(Math.abs(bridge / found.bridge.weightBytes - 1)).toBeLessThan(tolerance)
    },
    120_000,
  )
})
