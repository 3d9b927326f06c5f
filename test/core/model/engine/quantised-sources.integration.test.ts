import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type BuildOptions, buildBundle } from '../../../../core/model/bundle/build.ts'
import type { PartName } from '../../../../core/model/bundle/manifest.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { testPart } from '../../../../core/model/engine/self-test.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { toGguf } from '../../../support/gguf.ts'
import { quantiseCheckpoint } from '../../../support/group-quants.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const config = { hidden_size: 192, intermediate_size: 384, num_attention_heads: 6, num_key_value_heads: 3, head_dim: 32 }

const dir = shared(tempDir)
let runtime: Runtime
beforeAll(async () => {
  runtime = await openRuntime()
})
afterAll(() => runtime.close())

let count = 0
async function sourceOf(kind: 'AWQ' | 'GPTQ' | 'Q4_0' | 'Q8_0', groupSize: number): Promise<string> {
  const folder = await tinyCheckpoint(join(dir.path, `checkpoint-${count++}`), config)
  if (kind === 'Q4_0' || kind === 'Q8_0') {
    writeFileSync(`${folder}.gguf`, await toGguf(folder, { type: kind }))
    return `${folder}.gguf`
  }
  quantiseCheckpoint(folder, kind, groupSize)
  return folder
}

/** The golden vectors are computed from the stored weights without the library. */
describe.each([
  ['AWQ', 64, { name: 'int4', blockSize: 64, zeroPoints: true }],
  ['GPTQ', 32, { name: 'int4', blockSize: 32, zeroPoints: true }],
  ['Q4_0', 32, { name: 'int4', blockSize: 32 }],
  ['Q8_0', 32, { name: 'int8', blockSize: 32 }],
] as const)('a bundle of %s in groups of %i', (kind, groupSize, format) => {
  it.each([
    ['whole', {}],
    ['split', { split: 1 }],
    ['of smaller blocks', { blockSize: 32 }],
    ['in int8', { format: 'int8' }],
  ] as const)('%s computes with the weights of the checkpoint', async (_, options: Partial<BuildOptions>) => {
    const out = join(dir.path, `bundle-${count++}`)
    const losses: Record<string, number> = {}
    const { manifest } = await buildBundle({
      ...{ checkpoint: await sourceOf(kind, groupSize), out, accuracyLevel: 1, ...options },
      onEvent: (event) => {
        if (event.kind === 'converted') losses[event.from] = event.relativeError
      },
    })
    expect(losses).toEqual({ [kind]: 0 })
    if (!options.format && !options.blockSize) expect(manifest.format).toEqual({ ...format, accuracyLevel: 1 })
    for (const part of Object.keys(manifest.parts) as PartName[])
      expect(await testPart(runtime, out, manifest, part, 1)).toMatchObject({ passed: true, tolerance: 1e-3 })
  })
})
