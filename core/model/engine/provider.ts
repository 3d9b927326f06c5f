/** An execution provider of ONNX Runtime: what computes the graphs. */
export interface Provider {
  /** As the library names it, such as WebGpuExecutionProvider. */
  readonly name: string
  /** Path of its plug-in, where the library has none of its own. */
  readonly plugin?: string | undefined
  /** Its own options, as text. */
  readonly options?: Readonly<Record<string, string>> | undefined
}

export const cpuProvider: Provider = { name: 'CPUExecutionProvider' }
