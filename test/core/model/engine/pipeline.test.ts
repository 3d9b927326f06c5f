import { createHash } from 'node:crypto'
import { cp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Sequence, StepItem } from '../../../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../../../core/model/engine/open-model.ts'
import type { CuttingPart } from '../../../../core/model/engine/part.ts'
import { PipelinedPart } from '../../../../core/model/engine/pipelined-part.ts'
import { randomStates } from '../../../support/random-states.ts'
import { smallConfig, someIds, type Workshop, workshop } from './models.ts'

const formats = {
  fp32: { format: 'fp32' },
  'int4 at accuracy level 1': { format: 'int4', accuracyLevel: 1 },
  'int4 at accuracy level 4': { format: 'int4', accuracyLevel: 4 },
} as const

let bench: Workshop
const opened: LoadedModel[] = []
/** Bundles by format. */
const folders = new Map<string, string>()
beforeAll(async () => {
  // Five layers, of which the middle has four: two stages of two, three of two, one and one.
  bench = await workshop({ ...smallConfig, num_hidden_layers: 5 })
  for (const [name, format] of Object.entries(formats)) folders.set(name, (await bench.open({ ...format, split: 1 })).folder)
})
afterAll(async () => {
  for (const model of opened) await model.release()
  await bench[Symbol.asyncDispose]()
})

async function open(stages: number, format = 'fp32'): Promise<LoadedModel> {
  const model = await openModel(bench.runtime, folders.get(format)!, { parts: 'chain', threads: 1, stages })
  opened.push(model)
  return model
}

describe.each(Object.keys(formats))('a middle split into stages, in %s', (format) => {
  it.each([2, 3, 4])('of %i: returns the bits of the unsplit one, packed, rolled back and copied', async (stages) => {
    const [uncut, cut] = [await open(1, format), await open(stages, format)]
    const expected = await converse(uncut)
    expect(await converse(cut)).toEqual(expected)
    expect(expected.length).toBeGreaterThan(6)
  })
})

it('stages return the bits of the unsplit middle for trees and accepted branches', async () => {
  const said = [1, 2, 3].map(async (stages) => {
    const middle = (await open(stages)).part('middle') as CuttingPart
    const [a, b] = [middle.createSequence(), middle.createSequence()]
    const states = (rows: number, seed: number) => randomStates(rows, smallConfig.hidden_size, seed)
    const steps: StepItem[][] = [
      [{ sequence: a, states: states(6, 1), select: 'none' }],
      [
        { sequence: a, states: states(5, 2), parents: [5, 5, 6, 7, 4], select: 'all' },
        { sequence: b, states: states(3, 3), select: [0, 2] },
      ],
    ]
    const rows = []
    for (const step of steps) rows.push(await middle.run(step, 'full'))
    expect([a.length, a.line]).toEqual([11, 7])
    a.gather(6, [7, 9])
    rows.push(await middle.run([{ sequence: a, states: states(2, 4), select: 'all' }], 'full'))
    expect([a.length, a.line]).toEqual([10, 10])
    for (const sequence of [a, b]) sequence.release()
    return rows
  })
  const [uncut, two, three] = await Promise.all(said)
  expect(uncut!.flat().map((states) => states.wide?.index.length ?? 0)).toEqual([0, 5, 2, 2])
  expect(two).toEqual(uncut)
  expect(three).toEqual(uncut)
})

/** Prompts of different lengths, packed steps, rollbacks, a branch of a tree, a copy. @returns the unrounded logits' bits */
async function converse(model: LoadedModel): Promise<string[]> {
  const chain = model.chain({ cuts: 'full' })
  const said: string[] = []
  const step = async (...items: [Sequence, number[], StepItem['select']?][]) => {
    const logits = await chain.step(items.map(([sequence, ids, select = 'all']) => ({ sequence, ids, select })))
    said.push(bits(logits))
  }
  const ids = (count: number, seed: number) => someIds(model.manifest, count, seed)
  const [a, b, c] = [chain.createSequence(), chain.createSequence(), chain.createSequence()]
  await step([a, ids(33, 1), 'last'])
  await step([a, ids(1, 2)])
  await step([b, ids(17, 3), [2, 16]], [a, ids(4, 4)], [c, ids(70, 5), 'none'])
  a.truncate(35)
  b.truncate(3)
  await step([a, ids(5, 6)], [b, ids(1, 7)])
  a.gather(36, [38, 37])
  c.copyPrefix(a, 37)
  await step([c, ids(2, 8)], [b, ids(3, 9)], [a, ids(1, 10)])
  for (const sequence of [a, b, c]) said.push(`${sequence.length} ${sequence.capacity} ${sequence.bytes}`)
  for (const sequence of [a, b, c]) sequence.release()
  return said
}

describe('a pipeline of stages', () => {
  let middle: CuttingPart
  let stages: CuttingPart[]
  let width: number
  beforeAll(async () => {
    const [uncut, other] = [await open(1), await open(1)]
    // The split of the layers is tested above; here two whole middles in sequence suffice.
    stages = [uncut, other].map((model) => model.part('middle') as CuttingPart)
    middle = stages[0]!
    width = uncut.manifest.dims.hidden
  })
  const item = (sequence: Sequence, rows: number, seed = 1): StepItem => ({
    sequence,
    states: randomStates(rows, width, seed),
    select: 'all',
  })

  it('runs a step in its first stage while another is in the second', async () => {
    const gate = closedGate()
    const pipeline = new PipelinedPart(middle.manifest, [stages[0]!, entering(stages[1]!, gate.pass)])
    const [a, b] = [pipeline.createSequence(), pipeline.createSequence()]
    const first = pipeline.step([item(a, 3)])
    await expect.poll(gate.waiting).toBe(1)
    const second = pipeline.step([item(b, 2)])
    // It has passed the first stage while the previous step is still in the second.
    await expect.poll(gate.waiting).toBe(2)
    expect([a.length, b.length]).toEqual([0, 0])
    gate.open()
    expect((await Promise.all([first, second])).map(([rows]) => rows!.rows)).toEqual([3, 2])
    expect([a.length, b.length]).toEqual([3, 2])
  })

  it('restores all stages if a later one fails, and can be used afterwards', async () => {
    let fails = false
    const failing = entering(stages[1]!, async () => {
      if (fails) throw new Error('scripted failure')
    })
    const [pipeline, twin] = [failing, stages[1]!].map((last) => new PipelinedPart(middle.manifest, [stages[0]!, last]))
    const [a, b, c] = [1, 2, 3].map(() => pipeline!.createSequence())
    await pipeline!.step([item(a!, 5), item(b!, 2)])
    fails = true
    await expect(pipeline!.step([item(a!, 3), item(b!, 1), item(c!, 4)])).rejects.toThrow('scripted failure')
    expect([a!, b!, c!].map(({ length }) => length)).toEqual([5, 2, 0])
    fails = false
    const rows = await pipeline!.step([item(a!, 2, 7), item(b!, 3, 8)])

    const [x, y] = [twin!.createSequence(), twin!.createSequence()]
    await twin!.step([item(x, 5), item(y, 2)])
    expect(rows).toEqual(await twin!.step([item(x, 2, 7), item(y, 3, 8)]))
  })

  it('frees a sequence that is released during a step at the end of the step, and rejects other operations on it', async () => {
    const gate = closedGate()
    const pipeline = new PipelinedPart(middle.manifest, [stages[0]!, entering(stages[1]!, gate.pass)])
    const [a, b] = [pipeline.createSequence(), pipeline.createSequence()]
    const step = pipeline.step([item(a, 3), item(b, 3)])
    await expect.poll(gate.waiting).toBe(1)
    expect(() => b.truncate(0)).toThrow(/in a step/)
    await expect(pipeline.step([item(b, 1)])).rejects.toThrow(/in a step/)
    a.release()
    expect(a.bytes).toBeGreaterThan(0)
    gate.open()
    expect((await step).map(({ rows }) => rows)).toEqual([3, 3])
    expect([a.bytes, b.length]).toEqual([0, 3])
    await expect(pipeline.step([item(a, 1)])).rejects.toThrow(/released/)
  })

  it('rejects sequences of other parts and repeated ones', async () => {
    const pipeline = new PipelinedPart(middle.manifest, stages)
    const sequence = pipeline.createSequence()
    await expect(pipeline.step([item(middle.createSequence(), 1)])).rejects.toThrow(/another part/)
    await expect(pipeline.step([item(sequence, 1), item(sequence, 1)])).rejects.toThrow(/twice/)
    await expect(pipeline.step([{ ...item(sequence, 2), select: [2] }])).rejects.toThrow(RangeError)
    expect(sequence.length).toBe(0)
    await pipeline.step([item(sequence, 1)])
    expect(sequence.length).toBe(1)
  })
})

describe('splitting a middle into stages', () => {
  it.each([0, 5, 1.5])('rejects %d stages for four layers', async (stages) => {
    await expect(open(stages)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringContaining('4 layers'),
      hint: expect.stringContaining('1 to 4'),
    })
  })

  it('balances the layers and uses no more memory than the unsplit middle', async () => {
    const bytes = []
    for (const stages of [1, 2, 3, 4]) {
      const middle = (await open(stages)).part('middle')
      expect(middle.manifest.layers).toEqual([1, 5])
      const sequence = middle.createSequence()
      await middle.step([{ sequence, states: randomStates(3, smallConfig.hidden_size, 1), select: 'none' }])
      bytes.push(sequence.bytes)
      sequence.release()
    }
    expect(new Set(bytes).size).toBe(1)
  })

  it('rejects a bundle whose configuration has changed since the build', async () => {
    const folder = join(bench.folder, 'altered')
    await cp(folders.get('fp32')!, folder, { recursive: true })
    const path = join(folder, 'tokenizer', 'config.json')
    const config = JSON.parse(await readFile(path, 'utf8'))
    await writeFile(path, JSON.stringify({ ...config, rms_norm_eps: 1e-3 }))
    const options = { parts: ['middle'] as const, threads: 1, stages: 2 }
    await expect(openModel(bench.runtime, folder, options)).rejects.toMatchObject({ code: 'BUNDLE_INVALID' })
    await rm(path)
    await expect(openModel(bench.runtime, folder, options)).rejects.toMatchObject({ code: 'BUNDLE_CORRUPT' })
    // Without stages it needs none.
    const uncut = await openModel(bench.runtime, folder, { ...options, stages: 1 })
    await uncut.release()
  })
})

/** A stage that awaits a callback before each of its steps. */
function entering(part: CuttingPart, first: () => Promise<void>): CuttingPart {
  return {
    name: part.name,
    manifest: part.manifest,
    createSequence: () => part.createSequence(),
    step: (items) => first().then(() => part.step(items)),
    run: (items, cut) => first().then(() => part.run(items, cut)),
  }
}

function closedGate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  let waiting = 0
  return {
    waiting: () => waiting,
    open,
    pass() {
      waiting += 1
      return opened
    },
  }
}

const bits = (values: Float32Array) =>
  createHash('sha256')
    .update(new Uint8Array(values.buffer, values.byteOffset, values.byteLength))
    .digest('hex')
