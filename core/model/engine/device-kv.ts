import { type KvShape, rowValuesOf } from '../bundle/kv-shape.ts'
import { OnnxGraph } from '../bundle/onnx-writer.ts'
import type { KvBuffers } from './kv-buffers.ts'
import { maxPadRows } from './part-packing.ts'
import type { DeviceMemory, EngineSession, Runtime, Tensor } from './runtime.ts'
import { SerialQueue } from './serial-queue.ts'

/**
 * Moves rows of KV in the memory of a device. What a sequence asks for is queued and done in that order, before the next
 * step: steps await `settled`.
 */
export class DeviceKvMover {
  readonly shape: KvShape
  /** Of one position. */
  readonly rowBytes: number
  readonly #runtime: Runtime
  readonly #device: DeviceMemory
  readonly #queue = new SerialQueue()
  /** All that is allocated: sequences may be released after their part. */
  readonly #allocated = new Set<Tensor>()
  #isReleased = false
  #sessions: Promise<{ readonly read: EngineSession; readonly write: EngineSession }> | undefined

  constructor(runtime: Runtime, device: DeviceMemory, shape: KvShape) {
    this.#runtime = runtime
    this.#device = device
    this.shape = shape
    this.rowBytes = rowValuesOf(shape) * valuesOf(device.type).BYTES_PER_ELEMENT
  }

  /** Resolves when everything that was asked for is done. */
  settled(): Promise<void> {
    return this.#queue.idle()
  }

  queue<Result>(task: () => Promise<Result>): Promise<Result> {
    return this.#queue.run(() => {
      if (this.#isReleased) throw new Error('KV was used after the release of its part')
      return task()
    })
  }

  /** Zeroed tensors: keys then values per layer, each [1, kvHeads, positions, headDim]. */
  async allocate(positions: number): Promise<Tensor[]> {
    const tensors = await this.#allocate([1, this.shape.kvHeads, positions, this.shape.headDim])
    try {
      await this.#device.check(tensors)
      await this.zero(tensors)
      return tensors
    } catch (error) {
      await this.free(tensors)
      throw error
    }
  }

  async zero(tensors: readonly Tensor[]): Promise<void> {
    const { type, dims } = tensors[0]!
    const count = dims.reduce((product, dim) => product * dim, 1)
    const zeros = this.#runtime.tensor(type, dims, new (valuesOf(this.#device.type))(count))
    try {
      await this.#device.copy(tensors.map((tensor) => [zeros, tensor]))
    } finally {
      zeros.release()
    }
  }

  async free(tensors: readonly Tensor[]): Promise<void> {
    for (const tensor of tensors) this.#allocated.delete(tensor)
    await this.#device.free(tensors)
  }

  /** Copies rows of `from` over those of `to`, within the device. @param at the first row in `to` */
  async move(from: readonly Tensor[], rows: readonly number[], to: readonly Tensor[], at: number): Promise<void> {
    if (rows.length === 0) return
    const { kvHeads, headDim } = this.shape
    const between = await this.#allocate([kvHeads, rows.length, headDim])
    try {
      await this.read(from, rows, between)
      await this.write(to, range(at, rows.length), between)
    } finally {
      await this.free(between)
    }
  }

  /** @param into per tensor [kvHeads, rows, headDim], on the device or in this process */
  async read(from: readonly Tensor[], rows: readonly number[], into: readonly Tensor[]): Promise<void> {
    const { read } = await this.#open()
    await this.#run(read, rows, new Map(from.map((tensor, at) => [`kv.${at}`, tensor])), named('rows', into))
  }

  /** As `read`. */
  async write(to: readonly Tensor[], rows: readonly number[], values: readonly Tensor[]): Promise<void> {
    const { write } = await this.#open()
    await this.#run(write, rows, new Map([...named('kv', to), ...named('rows', values)]), named('written', to))
  }

  /** Calls `use` with tensors over memory of this process, of which each has its share after the one before. */
  async withHost(rows: number, memory: Float32Array, use: (tensors: readonly Tensor[]) => Promise<void>): Promise<void> {
    const { layers, kvHeads, headDim } = this.shape
    const size = kvHeads * rows * headDim
    const { type } = this.#device
    const values = type === 'float16' ? new Uint16Array(memory.buffer, memory.byteOffset, 2 * layers * size) : memory
    const tensors = Array.from({ length: 2 * layers }, (_, at) =>
      this.#runtime.tensor(type, [kvHeads, rows, headDim], values.subarray(at * size, (at + 1) * size)),
    )
    try {
      await use(tensors)
    } finally {
      for (const tensor of tensors) tensor.release()
    }
  }

  async release(): Promise<void> {
    await this.settled()
    this.#isReleased = true
    await this.free([...this.#allocated])
    const sessions = await this.#sessions?.catch(() => undefined)
    await Promise.all([sessions?.read.release(), sessions?.write.release()])
  }

  async #run(
    session: EngineSession,
    rows: readonly number[],
    inputs: Map<string, Tensor>,
    outputs: Map<string, Tensor>,
  ): Promise<void> {
    const places = this.#runtime.tensor('int64', [this.shape.kvHeads, rows.length, 3], placesOf(this.shape.kvHeads, rows))
    try {
      await session.run(inputs.set('places', places), outputs)
    } finally {
      places.release()
    }
  }

  async #allocate(dims: readonly number[]): Promise<Tensor[]> {
    const tensors: Tensor[] = []
    try {
      for (let at = 0; at < 2 * this.shape.layers; at++) tensors.push(await this.#device.allocate(this.#device.type, dims))
      for (const tensor of tensors) this.#allocated.add(tensor)
      return tensors
    } catch (error) {
      await this.free(tensors)
      throw error
    }
  }

  #open(): Promise<{ readonly read: EngineSession; readonly write: EngineSession }> {
    const open = async () => ({
      read: await this.#runtime.session(readGraph(this.shape, this.#device.type), { threads: 1 }),
      write: await this.#runtime.session(writeGraph(this.shape, this.#device.type), { threads: 1 }),
    })
    this.#sessions ??= open().catch((error: unknown) => {
      this.#sessions = undefined
      throw error
    })
    return this.#sessions
  }
}

/** A sequence's KV in the memory of a device. An operation that fails shows in `failure` before the next step. */
export class DeviceKv implements KvBuffers {
  readonly capacity: number
  /** Of an operation; the rows are lost then. */
  failure: unknown
  readonly #mover: DeviceKvMover
  #tensors: readonly Tensor[] = []

  constructor(mover: DeviceKvMover, capacity: number) {
    this.#mover = mover
    this.capacity = capacity
    void this.#queue(async () => {
      this.#tensors = await mover.allocate(capacity + maxPadRows)
    })
  }

  get keys(): readonly Tensor[] {
    return this.#tensors.filter((_, at) => at % 2 === 0)
  }

  get values(): readonly Tensor[] {
    return this.#tensors.filter((_, at) => at % 2 === 1)
  }

  get bytes(): number {
    return this.capacity * this.#mover.rowBytes
  }

  copyRows(from: KvBuffers, rows: number): void {
    if (!(from instanceof DeviceKv)) throw new Error('KV of another pool')
    void this.#queue(async () => {
      if (from.failure !== undefined) throw from.failure
      await this.#mover.move(from.#tensors, range(0, rows), this.#tensors, 0)
    })
  }

  gatherRows(at: number, rows: readonly number[]): void {
    void this.#queue(() => this.#mover.move(this.#tensors, rows, this.#tensors, at))
  }

  readRows(from: number, to: number, into: Float32Array): Promise<void> {
    return this.#mover.queue(async () => {
      if (this.failure !== undefined) throw this.failure
      await this.#mover.withHost(to - from, into, (rows) => this.#mover.read(this.#tensors, range(from, to - from), rows))
    })
  }

  writeRows(from: number, to: number, rows: Float32Array): void {
    const values = rows.slice()
    const places = range(from, to - from)
    void this.#queue(() => this.#mover.withHost(places.length, values, (own) => this.#mover.write(this.#tensors, places, own)))
  }

  zero(): Promise<boolean> {
    return this.#queue(() => this.#mover.zero(this.#tensors)).then(() => this.failure === undefined)
  }

  /** The driver keeps no pages back that could be given away. */
  releasePages(): boolean {
    return false
  }

  release(): void {
    // The part may have freed it.
    this.#mover.queue(() => this.#mover.free(this.#tensors)).catch(() => {})
  }

  async #queue(task: () => Promise<void>): Promise<void> {
    try {
      await this.#mover.queue(async () => {
        if (this.failure === undefined) await task()
      })
    } catch (error) {
      this.failure = error
    }
  }
}

type KvType = DeviceMemory['type']

const valuesOf = (type: KvType) => (type === 'float16' ? Uint16Array : Float32Array)

const range = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at)

const named = (name: string, tensors: readonly Tensor[]) => new Map(tensors.map((tensor, at) => [`${name}.${at}`, tensor]))

/** For each head and row its place in [1, kvHeads, positions, headDim]: int64 [kvHeads, rows, 3]. */
function placesOf(kvHeads: number, rows: readonly number[]): BigInt64Array {
  const places = new BigInt64Array(kvHeads * rows.length * 3)
  for (let head = 0; head < kvHeads; head++)
    rows.forEach((row, at) => {
      places.set([0n, BigInt(head), BigInt(row)], (head * rows.length + at) * 3)
    })
  return places
}

function readGraph(shape: KvShape, type: KvType): Uint8Array {
  return eachTensor(shape, type, (graph, at, kv) => {
    graph.node('GatherND', [kv, 'places'], { outputs: [`rows.${at}`] })
    graph.output(`rows.${at}`, type, [shape.kvHeads, 'R', shape.headDim])
  })
}

/** Each output is given the memory of its input, so that only the rows are written. */
function writeGraph(shape: KvShape, type: KvType): Uint8Array {
  return eachTensor(shape, type, (graph, at, kv) => {
    const rows = graph.input(`rows.${at}`, type, [shape.kvHeads, 'R', shape.headDim])
    graph.node('ScatterND', [kv, 'places', rows], { outputs: [`written.${at}`] })
    graph.output(`written.${at}`, type, [1, shape.kvHeads, 'positions', shape.headDim])
  })
}

function eachTensor(
  { layers, kvHeads, headDim }: KvShape,
  type: KvType,
  add: (graph: OnnxGraph, at: number, kv: string) => void,
): Uint8Array {
  const graph = new OnnxGraph()
  graph.input('places', 'int64', [kvHeads, 'R', 3])
  for (let at = 0; at < 2 * layers; at++) add(graph, at, graph.input(`kv.${at}`, type, [1, kvHeads, 'positions', headDim]))
  return graph.encode('kv')
}
