import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import type { OrtApi, OrtLibrary, Pointer } from './capi-library.ts'
import { check, createPointer } from './capi-status.ts'

const cpu = 'CPUExecutionProvider'

/** Names of the library's built-in execution providers and of the plug-in devices that it found. */
export function listProviders({ api }: OrtLibrary, env: Pointer): string[] {
  const builtIn = listBuiltIn(api)
  const plugged = listDevices(api, env).map(({ name }) => name)
  return [...new Set([...builtIn, ...plugged])]
}

/** Adds an execution provider to the options of an engine session. @throws BrimError PROVIDER_UNAVAILABLE */
export function appendProvider({ api, path }: OrtLibrary, env: Pointer, options: Pointer, name: string): void {
  if (name === cpu) return
  const offered = listBuiltIn(api)
  const devices = listDevices(api, env).filter((device) => device.name === name)
  if (!offered.includes(name) && devices.length === 0)
    throw new BrimError('PROVIDER_UNAVAILABLE', `${name} is not in ${path}, which offers ${offered.join(', ')}`, {
      hint: 'set ORT_LIB to a libonnxruntime built with it, or omit the provider to run on the CPU',
    })
  try {
    if (offered.includes(name)) appendBuiltIn(api, options, name)
    else appendDevices(api, env, options, devices)
  } catch (cause) {
    throw new BrimError('PROVIDER_UNAVAILABLE', `${name} of ${path} could not be started`, {
      cause,
      hint: "check that its driver is installed and that its libraries are in that library's folder",
    })
  }
}

interface EpDevice {
  readonly name: string
  readonly pointer: Pointer
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
  if (!api.epDevices) return []
  const [devices, count] = [new BigUint64Array(1), new BigUint64Array(1)]
  check(api, api.epDevices.list(env, devices, count), 'listing devices')
  if (count[0] === 0n) return []
  const pointers: Pointer[] = koffi.decode(devices[0]!, koffi.array('void*', Number(count[0])))
  return pointers.map((pointer) => ({ name: api.epDevices?.name(pointer) ?? '', pointer }))
}

/** CUDA and TensorRT have their own functions; all other providers are added by name. */
function appendBuiltIn(api: OrtApi, options: Pointer, name: string): void {
  const what = `starting ${name}`
  if (name === 'CUDAExecutionProvider') {
    const settings = createPointer(api, what, (out) => api.createCudaOptions(out))
    const status = api.appendCuda(options, settings)
    api.releaseCudaOptions(settings)
    check(api, status, what)
  } else if (name === 'TensorrtExecutionProvider') {
    const settings = createPointer(api, what, (out) => api.createTensorRtOptions(out))
    const status = api.appendTensorRt(options, settings)
    api.releaseTensorRtOptions(settings)
    check(api, status, what)
  } else check(api, api.appendProvider(options, name, null, null, 0), what)
}

function appendDevices(api: OrtApi, env: Pointer, options: Pointer, devices: readonly EpDevice[]): void {
  const pointers = BigUint64Array.from(devices.slice(0, 1), ({ pointer }) => pointer)
  check(api, api.epDevices?.append(options, env, pointers, pointers.length, null, null, 0) ?? null, 'starting a device')
}
