import { BrimError } from '../../kit/base/errors.ts'
import { uncountedFloats } from '../../kit/base/uncounted-memory.ts'
import { maxPadRows } from './part-packing.ts'
import { loadReleasePages } from './resident-memory.ts'
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
  protected readonly data: Float32Array
  readonly #shape: KvShape
  readonly #spare: number

  /**
   * Zeroed. @param spare positions beyond the capacity, which no row keeps
   * @param isKept V8 need not count the memory, as garbage that it does not know of is never collected for its sake
   * @throws BrimError OUT_OF_MEMORY
   */
  constructor(shape: KvShape, capacity: number, spare = 0, isKept = false) {
    this.capacity = capacity
    this.#shape = shape
    this.#spare = spare
    this.data = allocate((capacity + spare) * rowValuesOf(shape), isKept)
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
export class TensorKv extends KvBlock {
  readonly keys: readonly Tensor[]
  readonly values: readonly Tensor[]

  /** As KvBlock. */
  constructor(runtime: Runtime, shape: KvShape, capacity: number, isKept = false) {
    super(shape, capacity, maxPadRows, isKept)
    const { layers, kvHeads, headDim } = shape
    const positions = capacity + maxPadRows
    const dims = [1, kvHeads, positions, headDim]
    const size = kvHeads * positions * headDim
    const tensorAt = (index: number) => runtime.tensor('float32', dims, this.data.subarray(index * size, (index + 1) * size))
    this.keys = Array.from({ length: layers }, (_, layer) => tensorAt(2 * layer))
    this.values = Array.from({ length: layers }, (_, layer) => tensorAt(2 * layer + 1))
  }

  /** All positions of all planes. */
  get all(): Float32Array {
    return this.data
  }

  release(): void {
    for (const tensor of [...this.keys, ...this.values]) tensor.release()
  }
}

/** Zeroed KV memory for the sequences of one part, which is zeroed and reused. */
export class KvPool {
  readonly rowValues: number
  readonly #runtime: Runtime
  readonly #shape: KvShape
  readonly #isKept: boolean
  readonly #maxFreeBytes: number
  readonly #free = new MemoryByCapacity()
  /** Without pages of the system: it costs nothing but addresses. */
  readonly #unbacked = new MemoryByCapacity()
  readonly #releasePages = loadReleasePages()
  #usedBytes = 0

  /**
   * @param maxFreeBytes more than this is not kept; nor are its pages where, with what is in use, there are more. Default: as an agent
   *   needs, which has few sequences
   */
  constructor(runtime: Runtime, shape: KvShape, maxFreeBytes?: number) {
    this.#runtime = runtime
    this.#shape = shape
    this.#isKept = maxFreeBytes !== undefined
    this.#maxFreeBytes = maxFreeBytes ?? defaultMaxFreeBytes
    this.rowValues = rowValuesOf(shape)
  }

  acquire(capacity: number): TensorKv {
    const memory = this.#free.take(capacity) ?? this.#acquireUnbacked(capacity)
    this.#usedBytes += memory.bytes
    return memory
  }

  recycle(memory: TensorKv): void {
    this.#usedBytes -= memory.bytes
    if (this.#free.bytes + memory.bytes > this.#maxFreeBytes) {
      memory.zero()
      this.#releasePages(memory.all)
      memory.release()
      return
    }
    memory.zero()
    this.#free.add(memory)
  }

  /** Gives the pages of free memory back to the system, until it is used again. */
  releaseFree(): void {
    this.#releaseFreeBeyond(0)
  }

  release(): void {
    for (const memory of [...this.#free.takeAll(), ...this.#unbacked.takeAll()]) memory.release()
  }

  #acquireUnbacked(capacity: number): TensorKv {
    const memory = this.#unbacked.take(capacity) ?? new TensorKv(this.#runtime, this.#shape, capacity, this.#isKept)
    this.#releaseFreeBeyond(Math.max(0, this.#maxFreeBytes - this.#usedBytes - memory.bytes))
    return memory
  }

  #releaseFreeBeyond(bytes: number): void {
    for (const memory of this.#free.takeBeyond(bytes)) {
      if (this.#releasePages(memory.all)) this.#unbacked.add(memory)
      else memory.release()
    }
  }
}

class MemoryByCapacity {
  readonly #memories = new Map<number, TensorKv[]>()
  bytes = 0

  add(memory: TensorKv): void {
    const same = this.#memories.get(memory.capacity)
    if (same) same.push(memory)
    else this.#memories.set(memory.capacity, [memory])
    this.bytes += memory.bytes
  }

  take(capacity: number): TensorKv | undefined {
    const memory = this.#memories.get(capacity)?.pop()
    this.bytes -= memory?.bytes ?? 0
    return memory
  }

  /** As many as it takes to keep no more than this. */
  *takeBeyond(bytes: number): Iterable<TensorKv> {
    for (const capacity of this.#memories.keys())
      while (this.bytes > bytes) {
        const memory = this.take(capacity)
        if (!memory) break
        yield memory
      }
  }

  takeAll(): Iterable<TensorKv> {
    return this.takeBeyond(Number.NEGATIVE_INFINITY)
  }
}

/** Beyond this, new memory from the system is cheaper, because the system zeroes pages only when they are touched. */
const defaultMaxFreeBytes = 64 * 1024 * 1024

function allocate(values: number, isKept: boolean): Float32Array {
  try {
    return isKept ? uncountedFloats(values) : new Float32Array(values)
  } catch (cause) {
    throw new BrimError('OUT_OF_MEMORY', `no memory for a KV cache of ${Math.ceil((values * 4) / 2 ** 20)} MiB`, {
      cause,
      hint: 'fewer or shorter sequences at a time need less',
    })
  }
}
