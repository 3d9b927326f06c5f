import { BrimError } from '../../kit/base/errors.ts'

/** An execution provider of ONNX Runtime: what computes the graphs. */
export interface Provider {
  /** As the library names it, such as WebGpuExecutionProvider. */
  readonly name: string
  /** Path of its plug-in, where the library has none of its own. */
  readonly plugin?: string | undefined
  /** Its own settings, each as name=value. */
  readonly options?: readonly string[] | undefined
}

/** What is to compute, as a user says it: `name` is `auto`, a short name, or a name of the library. */
export interface ProviderWish extends Provider {
  /** Manifests of Vulkan's drivers, separated by colons. Default: those of the system. */
  readonly driverFiles?: string | undefined
}

export const cpuProvider: Provider = { name: 'CPUExecutionProvider' }

/** By short name. */
const longNames: Readonly<Record<string, string>> = {
  cpu: cpuProvider.name,
  webgpu: 'WebGpuExecutionProvider',
  cuda: 'CUDAExecutionProvider',
}

/** The provider of a wish that is not `auto`. @throws BrimError USAGE */
export function providerOf({ name: asked, plugin, options }: ProviderWish): Provider {
  const name = longNames[asked] ?? asked
  if (!/^\w+ExecutionProvider$/.test(name))
    throw new BrimError('USAGE', `--provider ${asked} is none of auto, ${Object.keys(longNames).join(', ')}`, {
      hint: 'or give the name of a provider of ONNX Runtime, such as QNNExecutionProvider',
    })
  return { name, plugin, options }
}

/** As users say it. */
export const shortNameOf = (name: string): string => Object.entries(longNames).find(([, long]) => long === name)?.[0] ?? name

/** The drivers that the environment names. */
export const withDrivers = <Wish extends ProviderWish>(wish: Wish, env: Readonly<Record<string, string | undefined>>): Wish => ({
  ...wish,
  driverFiles: env.VK_DRIVER_FILES ?? env.VK_ICD_FILENAMES,
})
