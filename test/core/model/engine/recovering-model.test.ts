import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { openRuntime } from '../../../../core/model/engine/capi.ts'
import type { Chain, Sequence } from '../../../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../../../core/model/engine/open-model.ts'
import { cpuProvider } from '../../../../core/model/engine/provider.ts'
import { hasLostDevice, RecoveringModel } from '../../../../core/model/engine/recovering-model.ts'
import type { Runtime } from '../../../../core/model/engine/runtime.ts'
import { fromStates, type States } from '../../../../core/wire/protocol/states.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../../../lab/random-checkpoint.ts'
import { type DeviceFaults, deviceFailure, emulateDevice } from '../../../support/emulated-device.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const vocab = tinyLlamaConfig.vocab_size
const prompt = [5, 9, 33, 71, 120, 14, 2, 90, 61, 7, 19]
/** The graphs of a device sum in another order. */
const tolerance = 2e-3
const splitParts = ['input', 'middle', 'output', 'adapter'] as const

const dir = tempDir()
const [whole, split] = [join(dir.path, 'whole'), join(dir.path, 'split')]
beforeAll(async () => {
  const checkpoint = join(dir.path, 'checkpoint')
  await writeRandomCheckpoint(checkpoint, {
    config: { ...tinyLlamaConfig, num_hidden_layers: 3 },
    dtype: 'F32',
    seed: 3,
    adapter: { split: 1, heads: 4, kvHeads: 2, headDim: 16, features: true },
  })
  await buildBundle({ checkpoint, format: 'fp32', out: whole })
  await buildBundle({ checkpoint, format: 'fp32', split: 1, drafters: ['adapter'], out: split })
})
afterAll(() => dir[Symbol.dispose]())

/** A model on a device that may be lost, and the same one that stays on the CPU. */
async function models(
  folder: string,
  openOnCpu?: () => Promise<LoadedModel>,
  own?: { readonly faults: DeviceFaults; readonly runtime: Runtime },
) {
  const faults: DeviceFaults = own?.faults ?? {}
  const options = { parts: folder === whole ? ('chain' as const) : splitParts, threads: 1 }
  const open = async () => {
    const runtime = await openRuntime()
    return openModel(runtime, folder, { ...options, onRelease: () => runtime.close() })
  }
  const runtime = own?.runtime ?? emulateDevice(await openRuntime(), faults)
  const model = new RecoveringModel({
    model: await openModel(runtime, folder, { ...options, onRelease: () => runtime.close() }),
    computing: { provider: 'webgpu', reason: 'asked for' },
    isLost: own ? async () => true : () => hasLostDevice(runtime),
    openOnCpu: openOnCpu ?? open,
    onLost: ({ cause }) => ({ provider: 'cpu', reason: `lost: ${(cause as Error).message}`, failed: true }),
  })
  const reference = await open()
  return {
    faults,
    model,
    reference,
    async [Symbol.asyncDispose]() {
      await model.release()
      await reference.release()
    },
  }
}

const lost = { provider: 'cpu', reason: 'lost: Device is lost', failed: true }

describe('a device that is lost', () => {
  it('that computes in fp16: the CPU takes its rows, and gives rows like them', async () => {
    const faults: DeviceFaults = {}
    const device = await openRuntime({ provider: { ...cpuProvider, compute: 'fp16' } })
    const runtime: Runtime = {
      info: device.info,
      device: device.device,
      tensor: (...args) => device.tensor(...args),
      mapFile: (path) => device.mapFile(path),
      session: async (...args) => {
        const session = await device.session(...args)
        const { inputNames, outputNames } = session
        const run: typeof session.run = async (...tensors) => {
          if (faults.isLost) throw deviceFailure('running a graph')
          await session.run(...tensors)
        }
        return { inputNames, outputNames, run, release: () => session.release() }
      },
      close: () => device.close(),
    }
    await using both = await models(whole, undefined, { faults, runtime })
    const { model, reference } = both
    const chain = model.chain({ cuts: 'half' })
    const sequence = chain.createSequence()
    const step = (ids: readonly number[]) => chain.step([{ sequence, ids, select: 'last' }])
    await step(prompt)
    const fromDevice = new Float32Array(prompt.length * sequence.rowValues)
    await sequence.readRows(0, prompt.length, fromDevice)
    faults.isLost = true
    await step([17])
    const fromCpu = new Float32Array(sequence.rowValues)
    await sequence.readRows(prompt.length, prompt.length + 1, fromCpu)
    sequence.evict()
    sequence.writeRows(0, prompt.length, fromDevice)
    sequence.writeRows(prompt.length, prompt.length + 1, fromCpu)
    const own = (await step([18])).slice()
    const expected = reference.chain({ cuts: 'half' })
    const row = await expected.step([{ sequence: expected.createSequence(), ids: [...prompt, 17, 18], select: 'last' }])
    expect(largestDifference(own, row)).toBeLessThan(2e-2)
    expect(model.computing).toEqual(lost)
    sequence.release()
  })

  it.each([whole, split])('in an answer: the CPU goes on with the same answer', async (folder) => {
    await using both = await models(folder)
    const { faults, model, reference } = both
    const expected = await decode(reference.chain({ cuts: 'half' }), 12)
    const own = await decode(model.chain({ cuts: 'half' }), 12, (token) => {
      faults.isLost = token >= 5
    })
    expect(own.ids).toEqual(expected.ids)
    expect(largestDifference(own.logits, expected.logits)).toBeLessThan(tolerance)
    expect(model.computing).toEqual(lost)
  })

  it('in a tree: what drafts have branched is computed again', async () => {
    await using both = await models(split)
    const { faults, model, reference } = both
    const grown = async (own: LoadedModel, lose: () => void) => {
      const streams = [own.part('input').createSequence(), own.part('adapter').createSequence()]
      const at = prompt.length
      await through(own, streams, prompt)
      await through(own, streams, [40, 50, 41, 51], [at - 1, at - 1, at, at + 1])
      lose()
      const beside = await through(own, streams, [60], [at + 3])
      for (const sequence of streams) sequence.gather(at, [at + 1, at + 3])
      const after = await through(own, streams, [17])
      for (const sequence of streams) sequence.release()
      return [beside, after].map(fromStates)
    }
    const expected = await grown(reference, () => {})
    const own = await grown(model, () => {
      faults.isLost = true
    })
    own.forEach((rows, at) => {
      expect(largestDifference(rows, expected[at]!)).toBeLessThan(1e-2)
    })
    expect(model.computing.provider).toBe('cpu')
  })

  it.each([1, 2, 3, 4])('among preemptions, copies and truncations (seed %i)', async (seed) => {
    await using both = await models(split)
    const { faults, model, reference } = both
    const random = seededRandom(seed)
    const below = (count: number) => Math.floor(random.next() * count)
    const chain = model.chain({ cuts: 'half' })
    const streams = Array.from({ length: 3 }, () => ({ sequence: chain.createSequence(), ids: [] as number[] }))
    const lostAt = 5 + below(15)
    for (let turn = 0; turn < 40; turn++) {
      const own = streams[below(3)]!
      const { sequence, ids } = own
      faults.isLost = turn >= lostAt
      const kind = ids.length === 0 ? 0 : below(6)
      if (kind === 1) {
        const length = below(ids.length)
        sequence.truncate(length)
        ids.length = length
      } else if (kind === 2) {
        const other = streams[below(3)]!
        const length = below(ids.length + 1)
        if (other !== own) {
          other.sequence.copyPrefix(sequence, length)
          other.ids = ids.slice(0, length)
        }
      } else if (kind === 3) {
        const rows = new Float32Array(sequence.length * sequence.rowValues)
        await sequence.readRows(0, sequence.length, rows)
        sequence.evict()
        expect(sequence.held).toBe(0)
        sequence.writeRows(0, sequence.length, rows)
        expect(sequence.held).toBe(sequence.length)
      } else if (kind === 4) {
        const rows = new Float32Array(sequence.length * sequence.rowValues)
        await sequence.readRows(0, sequence.length, rows)
        const other = chain.createSequence()
        expect(other.claim(ids.length, ids)).toBe(true)
        other.writeRows(0, ids.length, rows)
        sequence.release()
        own.sequence = other
      } else {
        const more = Array.from({ length: 1 + below(9) }, () => below(vocab))
        ids.push(...more)
        const logits = await chain.step([{ sequence, ids: more, select: 'last' }])
        expect(largestDifference(logits.slice(), await decodeRow(reference, ids))).toBeLessThan(tolerance)
      }
      expect(sequence.length).toBe(ids.length)
    }
    expect(model.computing.provider).toBe('cpu')
    for (const { sequence } of streams) sequence.release()
  })

  it('under steps of several parts at once: each is repeated', async () => {
    await using both = await models(split)
    const { faults, model, reference } = both
    const ask = (own: LoadedModel) => Promise.all([7, 8, 9].map((id) => decodeRow(own, [...prompt, id])))
    await ask(model)
    faults.isLost = true
    const [own, expected] = [await ask(model), await ask(reference)]
    own.forEach((logits, at) => {
      expect(largestDifference(logits, expected[at]!)).toBeLessThan(tolerance)
    })
  })

  it('is an error with a name where the CPU cannot compute the model', async () => {
    await using both = await models(whole, () => Promise.reject(new Error('no memory')))
    both.faults.isLost = true
    const answer = decodeRow(both.model, prompt)
    await expect(answer).rejects.toMatchObject({
      code: 'PROVIDER_LOST',
      hint: expect.stringContaining('start the process again'),
    })
  })

  it('is not assumed when a step fails on a device that works: the error is that of the step', async () => {
    await using both = await models(whole)
    const { faults, model } = both
    const chain = model.chain({ cuts: 'half' })
    const sequence = chain.createSequence()
    await chain.step([{ sequence, ids: prompt, select: 'last' }])
    faults.failsOnce = true
    await expect(chain.step([{ sequence, ids: [3], select: 'last' }])).rejects.toMatchObject({ code: 'RUNTIME_FAILED' })
    expect(sequence.length).toBe(prompt.length)
    const logits = await chain.step([{ sequence, ids: [4], select: 'last' }])
    expect(largestDifference(logits.slice(), await decodeRow(both.reference, [...prompt, 4]))).toBeLessThan(tolerance)
    expect(model.computing.provider).toBe('webgpu')
    sequence.release()
  })
})

describe('a device with too little memory', () => {
  it('fails the sequence that grows beyond it, and no other', async () => {
    await using both = await models(whole)
    const { faults, model } = both
    const chain = model.chain({ cuts: 'half' })
    const [long, short] = [chain.createSequence(), chain.createSequence()]
    await chain.step([{ sequence: short, ids: prompt, select: 'last' }])
    await chain.step([{ sequence: long, ids: prompt, select: 'last' }])
    faults.maxBytes = 12_000
    const many = Array.from({ length: 80 }, (_, at) => at)
    await expect(chain.step([{ sequence: long, ids: many, select: 'last' }])).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    const logits = await chain.step([{ sequence: short, ids: [4], select: 'last' }])
    expect(largestDifference(logits.slice(), await decodeRow(both.reference, [...prompt, 4]))).toBeLessThan(tolerance)
    long.release()
    // Its memory is not used again.
    faults.maxBytes = Number.POSITIVE_INFINITY
    const fresh = chain.createSequence()
    await chain.step([{ sequence: fresh, ids: many, select: 'last' }])
    for (const sequence of [short, fresh]) sequence.release()
  })

  it('names the weight that it has no memory for, and frees the others', async () => {
    const freed: number[] = []
    const own = emulateDevice(await openRuntime(), { maxBytes: 1_000 })
    const device = own.device!
    let tensors = 0
    const runtime = {
      ...own,
      device: {
        ...device,
        allocate: (...args: Parameters<typeof device.allocate>) => {
          tensors++
          return device.allocate(...args)
        },
        free: (...args: Parameters<typeof device.free>) => {
          freed.push(args[0].length)
          return device.free(...args)
        },
      },
    }
    await expect(openModel(runtime, whole, { parts: 'chain', threads: 1 })).rejects.toMatchObject({
      code: 'OUT_OF_MEMORY',
      message: expect.stringMatching(/^the device has no memory for the weight \S+ of \d+ bytes, or not in one piece$/),
    })
    expect(freed.reduce((sum, count) => sum + count, 0)).toBe(tensors)
    await runtime.close()
  })
})

it('lets a sequence be released after its model', async () => {
  const { model, reference } = await models(whole)
  const sequence = model.chain({ cuts: 'half' }).createSequence()
  await model.chain({ cuts: 'half' }).step([{ sequence, ids: prompt, select: 'last' }])
  await model.release()
  await reference.release()
  sequence.release()
})

/** Greedy. */
async function decode(chain: Chain, tokens: number, before: (token: number) => void = () => {}) {
  const sequence = chain.createSequence()
  const [ids, logits]: [number[], number[]] = [[], []]
  let next: readonly number[] = prompt
  for (let token = 0; token < tokens; token++) {
    before(token)
    const row = await chain.step([{ sequence, ids: next, select: 'last' }])
    logits.push(...row)
    next = [row.indexOf(Math.max(...row))]
    ids.push(...next)
  }
  sequence.release()
  return { ids, logits: Float32Array.from(logits) }
}

/** The logits of the last row, computed in one step. */
async function decodeRow(model: LoadedModel, ids: readonly number[]): Promise<Float32Array> {
  const chain = model.chain({ cuts: 'half' })
  const sequence = chain.createSequence()
  const logits = (await chain.step([{ sequence, ids, select: 'last' }])).slice()
  sequence.release()
  return logits
}

async function through(
  model: LoadedModel,
  [shallow, drafts]: readonly Sequence[],
  ids: readonly number[],
  parents?: readonly number[],
): Promise<States> {
  const [states] = await model.part('input').step([{ sequence: shallow!, ids, parents, select: 'all' }])
  const item = { sequence: drafts!, states: states!, features: states!, parents, select: 'last' as const }
  const [result] = await model.part('adapter').step([item])
  return result!
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length)
  return a.reduce((largest, value, at) => {
    const difference = Math.abs(value - b[at]!)
    return difference <= largest ? largest : difference
  }, 0)
}
