import { orThrow } from '../../kit/base/errors.ts'
import { uncountedFloats } from '../../kit/base/uncounted-memory.ts'
import { type KvShape, rowValuesOf } from '../bundle/kv-shape.ts'
import type { KvBuffers } from './kv-buffers.ts'
import { maxPadRows } from './part-packing.ts'
import type { ReleasePages } from './resident-memory.ts'
import type { Runtime, Tensor } from './runtime.ts'

/** KV in the memory of this process, in one block: keys then values per layer, each [1, kvHeads, capacity + spare, headDim]. */
export class HostKv implements KvBuffers {
  readonly capacity: number
  readonly keys: readonly Tensor[]
  readonly values: readonly Tensor[]
  readonly #data: Float32Array
  readonly #shape: KvShape
  readonly #releasePages: ReleasePages

  /**
   * Zeroed.
   * @param isKept V8 need not count the memory, as garbage that it does not know of is never collected for its sake
   * @throws BrimError OUT_OF_MEMORY
   */
  constructor(runtime: Runtime, shape: KvShape, capacity: number, isKept: boolean, releasePages: ReleasePages) {
    this.capacity = capacity
    this.#shape = shape
    this.#releasePages = releasePages
    const { layers, kvHeads, headDim } = shape
    const positions = capacity + maxPadRows
    this.#data = allocate(positions * rowValuesOf(shape), isKept)
    const dims = [1, kvHeads, positions, headDim]
    const size = kvHeads * positions * headDim
    const tensorAt = (index: number) => runtime.tensor('float32', dims, this.#data.subarray(index * size, (index + 1) * size))
    this.keys = Array.from({ length: layers }, (_, layer) => tensorAt(2 * layer))
    this.values = Array.from({ length: layers }, (_, layer) => tensorAt(2 * layer + 1))
  }

  /** Bytes of the capacity, without the spare positions. */
  get bytes(): number {
    return this.capacity * rowValuesOf(this.#shape) * this.#data.BYTES_PER_ELEMENT
  }

  copyRows(from: KvBuffers, rows: number): void {
    if (!(from instanceof HostKv)) throw new Error('KV of another pool')
    this.#eachPlane((start, plane) => {
      const source = plane * from.#planeSize
      this.#data.set(from.#data.subarray(source, source + rows * this.#shape.headDim), start)
    })
  }

  gatherRows(at: number, rows: readonly number[]): void {
    const width = this.#shape.headDim
    const picked = new Float32Array(rows.length * width)
    this.#eachPlane((start) => {
      rows.forEach((row, i) => {
        picked.set(this.#data.subarray(start + row * width, start + (row + 1) * width), i * width)
      })
      this.#data.set(picked, start + at * width)
    })
  }

  async readRows(from: number, to: number, into: Float32Array): Promise<void> {
    this.#eachPlane((start, plane) => {
      into.set(this.#rowsOf(start, from, to), plane * (to - from) * this.#shape.headDim)
    })
  }

  writeRows(from: number, to: number, rows: Float32Array): void {
    const size = (to - from) * this.#shape.headDim
    this.#eachPlane((start, plane) => {
      this.#rowsOf(start, from, to).set(rows.subarray(plane * size, (plane + 1) * size))
    })
  }

  zero(): undefined {
    this.#data.fill(0)
  }

  releasePages(): boolean {
    return this.#releasePages(this.#data)
  }

  release(): void {
    for (const tensor of [...this.keys, ...this.values]) tensor.release()
  }

  #rowsOf(start: number, from: number, to: number): Float32Array {
    const width = this.#shape.headDim
    return this.#data.subarray(start + from * width, start + to * width)
  }

  get #planeSize(): number {
    return (this.capacity + maxPadRows) * this.#shape.headDim
  }

  /** A plane: keys or values of one head of one layer, [capacity + spare, headDim]. */
  #eachPlane(visit: (start: number, plane: number) => void): void {
    const planes = 2 * this.#shape.layers * this.#shape.kvHeads
    for (let plane = 0; plane < planes; plane++) visit(plane * this.#planeSize, plane)
  }
}

function allocate(values: number, isKept: boolean): Float32Array {
  return orThrow(
    () => (isKept ? uncountedFloats(values) : new Float32Array(values)),
    'OUT_OF_MEMORY',
    `no memory for a KV cache of ${Math.ceil((values * 4) / 2 ** 20)} MiB`,
    'fewer or shorter sequences at a time need less',
  )
}
