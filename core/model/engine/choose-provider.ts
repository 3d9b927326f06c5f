import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { arch, cpus } from 'node:os'
import { join } from 'node:path'
import { ShownComputing } from '../../wire/protocol/computing.ts'
import { formatOf, type Manifest, type PartName } from '../bundle/manifest.ts'
import type { VerifiedBundles } from '../bundle/verified-bundles.ts'
import { openRuntime } from './capi.ts'
import {
  cpuProvider,
  failureOf,
  type Provider,
  type ProviderWish,
  packagedPlugin,
  providerOf,
  shortNameOf,
  webGpu,
} from './provider.ts'
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
 * otherwise the CPU. It tries fp16 first where the parts are not in fp32. A provider by name is taken as it is.
 * @throws BrimError USAGE, RUNTIME_UNAVAILABLE; the signal's reason
 */
export async function chooseProvider(request: ChoiceRequest): Promise<Computing> {
  const { wish, library } = request
  if (wish.name !== 'auto') return computing(providerOf(wish), 'asked for')
  const { provider, reason, machine } = await findGpu(wish, library)
  if (!provider) return computing(cpuProvider, reason)
  const isExact = request.parts.some((part) => formatOf(request.manifest, part).name === 'fp32')
  return tried(request, { ...provider, compute: wish.compute ?? (isExact ? 'fp32' : 'fp16') }, machine)
}

/** A failure of what `auto` has chosen: the CPU computes. */
export const afterFailure = ({ provider }: Computing, error: unknown): Computing =>
  failed(provider, `passed its trial, and failed later: ${failureOf(error)}`)

/** The CPU computes until the next start. */
export const afterLoss = ({ provider }: Computing, error: unknown): Computing =>
  failed(provider, `was lost, until the next start: ${failureOf(error)}`)

interface FoundGpu {
  /** What `auto` tries; undefined: nothing. */
  readonly provider: Provider | undefined
  /** Why it is this, or nothing. */
  readonly reason: string
  /** Paths of the manifests of drivers. */
  readonly drivers: readonly string[]
  /** What a trial depends on beside the bundle. */
  readonly machine: readonly string[]
}

/** Looks for a GPU without starting it. @throws BrimError RUNTIME_UNAVAILABLE */
export async function findGpu(wish: ProviderWish, library: string | undefined): Promise<FoundGpu> {
  const found = driversOf(wish.driverFiles)
  const drivers = found.map(({ file }) => file)
  const none = (reason: string) => ({ provider: undefined, reason, drivers, machine: [] })
  if (found.length === 0) return none('no GPU driver was found (Vulkan)')
  const runtime = await openRuntime({ library })
  const { info } = runtime
  await runtime.close()
  const offered = info.providers.includes(webGpu)
  const plugin = wish.plugin ?? (offered ? undefined : packagedPlugin())
  if (!offered && plugin === undefined)
    return none(`ONNX Runtime ${info.version} has no provider for GPUs, and no plug-in was found`)
  const reason = plugin === undefined ? `built into ONNX Runtime ${info.version}` : `plug-in ${plugin}`
  const machine = [info.version, info.library, ...found.map(({ file, version }) => `${file}:${version}`)]
  return { provider: { name: webGpu, plugin, options: wish.options }, reason, drivers, machine }
}

async function tried(request: ChoiceRequest, provider: Provider, machine: readonly string[]): Promise<Computing> {
  const { folder, manifest, parts, threads, library, verified, signal } = request
  const place = createHash('sha256')
    .update(JSON.stringify([manifest.modelId, manifest.files, parts, threads, provider, machine, arch(), cpus()[0]?.model]))
    .digest('hex')
  const reply = verified.trialOf(place) ?? (await tryProvider({ folder, parts, threads, library, provider }, signal))
  const name = shortNameOf(provider.name)
  if (reply.kind === 'not tried') return computing(cpuProvider, `${name} was not tried: ${reply.reason}`)
  verified.recordTrial(place, reply)
  if (reply.kind === 'failed' && provider.compute === 'fp16' && request.wish.compute !== 'fp16')
    return tried(request, { ...provider, compute: 'fp32' }, machine)
  if (reply.kind === 'failed') return failed(provider, `failed its trial: ${reply.reason}`)
  const { seconds } = reply
  const gain = seconds.cpu / seconds.provider
  if (gain < 1) return computing(cpuProvider, `${name} was measured as ${(1 / gain).toFixed(1)} times slower`)
  if (gain < minGain) return computing(cpuProvider, `${name} was measured as only ${gain.toFixed(2)} times faster`)
  return computing(provider, `measured as ${gain.toFixed(1)} times faster than the CPU`)
}

const computing = (provider: Provider, reason: string): Computing => ({
  provider,
  shown: ShownComputing.parse({
    provider: shortNameOf(provider.name),
    reason: provider.compute === 'fp16' ? `${reason}, in fp16` : reason,
  }),
})

const failed = ({ name }: Provider, what: string): Computing => {
  const { provider, shown } = computing(cpuProvider, `${shortNameOf(name)} ${what}`)
  return { provider, shown: { ...shown, failed: true } }
}

/** The manifests of Vulkan's drivers, with what changes when they do. macOS has Metal. */
function driversOf(named: string | undefined): { readonly file: string; readonly version: string }[] {
  if (process.platform === 'darwin') return [{ file: 'metal', version: '' }]
  const files = named !== undefined ? named.split(':') : icdFolders.flatMap(manifestsIn)
  return files.flatMap((file) => {
    const found = statSync(file, { throwIfNoEntry: false })
    return found ? [{ file, version: `${found.size}:${found.mtimeMs}:${kernelDriver()}` }] : []
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
