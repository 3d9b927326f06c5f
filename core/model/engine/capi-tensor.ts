import type { OrtApi, Pointer } from './capi-library.ts'
import { createPointer } from './capi-status.ts'
import type { Tensor, TensorData, TensorType } from './runtime.ts'

/** Numbers of ONNXTensorElementDataType, and bytes per element. */
const elements: Record<TensorType, { code: number; bytes: number }> = {
  float32: { code: 1, bytes: 4 },
  uint8: { code: 2, bytes: 1 },
  int32: { code: 6, bytes: 4 },
  int64: { code: 7, bytes: 8 },
  float16: { code: 10, bytes: 2 },
}

export const tensorBytes = (type: TensorType, dims: readonly number[]): number =>
  dims.reduce((product, dim) => product * dim, elements[type].bytes)

/** An OrtValue over memory that it does not own, or over memory of a device that goes with it. */
export class CapiTensor implements Tensor {
  readonly type: TensorType
  readonly dims: readonly number[]
  /** Referenced because the library reads and writes it as long as the handle exists. */
  readonly data: TensorData | undefined
  readonly #api: OrtApi
  #handle: Pointer | undefined
  /** The OrtValue that owns the memory of a device: weights are given to engine sessions as values that own nothing. */
  #owner: Pointer | undefined

  /** In the memory of a device, with any values. @param allocator of this memory */
  static onDevice(api: OrtApi, memoryInfo: Pointer, allocator: Pointer, type: TensorType, dims: readonly number[]): CapiTensor {
    const what = `allocating a ${type} tensor [${dims}] on the device`
    const shape = BigInt64Array.from(dims, BigInt)
    const owner = createPointer(api, what, (out) => api.createTensor(allocator, shape, dims.length, elements[type].code, out))
    const memory = createPointer(api, what, (out) => api.getTensorData(owner, out))
    const tensor = new CapiTensor(api, memoryInfo, type, dims, memory)
    tensor.#owner = owner
    return tensor
  }

  /** The first four bytes of a tensor in the memory of a device. */
  static startOf(tensor: Tensor, memoryInfo: Pointer): CapiTensor {
    if (!(tensor instanceof CapiTensor) || tensor.#owner === undefined)
      throw new Error('the tensor is not in the memory of a device')
    const api = tensor.#api
    const memory = createPointer(api, 'reading from the device', (out) => api.getTensorData(tensor.#owner!, out))
    return new CapiTensor(api, memoryInfo, 'float32', [1], memory)
  }

  /** The OrtValue of a tensor of this library. */
  static handleOf(tensor: Tensor): Pointer {
    if (tensor instanceof CapiTensor) return tensor.handle
    throw new Error('the tensor belongs to another runtime')
  }

  constructor(api: OrtApi, memoryInfo: Pointer, type: TensorType, dims: readonly number[], memory: TensorData | Pointer) {
    const needed = tensorBytes(type, dims)
    if (typeof memory !== 'bigint' && memory.byteLength < needed)
      throw new RangeError(`${memory.byteLength} bytes for a ${type} tensor [${dims}], which needs ${needed}`)
    const shape = new BigInt64Array(dims.length)
    for (let axis = 0; axis < dims.length; axis++) shape[axis] = BigInt(dims[axis]!)
    this.#api = api
    this.type = type
    this.dims = dims
    this.data = typeof memory === 'bigint' ? undefined : memory
    this.#handle = createPointer(api, `making a ${type} tensor [${dims}]`, (out) =>
      api.createTensorWithData(memoryInfo, memory, needed, shape, dims.length, elements[type].code, out),
    )
  }

  /** The OrtValue. */
  get handle(): Pointer {
    if (this.#handle === undefined) throw new Error(`a ${this.type} tensor [${this.dims}] was used after its release`)
    return this.#handle
  }

  release(): void {
    if (this.#handle === undefined) return
    this.#api.releaseValue(this.#handle)
    if (this.#owner !== undefined) this.#api.releaseValue(this.#owner)
    this.#handle = undefined
  }
}
