import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import {
  featureInputs,
  graphInputs as inputs,
  kvNames,
  graphOutputs as outputs,
  treeNames,
} from '../../../../core/model/bundle/graph-io.ts'
import { drafterParts, graphKey, type Manifest, type PartName, slotCounts } from '../../../../core/model/bundle/manifest.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { tinyCheckpoint } from '../../../support/checkpoint.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const dir = shared(tempDir)
let runtime: Runtime
let bundles: Record<'split' | 'whole', { dir: string; manifest: Manifest }>
beforeAll(async () => {
  runtime = await openRuntime()
  const checkpoint = await tinyCheckpoint(
    join(dir.path, 'checkpoint'),
    {},
    {
      adapter: { split: 1, heads: 2, kvHeads: 1, headDim: 32, features: true },
      adapterPaper: { split: 1, heads: 2, kvHeads: 2, headDim: 32 },
      medusa: { heads: 2, tree: [[0]] },
    },
  )
  bundles = {
    split: await buildBundle({ checkpoint, out: join(dir.path, 'split'), split: 1, format: 'fp32', drafters: drafterParts }),
    whole: await buildBundle({ checkpoint, out: join(dir.path, 'whole'), format: 'int4' }),
  }
})
afterAll(() => runtime.close())

const fromWire = [inputs.half, inputs.wide, inputs.wideAt]
const features = [featureInputs.half, featureInputs.wide, featureInputs.wideAt]
const states = [outputs.states, outputs.statesHalf, outputs.peak]
const parts: [part: PartName, layers: number, rows: string[], results: string[]][] = [
  ['input', 1, [inputs.ids], states],
  ['adapter', 1, [...fromWire, ...features, inputs.select], states],
  ['adapter-paper', 1, [...fromWire, inputs.select], states],
  ['middle', 3, [...fromWire, inputs.select], states],
  ['whole', 4, [inputs.ids, inputs.select], [outputs.logits]],
]

describe('a graph', () => {
  it.each(parts)(
    'of the part %s takes and gives what graph-io says, for every slot count, for lines and trees',
    async (part, layers, rows, results) => {
      const { dir: folder, manifest } = bundles[part === 'whole' ? 'whole' : 'split']
      const kinds = slotCounts.flatMap((slots) => [
        [slots, false] as const,
        ...(part === 'whole' ? [] : [[slots, true] as const]),
      ])
      for (const [slots, branching] of kinds) {
        const graph = readFileSync(join(folder, manifest.parts[part]?.graphs[graphKey(slots, branching)] ?? ''))
        // If it is given no weights, the library reads them from the file in the graph's folder.
        const session = await runtime.session(graph, { threads: 1, externalFolder: folder })
        const kv = Array.from({ length: slots * layers }, (_, i) => kvNames(Math.floor(i / layers), i % layers))
        const packing = [inputs.seqlens, inputs.totals, inputs.spread, inputs.keep, ...(slots > 1 ? [inputs.sizes] : [])]
        const past = kv.flatMap(({ pastKey, pastValue }) => [pastKey, pastValue])
        const present = kv.flatMap(({ presentKey, presentValue }) => [presentKey, presentValue])
        const trees = branching
          ? Array.from({ length: slots }, (_, slot) => [treeNames(slot).positions, treeNames(slot).bias]).flat()
          : []
        expect(session.inputNames.toSorted()).toEqual([...rows, ...packing, ...past, ...trees].toSorted())
        expect(session.outputNames.toSorted()).toEqual([...results, ...present].toSorted())
        await session.release()
      }
    },
  )

  it.each([
    ['output', 1],
    ['medusa', 2],
  ] as const)('of the part %s takes states and gives %i logits for each, whatever their number', async (part, perRow) => {
    const { dir: folder, manifest } = bundles.split
    expect(Object.keys(manifest.parts[part]?.graphs ?? {})).toEqual(['1'])
    const graph = readFileSync(join(folder, manifest.parts[part]?.graphs['1'] ?? ''))
    const session = await runtime.session(graph, { threads: 1, externalFolder: folder })
    expect(session.inputNames.toSorted()).toEqual(fromWire.toSorted())
    expect(session.outputNames).toEqual([outputs.logits])
    for (const rows of [0, 1, 7]) {
      const logits = new Float32Array(perRow * rows * 160).fill(Number.NaN)
      const given = new Map([
        [inputs.half, runtime.tensor('float16', [1, rows, 64], new Uint16Array(rows * 64).fill(0x3c00))],
        [inputs.wide, runtime.tensor('float32', [0, 64], new Float32Array(0))],
        [inputs.wideAt, runtime.tensor('int64', [0, 1], new BigInt64Array(0))],
      ] as const)
      await session.run(given, new Map([[outputs.logits, runtime.tensor('float32', [1, perRow * rows, 160], logits)]]))
      expect(logits.every(Number.isFinite)).toBe(true)
    }
    await session.release()
  })
})
