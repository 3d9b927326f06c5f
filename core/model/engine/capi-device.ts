import type { OrtApi, Pointer } from './capi-library.ts'
import { check, createPointer } from './capi-status.ts'
import { CapiTensor } from './capi-tensor.ts'
import type { DeviceMemory, Tensor, TensorType } from './runtime.ts'
import { SerialQueue } from './serial-queue.ts'

/**
 * The provider has one context in a process, which two threads must not use at a time: not even two runtimes. So calls to it
 * wait for each other.
 */
const calls = new SerialQueue()

/** Runs a call to a device after those before it. */
export const onDevice = <Result>(call: () => Promise<Result>): Promise<Result> => calls.run(call)

/** Memory of an execution provider, allocated by one of its engine sessions. */
export class CapiDevice implements DeviceMemory {
  readonly #api: OrtApi
  readonly #env: Pointer
  /** Of the engine session, which lives as long as this. */
  readonly #memoryInfo: Pointer
  readonly #allocator: Pointer

  /** @param session any engine session of the provider that reads its first input from there */
  constructor(api: OrtApi, env: Pointer, session: Pointer) {
    const what = 'opening the memory of a device'
    this.#api = api
    this.#env = env
    this.#memoryInfo = createPointer(api, what, (out) => api.devices?.inputMemory(session, out, 1) ?? null)
    this.#allocator = createPointer(api, what, (out) => api.createAllocator(session, this.#memoryInfo, out))
  }

  allocate(type: TensorType, dims: readonly number[]): Promise<Tensor> {
    return onDevice(async () => CapiTensor.onDevice(this.#api, this.#memoryInfo, this.#allocator, type, dims))
  }

  free(tensors: readonly Tensor[]): Promise<void> {
    return onDevice(async () => {
      for (const tensor of tensors) tensor.release()
    })
  }

  copy(pairs: readonly (readonly [from: Tensor, to: Tensor])[]): Promise<void> {
    return onDevice(async () => {
      const sources = BigUint64Array.from(pairs, ([from]) => CapiTensor.handleOf(from))
      const targets = BigUint64Array.from(pairs, ([, to]) => CapiTensor.handleOf(to))
      const status = await new Promise<Pointer | null>((resolve, reject) => {
        const done = (error: unknown, result: Pointer | null) => (error ? reject(error) : resolve(result))
        if (this.#api.devices) this.#api.devices.copy.async(this.#env, sources, targets, null, pairs.length, done)
        else resolve(null)
      })
      check(this.#api, status, 'copying between memories')
    })
  }

  release(): Promise<void> {
    return onDevice(async () => this.#api.releaseAllocator(this.#allocator))
  }
}
