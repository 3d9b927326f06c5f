import { BrimError } from '../base/errors.ts'
import { maxPadRows } from './part-packing.ts'
import type { Runtime, Tensor } from './runtime.ts'

export interface KvShape {
  readonly layers: number
  readonly kvHeads: number
  readonly headDim: number
}

/** Values of one position: keys and values of all heads of all layers. */
const rowValuesOf = ({ layers, kvHeads, headDim }: KvShape) => 2 * layers * kvHeads * headDim

/** Keys and values of one sequence in one block: keys then values per layer, each [1, kvHeads, capacity + spare, headDim]. */
export class KvBlock {
  readonly capacity: number
  protected readonly data: Float32Array<ArrayBuffer>
  readonly #shape: KvShape
  readonly #spare: number

  /** Zeroed. @param spare positions beyond the capacity, which no row keeps. @throws BrimError OUT_OF_MEMORY */
  constructor(shape: KvShape, capacity: number, spare = 0) {
    this.capacity = capacity
    this.#shape = shape
    this.#spare = spare
    this.data = allocate((capacity + spare) * rowValuesOf(shape))
  }

  /** Bytes of the capacity, without the spare positions. */
  get bytes(): number {
    return this.capacity * rowValuesOf(this.#shape) * this.data.BYTES_PER_ELEMENT
  }

  /** Copies the first `rows` positions of `from`. */
  copyRows(from: KvBlock, rows: number): void {
    this.#eachPlane((start, plane) => {
      const source = plane * from.#planeSize
      this.data.set(from.data.subarray(source, source + rows * this.#shape.headDim), start)
    })
  }

  /** Moves position `rows[i]` to position `at + i`. */
  gatherRows(at: number, rows: readonly number[]): void {
    const width = this.#shape.headDim
    const picked = new Float32Array(rows.length * width)
    this.#eachPlane((start) => {
      rows.forEach((row, i) => {
        picked.set(this.data.subarray(start + row * width, start + (row + 1) * width), i * width)
      })
      this.data.set(picked, start + at * width)
    })
  }

  /** Copies positions [from, to) to `into`, as planes of these rows: [plane, to - from, headDim]. */
  readRows(from: number, to: number, into: Float32Array): void {
    this.#eachPlane((start, plane) => {
      into.set(this.#rowsOf(start, from, to), plane * (to - from) * this.#shape.headDim)
    })
  }

  /** Writes positions [from, to), which are as `readRows` gives them. */
  writeRows(from: number, to: number, rows: Float32Array): void {
    const size = (to - from) * this.#shape.headDim
    this.#eachPlane((start, plane) => {
      this.#rowsOf(start, from, to).set(rows.subarray(plane * size, (plane + 1) * size))
    })
  }

  zero(): void {
    this.data.fill(0)
  }

  #rowsOf(start: number, from: number, to: number): Float32Array {
    const width = this.#shape.headDim
    return this.data.subarray(start + from * width, start + to * width)
  }

  get #planeSize(): number {
    return (this.capacity + this.#spare) * this.#shape.headDim
  }

  /** A plane: keys or values of one head of one layer, [capacity + spare, headDim]. */
  #eachPlane(visit: (start: number, plane: number) => void): void {
    const planes = 2 * this.#shape.layers * this.#shape.kvHeads
    for (let plane = 0; plane < planes; plane++) visit(plane * this.#planeSize, plane)
  }
}

/** A KV block as tensors of the runtime, which steps read and append to. */
export class KvMemory extends KvBlock {
  readonly keys: readonly Tensor[]
  readonly values: readonly Tensor[]

  /** Zeroed. @throws BrimError OUT_OF_MEMORY */
  constructor(runtime: Runtime, shape: KvShape, capacity: number) {
    super(shape, capacity, maxPadRows)
    const { layers, kvHeads, headDim } = shape
    const positions = capacity + maxPadRows
    const dims = [1, kvHeads, positions, headDim]
    const size = kvHeads * positions * headDim
    const tensorAt = (index: number) => runtime.tensor('float32', dims, this.data.subarray(index * size, (index + 1) * size))
    this.keys = Array.from({ length: layers }, (_, layer) => tensorAt(2 * layer))
    this.values = Array.from({ length: layers }, (_, layer) => tensorAt(2 * layer + 1))
  }

  release(): void {
    for (const tensor of [...this.keys, ...this.values]) tensor.release()
  }
}

/** Zeroed KV memory for the sequences of one part. Recycled memory is zeroed and reused, up to a limit. */
export class KvPool {
  readonly rowValues: number
  readonly #runtime: Runtime
  readonly #shape: KvShape
  readonly #free = new Map<number, KvMemory[]>()
  #freeBytes = 0

  constructor(runtime: Runtime, shape: KvShape) {
    this.#runtime = runtime
    this.#shape = shape
    this.rowValues = rowValuesOf(shape)
  }

  acquire(capacity: number): KvMemory {
    const memory = this.#free.get(capacity)?.pop()
    if (!memory) return new KvMemory(this.#runtime, this.#shape, capacity)
    this.#freeBytes -= memory.bytes
    return memory
  }

  recycle(memory: KvMemory): void {
    if (this.#freeBytes + memory.bytes > maxFreeBytes) {
      memory.release()
      return
    }
    memory.zero()
    this.#freeBytes += memory.bytes
    const free = this.#free.get(memory.capacity)
    if (free) free.push(memory)
    else this.#free.set(memory.capacity, [memory])
  }

  release(): void {
    for (const memory of [...this.#free.values()].flat()) memory.release()
    this.#free.clear()
    this.#freeBytes = 0
  }
}

/** Beyond this, new memory from the system is cheaper, because the system zeroes pages only when they are touched. */
const maxFreeBytes = 64 * 1024 * 1024

function allocate(values: number): Float32Array<ArrayBuffer> {
  try {
    return new Float32Array(values)
  } catch (cause) {
    throw new BrimError('OUT_OF_MEMORY', `no memory for a KV cache of ${Math.ceil((values * 4) / 2 ** 20)} MiB`, {
      cause,
      hint: 'fewer or shorter sequences at a time need less',
    })
  }
}
