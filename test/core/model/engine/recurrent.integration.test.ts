import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decodeHalves } from '../../../../core/kit/base/half.ts'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Chain, Sequence } from '../../../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../../../core/model/engine/open-model.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { testLoadedParts } from '../../../../core/model/engine/self-test.ts'
import { fixtureDir, readOracle } from '../../../oracle/fixtures.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const checkpoint = fixtureDir('qwen3-5')
const { cases, vocab } = readOracle('qwen3-5')
/** 300 ids and 64 more: beyond a border of states, and beyond the rows that are computed again in one step. */
const ids = [...cases[5]!.promptIds, ...cases[5]!.continuation]

const dir = shared(tempDir)
let runtime: Runtime
const models: LoadedModel[] = []
beforeAll(async () => {
  runtime = await openRuntime()
})
afterAll(async () => {
  for (const model of models) await model.release()
  await runtime.close()
})

async function open(name: string, options: { split?: number; format?: 'fp32' | 'int4'; accuracyLevel?: 1 | 4 } = {}) {
  const out = `${dir.path}/${name}`
  await buildBundle({ checkpoint, out, format: 'fp32', ...options })
  const model = await openModel(runtime, out, { parts: 'chain', threads: 1 })
  models.push(model)
  return { model, out, chain: model.chain({ cuts: 'full' }) }
}

const run = async (chain: Chain, sequence: Sequence, own: readonly number[], select: 'all' | 'last' = 'last') =>
  (await chain.step([{ sequence, ids: own, select }])).slice()

async function fresh(chain: Chain, own: readonly number[]): Promise<Float32Array> {
  const sequence = chain.createSequence()
  const logits = await run(chain, sequence, own)
  sequence.release()
  return logits
}

const largestDifference = (a: Float32Array, b: Float32Array) =>
  a.reduce((largest, value, at) => Math.max(largest, Math.abs(value - b[at]!)), 0)

describe.each([
  ['fp32', { format: 'fp32' }],
  ['int4', { format: 'int4' }],
  ['int4 at accuracy level 1', { format: 'int4', accuracyLevel: 1 }],
] as const)('a model with recurrent layers, %s', (name, format) => {
  let whole: Awaited<ReturnType<typeof open>>
  let split: Awaited<ReturnType<typeof open>>
  beforeAll(async () => {
    whole = await open(`${name}-whole`, format)
    split = await open(`${name}-split`, { ...format, split: 2 })
  })

  it('passes the golden vectors of every part', async () => {
    await testLoadedParts(whole.model, whole.out, ['whole'])
    await testLoadedParts(split.model, split.out, ['input', 'middle', 'output'])
  })

  it('returns the same in chunks of any size', async () => {
    const expected = await fresh(whole.chain, ids.slice(0, 100))
    const sequence = whole.chain.createSequence()
    for (const [from, to] of [
      [0, 1],
      [1, 4],
      [4, 71],
      [71, 99],
    ])
      await run(whole.chain, sequence, ids.slice(from, to))
    expect(await run(whole.chain, sequence, ids.slice(99, 100))).toEqual(expected)
    sequence.release()
  })

  it('gives each sequence of a packed step its own state', async () => {
    const lengths = [5, 1, 9]
    const sequences = lengths.map(() => whole.chain.createSequence())
    const first = await whole.chain.step(
      sequences.map((sequence, at) => ({ sequence, ids: ids.slice(at, at + lengths[at]!), select: 'last' as const })),
    )
    const packed = first.slice()
    const second = (
      await whole.chain.step(
        sequences.map((sequence, at) => ({ sequence, ids: [ids[at + lengths[at]!]!], select: 'last' as const })),
      )
    ).slice()
    for (const [at, length] of lengths.entries()) {
      const [from, to] = [at * vocab, (at + 1) * vocab]
      expect(packed.subarray(from, to)).toEqual(await fresh(whole.chain, ids.slice(at, at + length)))
      expect(second.subarray(from, to)).toEqual(await fresh(whole.chain, ids.slice(at, at + length + 1)))
      sequences[at]!.release()
    }
  })

  it.each([
    ['drafted rows', 3],
    ['one row', 1],
    ['rows before the last step', 40],
    ['rows before a border of states', 150],
    ['all rows', 304],
  ])('rolls back %s', async (_, dropped) => {
    for (const { chain } of [whole, split]) {
      const sequence = chain.createSequence()
      await run(chain, sequence, ids.slice(0, 300))
      await run(chain, sequence, ids.slice(300, 304))
      sequence.truncate(304 - dropped)
      const next = [...ids.slice(0, 304 - dropped), 7]
      expect(await run(chain, sequence, [7])).toEqual(await fresh(chain, next))
      expect(await run(chain, sequence, [9, 11])).toEqual(await fresh(chain, [...next, 9, 11]))
      sequence.release()
    }
  })

  it('rolls back some sequences of a packed step', async () => {
    const sequences = [0, 1].map(() => split.chain.createSequence())
    await split.chain.step(sequences.map((sequence, at) => ({ sequence, ids: ids.slice(at, at + 20), select: 'none' as const })))
    sequences[1]!.truncate(17)
    const logits = (
      await split.chain.step(sequences.map((sequence, at) => ({ sequence, ids: [30 + at, 40 + at], select: 'all' as const })))
    ).slice()
    expect(logits.subarray(vocab, 2 * vocab)).toEqual(await fresh(split.chain, [...ids.slice(0, 20), 30, 40]))
    expect(logits.subarray(3 * vocab)).toEqual(await fresh(split.chain, [...ids.slice(1, 18), 31, 41]))
    for (const sequence of sequences) sequence.release()
  })

  it.each([1, 31, 200, 299, 300])('begins with a prefix of %i rows', async (length) => {
    const [source, sequence] = [split.chain.createSequence(), split.chain.createSequence()]
    await run(split.chain, source, ids.slice(0, 270))
    await run(split.chain, source, ids.slice(270, 300))
    sequence.copyPrefix(source, length)
    expect(await run(split.chain, sequence, [3, 5])).toEqual(await fresh(split.chain, [...ids.slice(0, length), 3, 5]))
    expect(await run(split.chain, source, [8])).toEqual(await fresh(split.chain, [...ids.slice(0, 300), 8]))
    source.release()
    sequence.release()
  })

  it.each([0, 2])('goes on after its rows were evicted and written back, %i of them dropped', async (dropped) => {
    const sequence = split.chain.createSequence()
    await run(split.chain, sequence, ids.slice(0, 40))
    const rows = new Float32Array(40 * sequence.rowValues)
    await sequence.readRows(0, 40, rows)
    sequence.evict()
    expect(sequence.held).toBe(0)
    sequence.writeRows(0, 40, rows)
    expect(sequence.held).toBe(40)
    sequence.truncate(40 - dropped)
    expect(await run(split.chain, sequence, [4])).toEqual(await fresh(split.chain, [...ids.slice(0, 40 - dropped), 4]))
    sequence.release()
  })
})

describe('the state of a sequence', () => {
  it('is not restored by rows alone, so that no rows are claimed', async () => {
    const sequence = part.chain.createSequence()
    await run(part.chain, sequence, ids.slice(0, 10))
    expect([sequence.claim(8, ids), sequence.length]).toEqual([false, 0])
    sequence.release()
  })

  let part: Awaited<ReturnType<typeof open>>
  beforeAll(async () => {
    part = await open('state', { split: 2 })
  })

  it.each([1, 2, 3, 4])('makes a model that is split after layer %i equal to the whole one', async (split) => {
    const whole = await open(`whole-${split}`)
    const cut = await open(`cut-${split}`, { split })
    expect(largestDifference(await fresh(cut.chain, ids), await fresh(whole.chain, ids))).toBeLessThan(1e-5)
  })

  it('stays as it was where a step fails', async () => {
    const { chain } = part
    const sequence = chain.createSequence()
    await run(chain, sequence, ids.slice(0, 10))
    await expect(run(chain, sequence, [vocab])).rejects.toThrow(/not in the vocabulary/)
    await expect(run(chain, sequence, Array<number>(600).fill(1))).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' })
    sequence.truncate(8)
    await expect(run(chain, sequence, [vocab])).rejects.toThrow(/not in the vocabulary/)
    expect(await run(chain, sequence, [6])).toEqual(await fresh(chain, [...ids.slice(0, 8), 6]))
    sequence.release()
  })

  it('takes memory within what is charged for it, and returns it', async () => {
    const { chain } = part
    const sequence = chain.createSequence()
    expect(sequence.bytes).toBe(0)
    for (const id of ids.slice(0, 320)) await run(chain, sequence, [id])
    const kvBytes = sequence.capacity * sequence.rowValues * 4
    expect(sequence.bytes).toBeGreaterThan(kvBytes)
    expect(sequence.bytes - kvBytes).toBeLessThan(sequence.fixedBytes)
    sequence.truncate(0)
    sequence.evict()
    expect(sequence.bytes).toBe(0)
    sequence.release()
  })

  it('is released with its sequence during a step', async () => {
    const middle = part.model.part('middle')
    const input = part.model.part('input')
    const [a, b] = [input.createSequence(), input.createSequence()]
    const step = input.step([{ sequence: a, ids: [1, 2, 3], select: 'all' }])
    const [states] = await step
    const following = input.step([{ sequence: a, ids: [4], select: 'all' }])
    a.release()
    await following.catch(() => {})
    const [again] = await input.step([{ sequence: b, ids: [1, 2, 3], select: 'all' }])
    expect(halves(again!.half)).toEqual(halves(states!.half))
    expect(a.bytes).toBe(0)
    b.release()
    expect(middle.manifest.recurrent?.layers).toBe(2)
  })

  it('follows one path: rows cannot branch', async () => {
    const input = part.model.part('input')
    const sequence = input.createSequence()
    await input.step([{ sequence, ids: [1, 2], select: 'all' }])
    await expect(input.step([{ sequence, ids: [3, 4], parents: [1, 1], select: 'all' }])).rejects.toThrow(/cannot branch/)
    const [line] = await input.step([{ sequence, ids: [3, 4], parents: [1, 2], select: 'all' }])
    expect(line!.rows).toBe(2)
    expect(Object.keys(input.manifest.graphs).some((key) => key.endsWith('-tree'))).toBe(false)
    sequence.release()
  })

  it('is computed by the CPU alone', async () => {
    const onDevice = { ...runtime, session: runtime.session.bind(runtime), mapFile: runtime.mapFile.bind(runtime) }
    const device = { type: 'float32', allocate: () => {}, check: () => {}, free: () => {}, copy: () => {} }
    const opening = openModel(Object.assign(onDevice, { device }) as never, part.out, { parts: ['input'], threads: 1 })
    await expect(opening).rejects.toMatchObject({ code: 'BUNDLE_INVALID', hint: 'choose --provider cpu' })
  })
})

function halves(values: Uint16Array): Float32Array {
  const floats = new Float32Array(values.length)
  decodeHalves(values, floats)
  return floats
}
