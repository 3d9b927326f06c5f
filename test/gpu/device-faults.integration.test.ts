import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import { openRuntime } from '../../core/model/engine/capi.ts'
import { chooseProvider } from '../../core/model/engine/choose-provider.ts'
import type { Chain } from '../../core/model/engine/contract.ts'
import { openBundle } from '../../core/model/engine/open-bundle.ts'
import { openModel } from '../../core/model/engine/open-model.ts'
import { hasLostDevice, RecoveringModel } from '../../core/model/engine/recovering-model.ts'
import type { Runtime } from '../../core/model/engine/runtime.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { deviceFailure } from '../support/emulated-device.ts'
import { softwareGpu, softwareGpuEnv } from '../support/software-gpu.ts'
import { tempDir } from '../support/temp-dir.ts'

const gpu = softwareGpu()
const prompt = [5, 9, 33, 71, 120]
const webgpu = { name: 'webgpu' }

const dir = tempDir()
const folder = join(dir.path, 'bundle')
beforeAll(async () => {
  const checkpoint = join(dir.path, 'checkpoint')
  await writeRandomCheckpoint(checkpoint, { config: { ...tinyLlamaConfig, num_hidden_layers: 1 }, dtype: 'F32', seed: 3 })
  await buildBundle({ checkpoint, format: 'fp32', out: folder })
})
afterAll(() => dir[Symbol.dispose]())

describe('a provider that cannot be used', () => {
  it('is an error where an option is not of the form name=value', async () => {
    const provider = { ...webgpu, options: ['powerPreference'] }
    const opening = openBundle(folder, { parts: 'chain', threads: 1, provider })
    await expect(opening).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('powerPreference') })
  })

  it.runIf(gpu)('leaves the CPU to compute under auto where its driver does not start', async () => {
    const before = process.env.VK_DRIVER_FILES
    process.env.VK_DRIVER_FILES = join(folder, 'manifest.json')
    try {
      const request = { folder, manifest: await readManifest(folder), parts: ['whole'] as const, threads: 1, library: undefined }
      const wish = { name: 'auto', driverFiles: softwareGpuEnv.VK_DRIVER_FILES }
      const { shown } = await chooseProvider({ ...request, wish, verified: new VerifiedBundles() })
      expect(shown).toMatchObject({ provider: 'cpu', reason: expect.stringMatching(/^webgpu failed its trial: /) })
    } finally {
      process.env.VK_DRIVER_FILES = before
    }
  })
})

describe.runIf(gpu)('a GPU', () => {
  /** Open to the end: the device keeps its compiled shaders, from one runtime to the next. */
  let kept: Runtime
  beforeAll(async () => {
    kept = await openRuntime({ provider: gpu })
  })
  afterAll(() => kept.close())

  it('that has no memory for a tensor says so, and goes on', async () => {
    const runtime = await openRuntime({ provider: gpu })
    const device = runtime.device!
    const [large, small] = [await device.allocate('float32', [2 ** 30]), await device.allocate('float32', [16])]
    await expect(device.check([large])).rejects.toMatchObject({
      code: 'OUT_OF_MEMORY',
      message: expect.stringContaining('4294967296'),
      hint: expect.stringContaining('--provider cpu'),
    })
    await device.check([small])
    expect(await hasLostDevice(runtime)).toBe(false)
    await device.free([large, small])
    await runtime.close()
    await expect(device.allocate('float32', [1])).rejects.toThrow('after its release')
  })

  it('that is lost in mid-answer is replaced by the CPU, in the same answer', async () => {
    const own = await openRuntime({ provider: gpu })
    const fault = { isLost: false }
    const runtime = failing(own, fault)
    const open = (on: Runtime) => openModel(on, folder, { parts: 'chain', threads: 1, onRelease: () => on.close() })
    const model = new RecoveringModel({
      model: await open(runtime),
      computing: { provider: 'webgpu', reason: 'asked for' },
      isLost: () => hasLostDevice(runtime),
      openOnCpu: async () => open(await openRuntime()),
      onLost: () => ({ provider: 'cpu', reason: 'lost' }),
    })
    const reference = await open(await openRuntime())
    const expected = await decode(reference.chain({ cuts: 'full' }), 8)
    const ids = await decode(model.chain({ cuts: 'full' }), 8, (token) => {
      fault.isLost = token === 4
    })
    expect(ids).toEqual(expected)
    expect(model.computing.provider).toBe('cpu')
    await model.release()
    await reference.release()
  })

  it('computes two models whose steps alternate, one of which is closed meanwhile', async () => {
    const options = { parts: 'chain', threads: 1, provider: webgpu } as const
    const [first, second] = await Promise.all([openBundle(folder, options), openBundle(folder, options)])
    const expected = await decode(first.chain({ cuts: 'full' }), 6)
    const both = [first, second, second].map((model) => decode(model.chain({ cuts: 'full' }), 6))
    await both[0]
    await first.release()
    for (const ids of await Promise.all(both)) expect(ids).toEqual(expected)
    expect(await decode(second.chain({ cuts: 'full' }), 6)).toEqual(expected)
    await second.release()
  })
})

/** A runtime whose runs and copies fail from a moment on. */
function failing(runtime: Runtime, fault: { isLost: boolean }): Runtime {
  const device = runtime.device!
  const orFail = async <Result>(call: () => Promise<Result>) => {
    if (fault.isLost) throw deviceFailure('running a graph')
    return call()
  }
  return {
    info: runtime.info,
    device: {
      type: device.type,
      maxRows: device.maxRows,
      allocate: (...args) => device.allocate(...args),
      check: (tensors) => orFail(() => device.check(tensors)),
      free: (tensors) => device.free(tensors),
      copy: (pairs) => orFail(() => device.copy(pairs)),
    },
    tensor: (...args) => runtime.tensor(...args),
    mapFile: (path) => runtime.mapFile(path),
    session: async (...args) => {
      const session = await runtime.session(...args)
      const { inputNames, outputNames } = session
      return { inputNames, outputNames, run: (...own) => orFail(() => session.run(...own)), release: () => session.release() }
    },
    close: () => runtime.close(),
  }
}

/** Greedy. */
async function decode(chain: Chain, tokens: number, before: (token: number) => void = () => {}): Promise<number[]> {
  const sequence = chain.createSequence()
  const ids: number[] = []
  let next: readonly number[] = prompt
  for (let token = 0; token < tokens; token++) {
    before(token)
    const logits = await chain.step([{ sequence, ids: next, select: 'last' }])
    next = [logits.indexOf(Math.max(...logits))]
    ids.push(...next)
  }
  sequence.release()
  return ids
}
