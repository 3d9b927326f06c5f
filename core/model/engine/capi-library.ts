import { existsSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import { enlargeStacks } from '../../kit/base/native-stacks.ts'

/** An address in the library's memory; null is NULL. */
export type Pointer = bigint
type MaybePointer = Pointer | null
/** Memory that the library reads or writes during a call; the caller keeps it alive. */
type Memory = ArrayBufferView | Pointer | null
type Call<Arguments extends unknown[], Result> = ((...args: Arguments) => Result) & {
  async(...args: [...Arguments, (error: unknown, result: Result) => void]): void
}

/** Creates a typed function for a slot of the API table. */
type Define = <Arguments extends unknown[], Result>(
  slot: number,
  result: string,
  args: readonly string[],
) => Call<Arguments, Result>

/** The part of OrtApi that Brim uses. A function that returns a status returns null on success. */
export type OrtApi = ReturnType<typeof defineApi>

export interface OrtLibrary {
  readonly path: string
  readonly version: string
  readonly api: OrtApi
}

/** The first minor version of ONNX Runtime that reads opset 21 with IR 10. */
const minMinor = 18
/** The first minor version with plug-in execution providers and functions for the memory of devices. */
const memoryMinor = 23

/** Path of the library in onnxruntime-node for this platform. @throws BrimError RUNTIME_UNAVAILABLE */
export function bundledLibrary(): string {
  const root = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'))
  const name = process.platform === 'darwin' ? 'libonnxruntime.1.dylib' : 'libonnxruntime.so.1'
  const path = join(root, 'bin', 'napi-v6', process.platform, process.arch, name)
  if (existsSync(path)) return path
  throw new BrimError('RUNTIME_UNAVAILABLE', `onnxruntime-node has no library for ${process.platform} ${process.arch}`, {
    hint: 'set ORT_LIB to the path of a libonnxruntime for this machine',
  })
}

/** Loads ONNX Runtime and looks up its functions. @throws BrimError RUNTIME_UNAVAILABLE */
export function loadLibrary(path: string): OrtLibrary {
  try {
    enlargeStacks(koffi)
    disableTelemetry()
    const handle = koffi.load(path)
    const [getApi, getVersion] = koffi.decode(handle.func('OrtGetApiBase', 'void*', [])(), koffi.array('void*', 2))
    const version: string = koffi.decode(getVersion, koffi.proto('const char*', []))()
    const minor = Number(version.split('.')[1])
    if (!(minor >= minMinor)) throw new Error(`it is ONNX Runtime ${version}; 1.${minMinor} or newer is needed`)
    const table: MaybePointer = koffi.decode(getApi, koffi.proto('void*', ['uint32_t']))(minor)
    if (table === null) throw new Error(`ONNX Runtime ${version} does not provide API version ${minor}`)
    const slots: Pointer[] = koffi.decode(table, koffi.array('void*', minor >= memoryMinor ? 387 : 217))
    const define: Define = (slot, result, args) => koffi.decode(slots[slot], koffi.proto(result, [...args]))
    return { path: realpathSync(path), version, api: defineApi(handle, define, minor >= memoryMinor) }
  } catch (cause) {
    throw new BrimError('RUNTIME_UNAVAILABLE', `ONNX Runtime could not be loaded from ${path}`, {
      cause,
      hint: `set ORT_LIB to a libonnxruntime 1.${minMinor} or newer for this platform, or unset it to use the one of onnxruntime-node`,
    })
  }
}

/**
 * Since 1.29 the official libraries for Linux and macOS send usage data to Microsoft unless this variable is set before the
 * first call. It is set in C, because the environment of a worker thread is a copy that the library does not see.
 */
function disableTelemetry(): void {
  const setenv = koffi.load(null).func('setenv', 'int', ['const char*', 'const char*', 'int'])
  setenv('ORT_DISABLE_TELEMETRY', '1', 1)
}

/** Slot numbers follow the OrtApi structure in onnxruntime_c_api.h, which only grows at its end. */
function defineApi(handle: unknown, define: Define, hasDevices: boolean) {
  const status = 'void*'
  /** Providers of NVIDIA's, which have options of their own. */
  const nvidia = (slots: Record<'append' | 'create' | 'update' | 'release', number>) => ({
    append: define<[Pointer, Pointer], MaybePointer>(slots.append, status, ['void*', 'void*']),
    createOptions: define<[Memory], MaybePointer>(slots.create, status, ['void*']),
    /** (options, option keys, option values, count) */
    updateOptions: define<[Pointer, Memory, Memory, number], MaybePointer>(slots.update, status, [
      'void*',
      'void*',
      'void*',
      'size_t',
    ]),
    releaseOptions: define<[Pointer], void>(slots.release, 'void', ['void*']),
  })
  return {
    /** koffi unloads a library without references, so the API keeps one. */
    handle,
    getErrorCode: define<[Pointer], number>(1, 'int', ['void*']),
    getErrorMessage: define<[Pointer], string>(2, 'const char*', ['void*']),
    createEnv: define<[number, string, Memory], MaybePointer>(3, status, ['int', 'const char*', 'void*']),
    createSessionFromArray: define<[Pointer, Memory, number, Pointer, Memory], MaybePointer>(8, status, [
      'void*',
      'void*',
      'size_t',
      'void*',
      'void*',
    ]),
    /** (session, run options, input names, inputs, count, output names, count, outputs) */
    run: define<[Pointer, null, Memory, Memory, number, Memory, number, Memory], MaybePointer>(9, status, [
      'void*',
      'void*',
      'void*',
      'void*',
      'size_t',
      'void*',
      'size_t',
      'void*',
    ]),
    createSessionOptions: define<[Memory], MaybePointer>(10, status, ['void*']),
    enableProfiling: define<[Pointer, string], MaybePointer>(14, status, ['void*', 'const char*']),
    setIntraOpNumThreads: define<[Pointer, number], MaybePointer>(24, status, ['void*', 'int']),
    setInterOpNumThreads: define<[Pointer, number], MaybePointer>(25, status, ['void*', 'int']),
    sessionGetInputCount: define<[Pointer, Memory], MaybePointer>(30, status, ['void*', 'void*']),
    sessionGetOutputCount: define<[Pointer, Memory], MaybePointer>(31, status, ['void*', 'void*']),
    /** (session, index, allocator, out) */
    sessionGetInputName: define<[Pointer, number, Pointer, Memory], MaybePointer>(36, status, [
      'void*',
      'size_t',
      'void*',
      'void*',
    ]),
    sessionGetOutputName: define<[Pointer, number, Pointer, Memory], MaybePointer>(37, status, [
      'void*',
      'size_t',
      'void*',
      'void*',
    ]),
    /** (allocator, shape, rank, element type, out) */
    createTensor: define<[Pointer, Memory, number, number, Memory], MaybePointer>(48, status, [
      'void*',
      'void*',
      'size_t',
      'int',
      'void*',
    ]),
    /** (memory info, data, bytes, shape, rank, element type, out) */
    createTensorWithData: define<[Pointer, Memory, number, Memory, number, number, Memory], MaybePointer>(49, status, [
      'void*',
      'void*',
      'size_t',
      'void*',
      'size_t',
      'int',
      'void*',
    ]),
    /** (value, out) */
    getTensorData: define<[Pointer, Memory], MaybePointer>(51, status, ['void*', 'void*']),
    createCpuMemoryInfo: define<[number, number, Memory], MaybePointer>(69, status, ['int', 'int', 'void*']),
    allocatorFree: define<[Pointer, Pointer], MaybePointer>(76, status, ['void*', 'void*']),
    getAllocatorWithDefaultOptions: define<[Memory], MaybePointer>(78, status, ['void*']),
    releaseEnv: define<[Pointer], void>(92, 'void', ['void*']),
    releaseStatus: define<[Pointer], void>(93, 'void', ['void*']),
    releaseMemoryInfo: define<[Pointer], void>(94, 'void', ['void*']),
    releaseSession: define<[Pointer], void>(95, 'void', ['void*']),
    releaseValue: define<[Pointer], void>(96, 'void', ['void*']),
    releaseSessionOptions: define<[Pointer], void>(100, 'void', ['void*']),
    getAvailableProviders: define<[Memory, Memory], MaybePointer>(125, status, ['void*', 'void*']),
    releaseAvailableProviders: define<[Pointer, number], MaybePointer>(126, status, ['void*', 'int']),
    addSessionConfigEntry: define<[Pointer, string, string], MaybePointer>(130, status, ['void*', 'const char*', 'const char*']),
    /** (session, memory info, out) */
    createAllocator: define<[Pointer, Pointer, Memory], MaybePointer>(131, status, ['void*', 'void*', 'void*']),
    releaseAllocator: define<[Pointer], void>(132, 'void', ['void*']),
    addInitializer: define<[Pointer, string, Pointer], MaybePointer>(150, status, ['void*', 'const char*', 'void*']),
    createPrepackedWeightsContainer: define<[Memory], MaybePointer>(166, status, ['void*']),
    releasePrepackedWeightsContainer: define<[Pointer], void>(167, 'void', ['void*']),
    /** (env, graph, bytes, session options, container, out) */
    createSessionFromArrayWithPrepackedWeights: define<[Pointer, Memory, number, Pointer, Pointer, Memory], MaybePointer>(
      169,
      status,
      ['void*', 'void*', 'size_t', 'void*', 'void*', 'void*'],
    ),
    tensorRt: nvidia({ append: 170, create: 171, update: 172, release: 174 }),
    cuda: nvidia({ append: 204, create: 205, update: 206, release: 208 }),
    /** (session options, name, option keys, option values, count) */
    appendProvider: define<[Pointer, string, Memory, Memory, number], MaybePointer>(216, status, [
      'void*',
      'const char*',
      'void*',
      'void*',
      'size_t',
    ]),
    devices: hasDevices
      ? {
          /** (env, name, path) */
          register: define<[Pointer, string, string], MaybePointer>(301, status, ['void*', 'const char*', 'const char*']),
          /** (env, out array of devices, out count) */
          list: define<[Pointer, Memory, Memory], MaybePointer>(303, status, ['void*', 'void*', 'void*']),
          /** (session options, env, devices, count, option keys, option values, count) */
          append: define<[Pointer, Pointer, Memory, number, Memory, Memory, number], MaybePointer>(304, status, [
            'void*',
            'void*',
            'void*',
            'size_t',
            'void*',
            'void*',
            'size_t',
          ]),
          name: define<[Pointer], string>(312, 'const char*', ['void*']),
          /** (session, out memory infos, number of inputs) */
          inputMemory: define<[Pointer, Memory, number], MaybePointer>(380, status, ['void*', 'void*', 'size_t']),
          /** (env, sources, targets, stream, count) */
          copy: define<[Pointer, Memory, Memory, null, number], MaybePointer>(386, status, [
            'void*',
            'void*',
            'void*',
            'void*',
            'size_t',
          ]),
        }
      : undefined,
  }
}
