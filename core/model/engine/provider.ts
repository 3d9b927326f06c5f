import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../kit/base/errors.ts'
import { projectRoot } from '../../kit/base/version.ts'
import { ProviderName } from '../../wire/protocol/computing.ts'

/** An execution provider of ONNX Runtime: what computes the graphs. */
export interface Provider {
  /** As the library names it, such as WebGpuExecutionProvider. */
  readonly name: string
  /** Path of its plug-in, where the library has none of its own. */
  readonly plugin?: string | undefined
  /** Its own settings, each as name=value. */
  readonly options?: readonly string[] | undefined
  /**
   * What it computes in; undefined: fp32. With it, the CPU computes as a device does: with the same graphs, more slowly than with
   * its own.
   */
  readonly compute?: 'fp32' | 'fp16' | undefined
}

/** What is to compute, as a user says it: `name` is `auto`, a short name, or a name of the library. */
export interface ProviderWish extends Provider {
  /** Manifests of Vulkan's drivers, separated by colons. Default: those of the system. */
  readonly driverFiles?: string | undefined
}

export const cpuProvider: Provider = { name: 'CPUExecutionProvider' }

export const webGpu = 'WebGpuExecutionProvider'

/** Whether its memory is for weights and KV, and its graphs are those of a device. */
export const hasDeviceMemory = ({ name, compute }: Provider): boolean => name !== cpuProvider.name || compute !== undefined

/** By short name. */
const longNames: Readonly<Record<string, string>> = {
  cpu: cpuProvider.name,
  webgpu: webGpu,
  cuda: 'CUDAExecutionProvider',
}

/** The provider of a wish that is not `auto`. @throws BrimError USAGE */
export function providerOf({ name: asked, plugin, options, compute }: ProviderWish): Provider {
  const { error } = ProviderName.safeParse(asked)
  if (error) throw new BrimError('USAGE', `--provider ${asked}: ${error.issues[0]?.message}`)
  const stray = options?.find((option) => option.indexOf('=') < 1)
  if (stray !== undefined)
    throw new BrimError('USAGE', `the provider option ${stray} is not of the form name=value`, {
      hint: "the names are those of the provider, in ONNX Runtime's documentation",
    })
  const name = longNames[asked] ?? asked
  // A setting of GPUs: a CPU that computes as a device does is for tests.
  if (name === cpuProvider.name) return cpuProvider
  return {
    name,
    plugin: plugin ?? (name === webGpu ? packagedPlugin() : undefined),
    options,
    compute: compute ?? (name === longNames.cuda ? 'fp16' : undefined),
  }
}

/** The plug-in for WebGPU in Brim's own package, which has one where ONNX Runtime has no such provider built in. */
export function packagedPlugin(): string | undefined {
  const path = fileURLToPath(new URL('lib/libonnxruntime_providers_webgpu.so', projectRoot))
  return existsSync(path) ? path : undefined
}

/** As users say it. */
export const shortNameOf = (name: string): string => Object.entries(longNames).find(([, long]) => long === name)?.[0] ?? name

/** The drivers that the environment names. */
export const withDrivers = <Wish extends ProviderWish>(wish: Wish, env: Readonly<Record<string, string | undefined>>): Wish => ({
  ...wish,
  driverFiles: env.VK_DRIVER_FILES ?? env.VK_ICD_FILENAMES,
})

/** Why a provider failed: the message, and that of the innermost cause. */
export function failureOf(error: unknown): string {
  const causes: string[] = []
  for (let at = error; at instanceof Error; at = at.cause) causes.push(at.message.split('\n')[0]!)
  return causes.length > 1 ? `${causes[0]}: ${causes.at(-1)}` : (causes[0] ?? String(error))
}
