/** The small interface to an inference library. Today one implementation: ONNX Runtime's C API (capi.ts). */
export type TensorType = 'float32' | 'float16' | 'int64' | 'int32' | 'uint8'

export type TensorData = Float32Array | Uint16Array | BigInt64Array | Int32Array | Uint8Array

/** A view of memory that JavaScript or a mapped file owns; the library reads and writes it in place. */
export interface Tensor {
  readonly type: TensorType
  readonly dims: readonly number[]
  /** Absent where the memory is not JavaScript's (a mapped weights file). */
  readonly data: TensorData | undefined
  /** Frees the handle, not the memory. Never while a run uses it. */
  release(): void
}

export interface EngineSessionOptions {
  /** Threads within one operator. */
  readonly threads: number
  /** Execution providers in order of preference, e.g. ['CUDAExecutionProvider']; the CPU is always last. */
  readonly providers?: readonly string[]
  /** Weights by initialiser name. Sessions that are given the same map share prepacked copies too. */
  readonly weights?: ReadonlyMap<string, Tensor>
  /** Where external data of the graph lies, for initialisers that are not in `weights`. */
  readonly externalFolder?: string
}

export interface EngineSession {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  /** Runs off the event loop. All outputs are preallocated by the caller; an output may be the memory of an input (KV). */
  run(inputs: ReadonlyMap<string, Tensor>, outputs: ReadonlyMap<string, Tensor>): Promise<void>
  /** Waits for running steps, then frees. */
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
  /** Maps a file for reading: its tensors cost no anonymous memory until something packs them. */
  mapFile(path: string): MappedFile
  /** @throws BrimError RUNTIME_FAILED, PROVIDER_UNAVAILABLE, OUT_OF_MEMORY */
  session(graph: Uint8Array, options: EngineSessionOptions): Promise<EngineSession>
  close(): Promise<void>
}

export interface MappedFile {
  readonly bytes: number
  tensor(type: TensorType, dims: readonly number[], offset: number): Tensor
  close(): void
}
