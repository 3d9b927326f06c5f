import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import type { OrtApi, OrtLibrary, Pointer } from './capi-library.ts'
import { check, createPointer } from './capi-status.ts'
import { CStrings, keepAlive } from './capi-strings.ts'
import { cpuProvider, type Provider } from './provider.ts'

/** Names of the library's built-in execution providers and of the plug-in devices that it found. */
export function listProviders({ api }: OrtLibrary, env: Pointer): string[] {
  const builtIn = listBuiltIn(api)
  const plugged = listDevices(api, env).map(({ name }) => name)
  return [...new Set([...builtIn, ...plugged])]
}

/** Adds an execution provider to the options of an engine session. @throws BrimError PROVIDER_UNAVAILABLE */
export function appendProvider(library: OrtLibrary, env: Pointer, options: Pointer, provider: Provider): void {
  const { name } = provider
  if (name === cpuProvider.name) return
  try {
    registerPlugin(library, env, provider)
    const device = listDevices(library.api, env).find((one) => one.name === name)
    // A plug-in that was asked for goes before a built-in provider of its name.
    if (device && (provider.plugin !== undefined || !listBuiltIn(library.api).includes(name)))
      appendDevice(library.api, env, options, device, provider)
    else appendBuiltIn(library, options, provider)
  } catch (cause) {
    if (cause instanceof BrimError && cause.code === 'PROVIDER_UNAVAILABLE') throw cause
    throw providerFailed(library, provider, cause)
  }
}

/** The provider is there, but does not start on this machine. @param cause what the library says is its cause */
export const providerFailed = ({ path }: OrtLibrary, { name, plugin = path }: Provider, cause: unknown) =>
  new BrimError('PROVIDER_UNAVAILABLE', `${name} of ${plugin} could not be started`, {
    cause: (cause instanceof Error && cause.cause) || cause,
    hint: "check that its driver is installed and that its libraries are in that library's folder",
  })

interface EpDevice {
  readonly name: string
  readonly pointer: Pointer
}

/** Loads the provider's plug-in, unless another runtime of this process has. */
function registerPlugin({ api, version }: OrtLibrary, env: Pointer, { name, plugin }: Provider): void {
  if (plugin === undefined || listDevices(api, env).some((device) => device.name === name)) return
  if (!api.devices)
    throw new BrimError('PROVIDER_UNAVAILABLE', `ONNX Runtime ${version} loads no plug-ins`, {
      hint: 'unset ORT_LIB, or set it to ONNX Runtime 1.24 or newer',
    })
  check(api, api.devices.register(env, plugin, plugin), `loading ${plugin}`)
}

function listBuiltIn(api: OrtApi): string[] {
  const [names, count] = [new BigUint64Array(1), new Int32Array(1)]
  check(api, api.getAvailableProviders(names, count), 'listing execution providers')
  const pointers: Pointer[] = koffi.decode(names[0]!, koffi.array('void*', count[0]!))
  const list = pointers.map((pointer) => koffi.decode.string(pointer))
  check(api, api.releaseAvailableProviders(names[0]!, count[0]!), 'listing execution providers')
  return list
}

function listDevices(api: OrtApi, env: Pointer): EpDevice[] {
  if (!api.devices) return []
  const [devices, count] = [new BigUint64Array(1), new BigUint64Array(1)]
  check(api, api.devices.list(env, devices, count), 'listing devices')
  if (count[0] === 0n) return []
  const pointers: Pointer[] = koffi.decode(devices[0]!, koffi.array('void*', Number(count[0])))
  return pointers.map((pointer) => ({ name: api.devices?.name(pointer) ?? '', pointer }))
}

/** CUDA and TensorRT have their own functions; all other providers are added by name. */
function appendBuiltIn({ api, path }: OrtLibrary, options: Pointer, { name, options: own = [] }: Provider): void {
  const what = `starting ${name}`
  const offered = listBuiltIn(api)
  if (!offered.includes(name))
    throw new BrimError('PROVIDER_UNAVAILABLE', `${name} is not in ${path}, which offers ${offered.join(', ')}`, {
      hint: 'name the plug-in that has it, set ORT_LIB to a libonnxruntime built with it, or compute on the CPU',
    })
  const nvidia = name === 'CUDAExecutionProvider' ? api.cuda : name === 'TensorrtExecutionProvider' ? api.tensorRt : undefined
  if (!nvidia) {
    withOptions(own, (...given) => check(api, api.appendProvider(options, name, ...given), what))
    return
  }
  const settings = createPointer(api, what, (out) => nvidia.createOptions(out))
  try {
    withOptions(own, (...given) => check(api, nvidia.updateOptions(settings, ...given), what))
    check(api, nvidia.append(options, settings), what)
  } finally {
    nvidia.releaseOptions(settings)
  }
}

function appendDevice(api: OrtApi, env: Pointer, options: Pointer, { pointer }: EpDevice, { options: own = [] }: Provider): void {
  const devices = BigUint64Array.of(pointer)
  withOptions(own, (keys, values, count) =>
    check(api, api.devices?.append(options, env, devices, 1, keys, values, count) ?? null, 'starting a device'),
  )
}

/** @param options each as name=value */
function withOptions(
  options: readonly string[],
  call: (keys: BigUint64Array, values: BigUint64Array, count: number) => void,
): void {
  const pairs = options.map((option) => [option, option.indexOf('=')] as const)
  const keys = new CStrings(pairs.map(([option, at]) => option.slice(0, at)))
  const values = new CStrings(pairs.map(([option, at]) => option.slice(at + 1)))
  call(keys.pointers, values.pointers, pairs.length)
  keepAlive(keys, values)
}
