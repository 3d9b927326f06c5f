import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import type { Chain } from '../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../core/model/engine/open-model.ts'
import { referenceAnswer } from '../../core/model/engine/reference.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { fromStates } from '../../core/wire/protocol/states.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { readOracleIn } from './fixtures.ts'

const folder = fileURLToPath(new URL('fixtures/families', import.meta.url))
const names = readdirSync(folder).sort()

const dir = shared(tempDir)
let runtime: Runtime
let builds = 0
beforeAll(async () => {
  runtime = await openRuntime()
})
afterAll(() => runtime.close())

const largest = (a: Float32Array, b: Float32Array) => a.reduce((most, value, at) => Math.max(most, Math.abs(value - b[at]!)), 0)

async function open(name: string, split?: number): Promise<{ model: LoadedModel; chain: Chain }> {
  const out = `${dir.path}/${name}-${split ?? 'whole'}-${++builds}`
  await buildBundle({ checkpoint: `${folder}/${name}`, out, format: 'fp32', ...(split === undefined ? {} : { split }) })
  const model = await openModel(runtime, out, { parts: 'chain', threads: 1 })
  return { model, chain: model.chain({ cuts: 'full' }) }
}

/** The rows of a prompt and its continuation at the oracle's positions, computed in chunks. */
async function logitsOf(
  chain: Chain,
  ids: readonly number[],
  positions: readonly number[],
  chunk: number,
): Promise<Float32Array> {
  const sequence = chain.createSequence()
  const rows: number[] = []
  for (let from = 0; from < ids.length; from += chunk) {
    const own = ids.slice(from, from + chunk)
    const select = positions.filter((at) => at >= from && at < from + own.length).map((at) => at - from)
    const logits = await chain.step([{ sequence, ids: own, select: select.length === 0 ? 'none' : select }])
    if (select.length > 0) rows.push(...logits)
  }
  sequence.release()
  return Float32Array.from(rows)
}

describe.each(names)('%s: the family as in transformers', (name) => {
  const { cases, smallestGap } = readOracleIn(`${folder}/${name}`)
  let whole: Awaited<ReturnType<typeof open>>
  beforeAll(async () => {
    whole = await open(name)
  })
  afterAll(() => whole.model.release())

  it('returns logits within 1e-3, in one step and in chunks', async () => {
    expect(smallestGap).toBeGreaterThanOrEqual(1e-3)
    for (const { promptIds, continuation, positions, logits } of cases) {
      const ids = [...promptIds, ...continuation]
      for (const chunk of [ids.length, 13])
        expect(largest(await logitsOf(whole.chain, ids, positions, chunk), logits)).toBeLessThan(1e-3)
    }
  })

  it('continues each prompt with the same 64 tokens', async () => {
    for (const { promptIds, continuation } of cases)
      expect(await referenceAnswer(whole.chain, promptIds, greedy, 64, [])).toEqual(continuation)
  })

  it('is the same model after each split, within 1e-5, and in int4 its golden vectors hold', async () => {
    const { promptIds, continuation } = cases.at(-1)!
    const ids = [...promptIds, ...continuation]
    const positions = [0, 37, ids.length - 1]
    const expected = await logitsOf(whole.chain, ids, positions, 64)
    const { layers } = whole.model.manifest.dims
    for (let split = 1; split < layers; split++) {
      const { model, chain } = await open(name, split)
      expect(largest(await logitsOf(chain, ids, positions, 64), expected)).toBeLessThan(1e-5)
      await model.release()
    }
    await buildBundle({ checkpoint: `${folder}/${name}`, out: `${dir.path}/${name}-int4`, format: 'int4', split: 1 })
  })

  it('computes branches, copies of prefixes, and packed steps as a line alone does', async () => {
    const { model } = await open(name, 1)
    const input = model.part('input')
    const { promptIds } = cases.at(-1)!
    const prompt = promptIds.slice(0, 60)
    const alone = async (ids: readonly number[]) => {
      const sequence = input.createSequence()
      const [states] = await input.step([{ sequence, ids, select: 'all' }])
      sequence.release()
      return fromStates(states!)
    }
    const width = model.manifest.dims.hidden
    const lines = [
      [5, 6, 7],
      [5, 9],
      [11, 12, 13],
    ]
    const expected = await Promise.all(lines.map((line) => alone([...prompt, ...line])))
    const rowOf = (values: Float32Array, row: number) => values.subarray(row * width, (row + 1) * width)

    // Rows 0..2: the first line; 3: 9 after 5; 4..6: the third line.
    const tree = input.createSequence()
    await input.step([{ sequence: tree, ids: prompt, select: 'all' }])
    const at = prompt.length
    const parents = [at - 1, at, at + 1, at, at - 1, at + 4, at + 5]
    const [branched] = await input.step([{ sequence: tree, ids: [5, 6, 7, 9, 11, 12, 13], parents, select: 'all' }])
    const rows = fromStates(branched!)
    for (const [row, line, place] of [
      [0, 0, 0],
      [2, 0, 2],
      [3, 1, 1],
      [4, 2, 0],
      [6, 2, 2],
    ] as const)
      expect(largest(rowOf(rows, row), rowOf(expected[line]!, at + place))).toBeLessThan(2e-3)

    // The third line is kept, and goes on.
    tree.gather(at, [at + 4, at + 5, at + 6])
    const copy = input.createSequence()
    copy.copyPrefix(tree, at + 2)
    const [kept, copied] = await input.step([
      { sequence: tree, ids: [20, 21], select: 'all' },
      { sequence: copy, ids: [13], select: 'all' },
    ])
    const longer = await alone([...prompt, 11, 12, 13, 20, 21])
    expect(largest(fromStates(kept!), longer.subarray((at + 3) * width))).toBeLessThan(2e-3)
    expect(largest(fromStates(copied!), rowOf(longer, at + 2))).toBeLessThan(2e-3)
    for (const sequence of [tree, copy]) sequence.release()
    await model.release()
  })
})
