import { execFileSync } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seededRandom } from '../../core/kit/base/random.ts'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { drafterParts } from '../../core/model/bundle/manifest.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import type { Chain, Sequence } from '../../core/model/engine/contract.ts'
import { type LoadedModel, openModel } from '../../core/model/engine/open-model.ts'
import { cpuProvider } from '../../core/model/engine/provider.ts'
import type { Runtime, Tensor } from '../../core/model/engine/runtime.ts'
import { testLoadedParts } from '../../core/model/engine/self-test.ts'
import { fromStates } from '../../core/wire/protocol/states.ts'
import { measurePlacement } from '../../lab/bench/engine/placement.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { pythonWith } from '../support/python-packages.ts'
import { softwareGpu } from '../support/software-gpu.ts'
import { tempDir } from '../support/temp-dir.ts'

/** What every execution provider must do: on the CPU, on the CPU with the graphs of a device, and on a GPU that computes on the CPU. */
const gpu = softwareGpu()
const python = gpu && pythonWith('webgpu-plugin')
/** Of the Python package: `print(get_library_path())`. */
const plugin =
  python &&
  execFileSync(python, ['-c', 'import onnxruntime_ep_webgpu as webgpu; print(webgpu.get_library_path())'], {
    encoding: 'utf8',
  }).trim()

const vocab = tinyLlamaConfig.vocab_size
const prompt = [5, 9, 33, 71, 120, 14, 2, 90, 61, 7, 19]

/** Open to the end: the device keeps its compiled shaders, from one runtime to the next. */
let kept: Runtime | undefined

const dir = tempDir()
const bundle = (name: string) => join(dir.path, name)
beforeAll(async () => {
  kept = gpu && (await openRuntime({ provider: gpu }))
  const checkpoint = join(dir.path, 'checkpoint')
  const shape = { split: 1, heads: 4, kvHeads: 2, headDim: 16 }
  await writeRandomCheckpoint(checkpoint, {
    config: { ...tinyLlamaConfig, num_hidden_layers: 3 },
    dtype: 'F32',
    seed: 3,
    adapter: { ...shape, features: true },
    adapterPaper: shape,
  })
  // Embedding and head are int8.
  await buildBundle({ checkpoint, format: 'int4', split: 1, out: bundle('split-int4-as-by-default') })
  // Level 1: at level 4 the CPU's kernel reads no scales that are cast to fp32, as it does with fp16.
  for (const format of ['fp32', 'fp16', 'int4'] as const) {
    await buildBundle({ checkpoint, format, accuracyLevel: 1, out: bundle(`whole-${format}`) })
    await buildBundle({
      checkpoint,
      format,
      accuracyLevel: 1,
      split: 1,
      drafters: drafterParts.filter((part) => part !== 'medusa'),
      out: bundle(`split-${format}`),
    })
  }
})
afterAll(async () => {
  await kept?.close()
  dir[Symbol.dispose]()
})

/** By what computes: logits that differ less have the same order, but for near ties. */
const tolerances = { float32: 2e-3, float16: 2e-2 } as const

const runtimes: (readonly [string, () => Promise<Runtime>])[] = [
  ['the CPU', () => openRuntime()],
  ['the CPU as a device', () => openRuntime({ provider: { ...cpuProvider, compute: 'fp32' } })],
  ['the CPU as a device, in fp16', () => openRuntime({ provider: { ...cpuProvider, compute: 'fp16' } })],
  ...(gpu ? [['WebGPU', () => openRuntime({ provider: gpu })] as const] : []),
]

describe.each(runtimes)('on %s', (_name, open) => {
  let runtime: Counted
  let cpu: Runtime
  let tolerance: number
  beforeAll(async () => {
    runtime = counting(await open())
    cpu = await openRuntime()
    tolerance = tolerances[runtime.device?.type ?? 'float32']
  })
  afterAll(async () => {
    await runtime.close()
    await cpu.close()
    expect(runtime.tensors).toBe(0)
  })

  /** A chain there, and one on the CPU. */
  async function chains(name: string) {
    const [there, here] = [
      await openModel(runtime, bundle(name), { parts: 'chain', threads: 1 }),
      await openModel(cpu, bundle(name), { parts: 'chain', threads: 1 }),
    ]
    return {
      chain: there.chain({ cuts: 'half' }),
      reference: here.chain({ cuts: 'half' }),
      there,
      async [Symbol.asyncDispose]() {
        await there.release()
        await here.release()
      },
    }
  }

  it.each(['whole-fp32', 'whole-fp16', 'whole-int4', 'split-fp32', 'split-fp16', 'split-int4'])(
    '%s: decodes as the CPU does',
    async (name) => {
      await using models = await chains(name)
      const [own, expected] = [await decode(models.chain, prompt, 8), await decode(models.reference, prompt, 8)]
      expect(own.ids).toEqual(expected.ids)
      expect(largestDifference(own.logits, expected.logits)).toBeLessThan(tolerance)
    },
  )

  it.each(['split-fp32', 'split-fp16', 'split-int4'])('%s: passes the golden vectors of every part', async (name) => {
    const parts = ['input', 'middle', 'output', 'adapter', 'adapter-paper'] as const
    const model = await openModel(runtime, bundle(name), { parts, threads: 1 })
    await testLoadedParts(model, bundle(name), parts)
    await model.release()
  })

  // Sixteen are more than a GPU's kernels take at once.
  it.each([3, 16])('packs steps of %i sequences', async (count) => {
    await using models = await chains('split-fp32')
    const { chain, reference } = models
    const prompts = Array.from({ length: count }, (_, at) => prompt.slice((3 * at) % 8))
    const more = prompts.map((_, at) => (at === 1 ? [9, 10] : [8 + at]))
    const sequences = prompts.map(() => chain.createSequence())
    const step = (ids: readonly (readonly number[])[]) =>
      chain.step(ids.map((own, at) => ({ sequence: sequences[at]!, ids: own, select: 'last' })))
    const rows = [await step(prompts), await step(more)].map((logits) => logits.slice())
    for (const [at, own] of prompts.entries()) {
      const sequence = reference.createSequence()
      const expected = [await extend(reference, sequence, own), await extend(reference, sequence, more[at]!)]
      for (const turn of [0, 1])
        expect(largestDifference(rows[turn]!.subarray(at * vocab, (at + 1) * vocab), expected[turn]!)).toBeLessThan(tolerance)
      sequence.release()
    }
    for (const sequence of sequences) sequence.release()
  })

  it('verifies trees, and keeps the branch that was accepted', async () => {
    const options = { parts: ['input', 'middle'] as const, threads: 1 }
    const model = await openModel(runtime, bundle('split-fp32'), options)
    const states = async (
      own: LoadedModel,
      ids: readonly number[],
      grow?: (model: LoadedModel, streams: Sequence[]) => Promise<void>,
    ) => {
      const streams = [own.part('input').createSequence(), own.part('middle').createSequence()]
      await through(own, streams, ids)
      await grow?.(own, streams)
      const last = await through(own, streams, [17])
      for (const sequence of streams) sequence.release()
      return last
    }
    const branched = await states(model, prompt, async (own, streams) => {
      const at = prompt.length
      // Two branches of two rows each; the second is kept.
      await through(own, streams, [40, 50, 41, 51], [at - 1, at - 1, at, at + 1])
      for (const sequence of streams) sequence.gather(at, [at + 1, at + 3])
    })
    const expected = await states(model, [...prompt, 50, 51])
    expect(largestDifference(fromStates(branched), fromStates(expected))).toBeLessThan(1e-2)
    await model.release()
  })

  it('continues from a copied prefix', async () => {
    await using models = await chains('whole-fp32')
    const { chain, reference } = models
    const [first, second] = [chain.createSequence(), chain.createSequence()]
    await extend(chain, first, prompt)
    second.copyPrefix(first, 6)
    // The copy is of the rows as they were.
    first.truncate(3)
    await extend(chain, first, [1, 2, 3, 4])
    const own = (await extend(chain, second, [77, 78])).slice()
    const expected = await decodeRow(reference, [...prompt.slice(0, 6), 77, 78])
    expect(largestDifference(own, expected)).toBeLessThan(tolerance)
    for (const sequence of [first, second]) sequence.release()
  })

  it('continues after preemptions at random moments', async () => {
    await using models = await chains('split-fp32')
    const { chain, reference } = models
    const random = seededRandom(11)
    const below = (count: number) => Math.floor(random.next() * count)
    const [sequence, other] = [chain.createSequence(), chain.createSequence()]
    const ids: number[] = []
    await extend(chain, other, prompt)
    for (let turn = 0; turn < 12; turn++) {
      const more = Array.from({ length: 1 + below(20) }, () => below(vocab))
      ids.push(...more)
      const own = (await extend(chain, sequence, more)).slice()
      if (turn % 3 === 2) expect(largestDifference(own, await decodeRow(reference, ids))).toBeLessThan(tolerance)
      if (below(2) === 0) continue
      const { rowValues, length } = sequence
      const at = below(length)
      const saved = [new Float32Array(at * rowValues), new Float32Array((length - at) * rowValues)] as const
      if (at > 0) await sequence.readRows(0, at, saved[0])
      // Rows are read while a step of another sequence runs.
      await Promise.all([sequence.readRows(at, length, saved[1]), extend(chain, other, [below(vocab)])])
      sequence.evict()
      if (at > 0) sequence.writeRows(0, at, saved[0])
      sequence.writeRows(at, length, saved[1])
      // What was written is a copy.
      saved[1].fill(Number.NaN)
      const kept = 1 + below(length)
      sequence.truncate(kept)
      ids.length = kept
    }
    for (const each of [sequence, other]) each.release()
  })

  it('needs half the memory for KV in fp16', async () => {
    await using models = await chains('whole-fp32')
    const [own, expected] = [models.chain.createSequence(), models.reference.createSequence()]
    await extend(models.chain, own, prompt)
    await extend(models.reference, expected, prompt)
    const share = runtime.device?.type === 'float16' ? 2 : 1
    expect([own.bytes, own.rowValues]).toEqual([expected.bytes / share, expected.rowValues / share])
    for (const sequence of [own, expected]) sequence.release()
  })

  it('frees what it allocated', async () => {
    const before = runtime.tensors
    const models = await chains('split-fp32')
    const sequence = models.chain.createSequence()
    await extend(
      models.chain,
      sequence,
      Array.from({ length: 150 }, (_, at) => at),
    )
    sequence.release()
    if (runtime.device) expect(runtime.tensors).toBeGreaterThan(before)
    await models[Symbol.asyncDispose]()
    expect(runtime.tensors).toBe(before)
  })
})

describe('fp16', () => {
  it('refuses a weight that it cannot represent', async () => {
    cpSync(bundle('whole-fp32'), bundle('too-large'), { recursive: true })
    const { weights } = (await readManifest(bundle('too-large'))).parts.whole!
    const norm = weights.find(({ type, dims }) => type === 'float32' && dims.length === 1)!
    const file = join(bundle('too-large'), norm.file)
    const bytes = readFileSync(file)
    bytes.writeFloatLE(1e6, norm.offset)
    writeFileSync(file, bytes)
    const runtime = await openRuntime({ provider: { ...cpuProvider, compute: 'fp16' } })
    const opening = openModel(runtime, bundle('too-large'), { parts: 'chain', threads: 1 })
    await expect(opening).rejects.toMatchObject({ code: 'BUNDLE_INVALID', message: expect.stringContaining(norm.name) })
    await runtime.close()
  })
})

describe.runIf(gpu)('a GPU', () => {
  it.each(['whole-fp32', 'split-int4', 'split-int4-as-by-default'])(
    '%s: runs every node, and has all KV in its memory',
    async (name) => {
      const placed = await measurePlacement({ provider: gpu! }, bundle(name))
      expect(placed).toMatchObject({ nodesOnProvider: placed.nodes, kvOnDevice: placed.kvTensors, copies: 0 })
      expect([placed.nodes, placed.kvTensors].every((count) => count > 50)).toBe(true)
    },
  )

  it('passes the golden vectors of embedding and head in int8', async () => {
    const runtime = await openRuntime({ provider: gpu! })
    const parts = ['input', 'output'] as const
    const model = await openModel(runtime, bundle('split-int4-as-by-default'), { parts, threads: 1 })
    await testLoadedParts(model, bundle('split-int4-as-by-default'), parts)
    expect(model.manifest.vocabularyFormat?.name).toBe('int8')
    await model.release()
    await runtime.close()
  })

  it.runIf(plugin)('is found by a plug-in', async () => {
    const runtime = await openRuntime({ provider: { name: 'WebGpuExecutionProvider', plugin: plugin! } })
    const model = await openModel(runtime, bundle('whole-fp32'), { parts: 'chain', threads: 1 })
    expect((await decode(model.chain({ cuts: 'half' }), prompt, 1)).ids).toHaveLength(1)
    await model.release()
    await runtime.close()
  })

  it('refuses a plug-in that is not there, and options that it does not know', async () => {
    const provider = { name: 'NoExecutionProvider', plugin: '/absent/libnone.so' }
    await expect(openRuntime({ provider })).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' })
  })
})

interface Counted extends Runtime {
  /** Tensors in the memory of the device. */
  readonly tensors: number
}

function counting(runtime: Runtime): Counted {
  const { device } = runtime
  let tensors = 0
  /** What is read before it was written shows. */
  const poison = async (tensor: Tensor) => {
    const { type, dims } = tensor
    if (type !== 'float32' && type !== 'float16') return
    const size = dims.reduce((product, dim) => product * dim, 1)
    const values = type === 'float32' ? new Float32Array(size).fill(Number.NaN) : new Uint16Array(size).fill(0x7e00)
    const source = runtime.tensor(type, dims, values)
    await runtime.device?.copy([[source, tensor]])
    source.release()
  }
  const counted = device && {
    type: device.type,
    maxRows: device.maxRows,
    allocate: async (...args: Parameters<typeof device.allocate>) => {
      const tensor = await device.allocate(...args)
      tensors++
      await poison(tensor)
      return tensor
    },
    free: async (freed: readonly Tensor[]) => {
      await device.free(freed)
      tensors -= freed.length
    },
    check: (...args: Parameters<typeof device.check>) => device.check(...args),
    copy: (...args: Parameters<typeof device.copy>) => device.copy(...args),
  }
  return {
    info: runtime.info,
    device: counted,
    tensor: (...args) => runtime.tensor(...args),
    mapFile: (path) => runtime.mapFile(path),
    session: (...args) => runtime.session(...args),
    close: () => runtime.close(),
    get tensors() {
      return tensors
    },
  }
}

const extend = (chain: Chain, sequence: Sequence, ids: readonly number[]) => chain.step([{ sequence, ids, select: 'last' }])

/** Greedy. */
async function decode(chain: Chain, ids: readonly number[], tokens: number): Promise<{ ids: number[]; logits: Float32Array }> {
  const sequence = chain.createSequence()
  const [chosen, all]: [number[], number[]] = [[], []]
  let next = ids
  for (let at = 0; at < tokens; at++) {
    const logits = await extend(chain, sequence, next)
    all.push(...logits)
    next = [logits.indexOf(Math.max(...logits))]
    chosen.push(...next)
  }
  sequence.release()
  return { ids: chosen, logits: Float32Array.from(all) }
}

/** The logits of the last row, computed in one step. */
async function decodeRow(chain: Chain, ids: readonly number[]): Promise<Float32Array> {
  const sequence = chain.createSequence()
  const logits = (await extend(chain, sequence, ids)).slice()
  sequence.release()
  return logits
}

async function through(
  model: LoadedModel,
  [shallow, deep]: readonly Sequence[],
  ids: readonly number[],
  parents?: readonly number[],
) {
  const [states] = await model.part('input').step([{ sequence: shallow!, ids, parents, select: 'all' }])
  const [result] = await model.part('middle').step([{ sequence: deep!, states: states!, parents, select: 'last' }])
  return result!
}

function largestDifference(a: Float32Array, b: Float32Array): number {
  expect(a.length).toBe(b.length)
  return a.reduce((largest, value, at) => {
    const difference = Math.abs(value - b[at]!)
    return difference <= largest ? largest : difference
  }, 0)
}
