import { BrimError } from '../../kit/base/errors.ts'

/** An execution provider of ONNX Runtime: what computes the graphs. */
export interface Provider {
  /** As the library names it, such as WebGpuExecutionProvider. */
  readonly name: string
  /** Path of its plug-in, where the library has none of its own. */
  readonly plugin?: string | undefined
  /** Its own options, as text. */
  readonly options?: Readonly<Record<string, string>> | undefined
}

/** What is to compute, as a user says it. */
export interface ProviderWish {
  /** `auto`, a short name, or a name of the library. */
  readonly provider: string
  /** As of Provider. */
  readonly plugin?: string | undefined
  readonly options?: Readonly<Record<string, string>> | undefined
}

export const cpuProvider: Provider = { name: 'CPUExecutionProvider' }

/** By short name. */
const longNames: Readonly<Record<string, string>> = {
  cpu: cpuProvider.name,
  webgpu: 'WebGpuExecutionProvider',
  cuda: 'CUDAExecutionProvider',
}

/** The provider of a wish that is not `auto`. @throws BrimError USAGE */
export function providerOf({ provider, plugin, options }: ProviderWish): Provider {
  const name = longNames[provider] ?? provider
  if (!/^\w+ExecutionProvider$/.test(name))
    throw new BrimError('USAGE', `--provider ${provider} is none of auto, ${Object.keys(longNames).join(', ')}`, {
      hint: 'or give the name of a provider of ONNX Runtime, such as QNNExecutionProvider',
    })
  return { name, plugin, options }
}

/** As users say it. */
export const shortNameOf = (name: string): string => Object.entries(longNames).find(([, long]) => long === name)?.[0] ?? name
