import koffi from 'koffi'
import { BrimError } from '../../kit/base/errors.ts'
import type { OrtApi, Pointer } from './capi-library.ts'
import { called, check, createPointer } from './capi-status.ts'
import { CapiTensor, tensorBytes } from './capi-tensor.ts'
import { cpuProvider, type Provider } from './provider.ts'
import type { DeviceMemory, Tensor, TensorType } from './runtime.ts'
import { SerialQueue } from './serial-queue.ts'

/**
 * The provider has one context in a process, which two threads must not use at a time: not even two runtimes. So calls to it
 * wait for each other.
 */
const calls = new SerialQueue()

/** Runs a call to a device after those before it. */
export const onDevice = <Result>(call: () => Promise<Result>): Promise<Result> => calls.run(call)

/** Floats count to it without gaps. */
const maxMark = 2 ** 24

/** Memory of an execution provider, allocated by one of its engine sessions. */
export class CapiDevice implements DeviceMemory {
  readonly type: DeviceMemory['type']
  maxRows: number | undefined
  readonly #api: OrtApi
  readonly #isCpu: boolean
  readonly #env: Pointer
  /** Of the engine session, which lives as long as this. */
  readonly #memoryInfo: Pointer
  readonly #allocator: Pointer
  /** Of this process. */
  readonly #hostInfo: Pointer
  #isReleased = false
  #checks = 0

  /**
   * @param session any engine session of the provider that reads its first input from there
   * @param hostInfo describes the memory of this process
   */
  constructor(api: OrtApi, env: Pointer, session: Pointer, hostInfo: Pointer, { name, compute }: Provider) {
    this.type = compute === 'fp16' ? 'float16' : 'float32'
    this.#isCpu = name === cpuProvider.name
    const what = 'opening the memory of a device'
    this.#api = api
    this.#env = env
    this.#hostInfo = hostInfo
    this.#memoryInfo = createPointer(api, what, (out) => api.devices?.inputMemory(session, out, 1) ?? null)
    this.#allocator = createPointer(api, what, (out) => api.createAllocator(session, this.#memoryInfo, out))
  }

  allocate(type: TensorType, dims: readonly number[]): Promise<Tensor> {
    return this.#call(async () => CapiTensor.onDevice(this.#api, this.#memoryInfo, this.#allocator, type, dims))
  }

  async check(tensors: readonly Tensor[]): Promise<void> {
    // What memory does not take is not reported, and reads as what was read before.
    const mark = ++this.#checks % maxMark
    const [marks, read] = [new Float32Array(tensors.length).fill(mark), new Float32Array(tensors.length)]
    const starts = tensors.map((tensor) => CapiTensor.startOf(tensor, this.#memoryInfo))
    const [from, to] = [this.#each(marks), this.#each(read)]
    try {
      await this.copy(starts.map((start, at) => [from[at]!, start]))
      await this.copy(starts.map((start, at) => [start, to[at]!]))
    } finally {
      for (const tensor of [...starts, ...from, ...to]) tensor.release()
    }
    if (read.every((value) => value === mark)) return
    const sizes = tensors.map(({ type, dims }) => tensorBytes(type, dims))
    throw new BrimError('OUT_OF_MEMORY', `the device gave no memory for ${Math.max(...sizes)} bytes in one piece`, {
      hint: 'use a smaller format (int4) or fewer sequences at a time, or compute on the CPU (--provider cpu)',
    })
  }

  #each(values: Float32Array): CapiTensor[] {
    return Array.from(values, (_, at) => new CapiTensor(this.#api, this.#hostInfo, 'float32', [1], values.subarray(at, at + 1)))
  }

  free(tensors: readonly Tensor[]): Promise<void> {
    return onDevice(async () => {
      for (const tensor of tensors) tensor.release()
    })
  }

  copy(pairs: readonly (readonly [from: Tensor, to: Tensor])[]): Promise<void> {
    return this.#call(async () => {
      if (this.#isCpu) return this.#copyHere(pairs)
      const sources = BigUint64Array.from(pairs, ([from]) => CapiTensor.handleOf(from))
      const targets = BigUint64Array.from(pairs, ([, to]) => CapiTensor.handleOf(to))
      const status = await called((done) => {
        if (this.#api.devices) this.#api.devices.copy.async(this.#env, sources, targets, null, pairs.length, done)
        else done(null, null)
      })
      check(this.#api, status, 'copying between memories')
    })
  }

  /** The library copies between memories, but not within that of the process. */
  #copyHere(pairs: readonly (readonly [from: Tensor, to: Tensor])[]): void {
    const memmove = koffi.load(null).func('memmove', 'void*', ['void*', 'void*', 'size_t'])
    const [from, to] = [new BigUint64Array(1), new BigUint64Array(1)]
    for (const [source, target] of pairs) {
      check(this.#api, this.#api.getTensorData(CapiTensor.handleOf(source), from), 'copying a tensor')
      check(this.#api, this.#api.getTensorData(CapiTensor.handleOf(target), to), 'copying a tensor')
      memmove(to[0], from[0], tensorBytes(source.type, source.dims))
    }
  }

  release(): Promise<void> {
    return onDevice(async () => {
      this.#isReleased = true
      this.#api.releaseAllocator(this.#allocator)
    })
  }

  #call<Result>(call: () => Promise<Result>): Promise<Result> {
    return onDevice(async () => {
      if (this.#isReleased) throw new Error('the memory of a device was used after its release')
      return call()
    })
  }
}
