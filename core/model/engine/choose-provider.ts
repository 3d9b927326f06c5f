import { createHash } from 'node:crypto'
import { existsSync, readdirSync, statSync } from 'node:fs'
import { arch, cpus } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../kit/base/version.ts'
import type { ShownComputing } from '../../wire/protocol/computing.ts'
import type { Manifest, PartName } from '../bundle/manifest.ts'
import type { VerifiedBundles } from '../bundle/verified-bundles.ts'
import { openRuntime } from './capi.ts'
import { cpuProvider, type Provider, type ProviderWish, providerOf, shortNameOf } from './provider.ts'
import { tryProvider } from './provider-trial.ts'

/** What computes parts of a bundle, and why. */
export interface Computing {
  readonly provider: Provider
  readonly shown: ShownComputing
}

interface ChoiceRequest {
  readonly folder: string
  readonly manifest: Manifest
  readonly parts: readonly PartName[]
  readonly threads: number
  readonly library: string | undefined
  readonly wish: ProviderWish
  /** Remembers what was tried on this machine. */
  readonly verified: VerifiedBundles
  readonly signal?: AbortSignal | undefined
}

/** A GPU has to gain this much: what is as fast as the CPU takes memory and power for nothing. */
const minGain = 1.1

/**
 * Chooses what computes. `auto` takes a GPU that starts, gives the golden results and is faster than the CPU with these parts, and
 * otherwise the CPU; a provider by name is taken as it is.
 * @throws BrimError USAGE, RUNTIME_UNAVAILABLE; the signal's reason
 */
export async function chooseProvider(request: ChoiceRequest): Promise<Computing> {
  const { wish, library } = request
  if (wish.name !== 'auto') return computing(providerOf(wish), 'asked for')
  const drivers = driversOf(wish.driverFiles)
  if (drivers.length === 0) return computing(cpuProvider, 'no GPU driver was found (Vulkan)')
  const runtime = await openRuntime({ library })
  const { info } = runtime
  await runtime.close()
  const plugin = wish.plugin ?? packagedPlugin()
  const offered = info.providers.includes(webGpu)
  if (!offered && plugin === undefined)
    return computing(cpuProvider, `ONNX Runtime ${info.version} has no provider for GPUs, and no plug-in was found`)
  return tried(request, { name: webGpu, plugin: wish.plugin ?? (offered ? undefined : plugin), options: wish.options }, [
    info.version,
    info.library,
    ...drivers,
  ])
}

const webGpu = 'WebGpuExecutionProvider'

async function tried(request: ChoiceRequest, provider: Provider, machine: readonly string[]): Promise<Computing> {
  const { folder, manifest, parts, threads, library, verified, signal } = request
  const place = createHash('sha256')
    .update(JSON.stringify([manifest.modelId, manifest.files, parts, threads, provider, machine, arch(), cpus()[0]?.model]))
    .digest('hex')
  const reply = verified.trialOf(place) ?? (await tryProvider({ folder, parts, threads, library, provider }, signal))
  verified.recordTrial(place, reply)
  const name = shortNameOf(provider.name)
  if (reply.kind === 'failed') return computing(cpuProvider, `${name} failed its trial: ${reply.reason}`)
  const { seconds } = reply
  const gain = seconds.cpu / seconds.provider
  if (gain < 1) return computing(cpuProvider, `${name} was measured as ${(1 / gain).toFixed(1)} times slower`)
  if (gain < minGain) return computing(cpuProvider, `${name} was measured as only ${gain.toFixed(2)} times faster`)
  return computing(provider, `measured as ${gain.toFixed(1)} times faster than the CPU`)
}

const computing = (provider: Provider, reason: string): Computing => ({
  provider,
  shown: { provider: shortNameOf(provider.name), reason },
})

/** The plug-in in Brim's own package. */
function packagedPlugin(): string | undefined {
  const path = fileURLToPath(new URL('lib/libonnxruntime_providers_webgpu.so', projectRoot))
  return existsSync(path) ? path : undefined
}

/** Vulkan's drivers, by what changes when they do. macOS has Metal. */
function driversOf(named: string | undefined): string[] {
  if (process.platform === 'darwin') return ['metal']
  const files = named !== undefined ? named.split(':') : icdFolders.flatMap(manifestsIn)
  return files.flatMap((file) => {
    const found = statSync(file, { throwIfNoEntry: false })
    return found ? [`${file}:${found.size}:${found.mtimeMs}:${kernelDriver()}`] : []
  })
}

const icdFolders = ['/etc/vulkan/icd.d', '/usr/share/vulkan/icd.d', '/usr/local/share/vulkan/icd.d']

function manifestsIn(folder: string): string[] {
  try {
    return readdirSync(folder).flatMap((name) => (name.endsWith('.json') ? [join(folder, name)] : []))
  } catch {
    return []
  }
}

/** Changes when NVIDIA's driver is replaced. */
function kernelDriver(): string {
  const found = statSync('/sys/module/nvidia/version', { throwIfNoEntry: false })
  return String(found?.mtimeMs ?? '')
}
