/** Interface to an inference library. Its only implementation is ONNX Runtime's C API (capi.ts). */
export type TensorType = 'float32' | 'float16' | 'int64' | 'int32' | 'uint8'

export type TensorData = Float32Array | Uint16Array | BigInt64Array | Int32Array | Uint8Array

/** A view of memory that JavaScript or a mapped file owns; the library reads and writes it in place. */
export interface Tensor {
  readonly type: TensorType
  readonly dims: readonly number[]
  /** Undefined for memory outside JavaScript (a mapped weights file). */
  readonly data: TensorData | undefined
  /** Frees the handle, not the memory. Must not be called while a run uses the tensor. */
  release(): void
}

export interface EngineSessionOptions {
  /** Threads within one operator. */
  readonly threads: number
  /** Execution providers in order of preference, e.g. ['CUDAExecutionProvider']; the CPU is always last. */
  readonly providers?: readonly string[]
  /** Weights by initialiser name. Engine sessions with the same map also share prepacked copies. */
  readonly weights?: ReadonlyMap<string, Tensor>
  /** Folder of the graph's external data, for initialisers that are not in `weights`. */
  readonly externalFolder?: string
}

export interface EngineSession {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  /** Runs off the event loop. The caller preallocates all outputs; an output may share the memory of an input (KV). */
  run(inputs: ReadonlyMap<string, Tensor>, outputs: ReadonlyMap<string, Tensor>): Promise<void>
  /** Waits for runs in progress, then frees the engine session. */
  release(): Promise<void>
}

export interface RuntimeInfo {
  readonly library: string
  readonly version: string
  readonly providers: readonly string[]
}

export interface Runtime {
  readonly info: RuntimeInfo
  tensor(type: TensorType, dims: readonly number[], data: TensorData): Tensor
  /** Maps a file for reading. Its tensors use no anonymous memory until the library packs them. */
  mapFile(path: string): MappedFile
  /** @throws BrimError RUNTIME_FAILED, PROVIDER_UNAVAILABLE, OUT_OF_MEMORY */
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
