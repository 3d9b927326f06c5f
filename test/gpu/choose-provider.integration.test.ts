import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import { chooseProvider } from '../../core/model/engine/choose-provider.ts'
import { openBundle } from '../../core/model/engine/open-bundle.ts'
import type { ProviderWish } from '../../core/model/engine/provider.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'
import { softwareGpu, softwareGpuEnv } from '../support/software-gpu.ts'
import { tempDir } from '../support/temp-dir.ts'

const gpu = softwareGpu()
// For the process of a trial.
if (gpu) Object.assign(process.env, softwareGpuEnv)

const dir = tempDir()
const folder = join(dir.path, 'bundle')
let manifest: Manifest
beforeAll(async () => {
  const checkpoint = join(dir.path, 'checkpoint')
  await writeRandomCheckpoint(checkpoint, { config: { ...tinyLlamaConfig, num_hidden_layers: 1 }, dtype: 'F32', seed: 3 })
  await buildBundle({ checkpoint, format: 'fp32', out: folder })
  manifest = await readManifest(folder)
})
afterAll(() => dir[Symbol.dispose]())

const choose = (wish: ProviderWish, verified = new VerifiedBundles(), of = manifest) => {
  const request = { folder, manifest: of, parts: ['whole'] as const, threads: 1, library: undefined, verified }
  return chooseProvider({ ...request, wish: { driverFiles: softwareGpuEnv.VK_DRIVER_FILES, ...wish } })
}

describe('auto', () => {
  it('computes on the CPU where there is no driver, and says so', async () => {
    const { provider, shown } = await choose({ name: 'auto', driverFiles: join(dir.path, 'none.json') })
    expect(provider.name).toBe('CPUExecutionProvider')
    expect(shown).toEqual({ provider: 'cpu', reason: 'no GPU driver was found (Vulkan)' })
  })

  it.runIf(gpu)('computes on the CPU where a GPU is slower, which it measures once', async () => {
    const stateDir = join(dir.path, 'state')
    const { shown } = await choose({ name: 'auto' }, new VerifiedBundles(stateDir))
    expect(shown).toEqual({ provider: 'cpu', reason: expect.stringMatching(/^webgpu was measured as [\d.]+ times slower$/) })
    const stored = readFileSync(join(stateDir, 'verified-bundles.json'), 'utf8')
    expect(await choose({ name: 'auto' }, new VerifiedBundles(stateDir))).toMatchObject({ shown })
    expect(readFileSync(join(stateDir, 'verified-bundles.json'), 'utf8')).toBe(stored)
  })

  it.runIf(gpu)('takes a GPU that was measured as faster', async () => {
    const faster = { trialOf: () => ({ kind: 'measured', seconds: { provider: 1, cpu: 3 } }), recordTrial: () => {} }
    const { provider, shown } = await choose({ name: 'auto' }, faster as unknown as VerifiedBundles)
    expect(provider.name).toBe('WebGpuExecutionProvider')
    expect(shown).toEqual({ provider: 'webgpu', reason: 'measured as 3.0 times faster than the CPU' })
  })

  it.runIf(gpu)('computes in fp16 where the bundle is no more exact, and in fp32 where fp16 fails its trial', async () => {
    const measured = { kind: 'measured', seconds: { provider: 1, cpu: 3 } }
    const failed = { kind: 'failed', reason: 'it has no fp16' }
    const chosen = async (format: 'fp32' | 'fp16', ...replies: object[]) => {
      const verified = { trialOf: () => replies.shift(), recordTrial: () => {} } as unknown as VerifiedBundles
      const { provider, shown } = await choose({ name: 'auto' }, verified, {
        ...manifest,
        format: { ...manifest.format, name: format },
      })
      return [provider.compute, shown.reason]
    }
    expect(await chosen('fp32', measured)).toEqual(['fp32', 'measured as 3.0 times faster than the CPU'])
    expect(await chosen('fp16', measured)).toEqual(['fp16', 'measured as 3.0 times faster than the CPU, in fp16'])
    expect(await chosen('fp16', failed, measured)).toEqual(['fp32', 'measured as 3.0 times faster than the CPU'])
    expect(await chosen('fp16', failed, failed)).toEqual([undefined, 'webgpu failed its trial: it has no fp16'])
  })

  it.runIf(gpu)('computes on the CPU where the trial fails, with what the library says', async () => {
    const { shown } = await choose({ name: 'auto', plugin: join(dir.path, 'absent.so') })
    expect(shown).toEqual({
      provider: 'cpu',
      failed: true,
      reason: expect.stringMatching(/^webgpu failed its trial: .*absent\.so/),
    })
  })
})

describe('a provider by name', () => {
  it('is refused if there is none of this name', async () => {
    await expect(choose({ name: 'gpu' })).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining('gpu') })
  })

  it('is an error where it does not start, not the CPU in silence', async () => {
    const opening = openBundle(folder, { parts: 'chain', threads: 1, provider: { name: 'cuda' } })
    await expect(opening).rejects.toMatchObject({ code: 'PROVIDER_UNAVAILABLE' })
  })

  it.runIf(gpu)('computes, and says that it was asked for', async () => {
    const model = await openBundle(folder, { parts: 'chain', threads: 1, provider: { name: 'webgpu' } })
    expect(model.computing).toEqual({ provider: 'webgpu', reason: 'asked for' })
    await model.release()
  })
})
