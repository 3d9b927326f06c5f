import type { DeviceType } from '../bundle/part-graph.ts'

/** Interface to an inference library. Its only implementation is ONNX Runtime's C API (capi.ts). */
export type TensorType = 'float32' | 'float16' | 'int64' | 'int32' | 'uint8'

export type TensorData = Float32Array | Uint16Array | BigInt64Array | Int32Array | Uint8Array

/** A view of memory that JavaScript or a mapped file owns; the library reads and writes it in place. */
export interface Tensor {
  readonly type: TensorType
  readonly dims: readonly number[]
  /** Undefined for memory outside JavaScript: of a mapped weights file, or of a device. */
  readonly data: TensorData | undefined
  /** Frees the handle, not the memory. Must not be called while a run uses the tensor. */
  release(): void
}

export interface EngineSessionOptions {
  /** Threads within one operator. */
  readonly threads: number
  /** Weights by initialiser name. Engine sessions with the same map also share prepacked copies. */
  readonly weights?: ReadonlyMap<string, Tensor>
  /** Folder of the graph's external data, for initialisers that are not in `weights`. */
  readonly externalFolder?: string
}

export interface EngineSession {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  /**
   * Runs off the event loop. The caller preallocates all outputs; an output may share the memory of an input (KV).
   * @param rows that the time of a run depends on: where such runs are short, it may block the event loop. Absent: it never does
   */
  run(inputs: ReadonlyMap<string, Tensor>, outputs: ReadonlyMap<string, Tensor>, rows?: number): Promise<void>
  /** Waits for runs in progress, then frees the engine session. */
  release(): Promise<void>
}

export interface RuntimeInfo {
  readonly library: string
  readonly version: string
  /** Those that the library offers. */
  readonly providers: readonly string[]
  /** The one that computes. */
  readonly provider: string
}

/** Memory of an execution provider that is not the process's. */
export interface DeviceMemory {
  /** Of norm vectors, scales, activations and KV there, and of matrices that are not int4. */
  readonly type: DeviceType
  /** Rows of one sequence that it computes right in one step; undefined: any number. */
  readonly maxRows: number | undefined
  /** A tensor with any values. */
  allocate(type: TensorType, dims: readonly number[]): Promise<Tensor>
  /** A driver may give tensors without memory, which shows only when they are written and read: their first four bytes are. @throws BrimError OUT_OF_MEMORY */
  check(tensors: readonly Tensor[]): Promise<void>
  /** After the runs and copies before it. */
  free(tensors: readonly Tensor[]): Promise<void>
  /** Copies whole tensors of equal sizes, each within the device or between it and this process. */
  copy(pairs: readonly (readonly [from: Tensor, to: Tensor])[]): Promise<void>
}

export interface Runtime {
  readonly info: RuntimeInfo
  /** Where weights and KV are to be; undefined: in the memory of this process. */
  readonly device: DeviceMemory | undefined
  tensor(type: TensorType, dims: readonly number[], data: TensorData): Tensor
  /** Maps a file for reading. Its tensors use no anonymous memory until the library packs them. */
  mapFile(path: string): MappedFile
  /** @throws BrimError RUNTIME_FAILED, OUT_OF_MEMORY; PROVIDER_UNAVAILABLE if a part of the graph would run on another provider */
  session(graph: Uint8Array, options: EngineSessionOptions): Promise<EngineSession>
  close(): Promise<void>
}

export interface MappedFile {
  readonly bytes: number
  tensor(type: TensorType, dims: readonly number[], offset: number): Tensor
  /** Gives the file's pages back to the system. A tensor that is read again gets them from the page cache. */
  releasePages(): void
  close(): void
}
