import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { readManifest } from '../../../../core/model/bundle/bundle.ts'
import { tokenizerFolder } from '../../../../core/model/bundle/manifest.ts'
import { codeStates } from '../../../../core/model/coding/code-states.ts'
import { openBundle } from '../../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../../core/model/engine/open-model.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { type StateCoders, stateCoders } from '../../../../core/wire/protocol/row-coder.ts'
import type { StateCoding } from '../../../../core/wire/protocol/state-coding.ts'
import { codedBytes } from '../../../../core/wire/protocol/state-coding.ts'
import { heldOutPrompts } from '../../../../lab/bench/prompts.ts'
import { ensureDemoBundle } from '../../../../lab/cluster/demo-bundles.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { tempDir } from '../../../support/temp-dir.ts'

describe('the demonstration LLM', () => {
  let model: LoadedModel
  let coders: StateCoders
  let prompts: number[][]

  beforeAll(async () => {
    const bundle = await ensureDemoBundle()
    model = await openBundle(bundle, { parts: ['input', 'middle'], threads: 1 })
    coders = stateCoders(await readManifest(bundle))!
    const tokenizer = await loadTokenizer(join(bundle, tokenizerFolder))
    const lines = readFileSync(heldOutPrompts.file, 'utf8').trim().split('\n').slice(0, 20)
    // The line itself, JSON and all: not only text that the model was trained on.
    prompts = lines.map((line) => [...tokenizer.encode(line)])
    prompts.push(Array.from({ length: 200 }, (_, i) => (i * 7_919) % model.manifest.dims.vocab))
  })
  afterAll(() => model?.release())

  it('has tables by which its states travel in an eighth less, exact, and of a length that they do not change', async () => {
    const { hidden } = model.manifest.dims
    for (const coder of [coders.up, coders.down]) expect(codedBytes(coder, 64) / (64 * 2 * hidden)).toBeLessThan(0.87)
    for (const ids of prompts) {
      const [input, middle] = [model.part('input').createSequence(), model.part('middle').createSequence()]
      const [shallow] = await model.part('input').step([{ sequence: input, ids, select: 'all' }])
      const [deep] = await model.part('middle').step([{ sequence: middle, states: shallow!, select: 'all' }])
      input.release()
      middle.release()
      for (const [coder, { half, rows }] of [
        [coders.up, shallow!],
        [coders.down, deep!],
      ] as const)
        for (const size of [1, 9, 64])
          for (let from = 0; from + size <= rows; from += size) {
            const block = half.slice(from * hidden, (from + size) * hidden)
            const coded = coder.encode(block, size)
            const isExact =
              coded !== undefined && Buffer.from(coder.decode(coded, size)!.buffer).equals(Buffer.from(block.buffer))
            expect([isExact, coded?.length]).toEqual([true, codedBytes(coder, size)])
          }
    }
  })
})

describe('a bundle', () => {
  const build = async (codeStates?: (folder: string) => Promise<StateCoding | undefined>) => {
    const dir = tempDir()
    const warnings: string[] = []
    const onEvent = (event: { kind: string; message?: string }) =>
      void (event.message?.includes('coded') && warnings.push(event.message))
    const options = { checkpoint: fixtureDir('llama'), out: join(dir.path, 'bundle'), format: 'fp32', onEvent } as const
    const { dir: out, manifest } = await buildBundle({ ...options, split: 1, codeStates })
    const read = await readManifest(out)
    expect(read).toEqual(manifest)
    dir[Symbol.dispose]()
    return { manifest, warnings }
  }

  it('is the same model with tables and without', async () => {
    const [coded, plain] = [await build((folder) => codeStates(folder, 1)), await build()]
    expect(coded.manifest.coding?.shallow.channels).toHaveLength(coded.manifest.dims.hidden)
    expect(coded.manifest.modelId).toBe(plain.manifest.modelId)
    expect(coded.manifest.files).toEqual(plain.manifest.files)
    expect([stateCoders(plain.manifest), coded.warnings]).toEqual([undefined, []])
    expect(stateCoders(coded.manifest)!.id).toBe(stateCoders((await build((folder) => codeStates(folder, 1))).manifest)!.id)
  })

  it('is built without tables, and says why, where its model cannot be measured', async () => {
    const { manifest, warnings } = await build((folder) => codeStates(join(folder, 'elsewhere'), 1))
    expect(manifest.coding).toBeUndefined()
    expect(warnings).toEqual([expect.stringMatching(/no tables for coded states, which will travel as fp16: .*elsewhere/)])
  })
})
