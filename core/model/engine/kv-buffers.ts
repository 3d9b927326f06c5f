import type { Tensor } from './runtime.ts'

/** Keys and values of one sequence. On a device the operations are queued: see device-kv.ts. */
export interface KvBuffers {
  /** Positions. */
  readonly capacity: number
  /** Of the capacity. */
  readonly bytes: number
  /** Per layer, [1, kvHeads, positions, headDim], for the inputs and outputs of a step. */
  readonly keys: readonly Tensor[]
  readonly values: readonly Tensor[]
  /** Why the rows are lost. */
  readonly failure?: unknown
  /** Copies the first `rows` positions of `from`, which is of the same pool. */
  copyRows(from: KvBuffers, rows: number): void
  /** Moves position `rows[i]` to position `at + i`. */
  gatherRows(at: number, rows: readonly number[]): void
  /** Copies positions [from, to) to `into`. */
  readRows(from: number, to: number, into: Float32Array): Promise<void>
  /** Writes positions [from, to), which are as `readRows` gives them. */
  writeRows(from: number, to: number, rows: Float32Array): void
  /** @returns on a device, when it is done, whether the memory can be used again */
  zero(): undefined | Promise<boolean>
  /** Gives the pages of zeroed memory back to the system, until it is used again. @returns whether the system takes them */
  releasePages(): boolean
  release(): void
}
