import { type KvShape, rowValuesOf } from '../bundle/kv-shape.ts'
import { DeviceKv, DeviceKvMover } from './device-kv.ts'
import { HostKv } from './host-kv.ts'
import type { KvBuffers } from './kv-buffers.ts'
import { loadReleasePages } from './resident-memory.ts'
import type { Runtime } from './runtime.ts'

/** Zeroed KV memory for the sequences of one part, which is zeroed and reused. */
export class KvPool {
  readonly rowValues: number
  /** Of the memory of the device, if the runtime has one. */
  readonly #mover: DeviceKvMover | undefined
  readonly #create: (capacity: number) => KvBuffers
  readonly #maxFreeBytes: number
  readonly #free = new MemoryByCapacity()
  /** Without pages of the system: it costs nothing but addresses. */
  readonly #unbacked = new MemoryByCapacity()
  #usedBytes = 0
  #isReleased = false

  /**
   * @param maxFreeBytes more than this is not kept; nor are its pages where, with what is in use, there are more. Default: as an agent
   *   needs, which has few sequences
   */
  constructor(runtime: Runtime, shape: KvShape, maxFreeBytes?: number) {
    const mover = runtime.device && new DeviceKvMover(runtime, runtime.device, shape)
    const [isKept, releasePages] = [maxFreeBytes !== undefined, loadReleasePages()]
    this.#mover = mover
    this.#create = (capacity) =>
      mover ? new DeviceKv(mover, capacity) : new HostKv(runtime, shape, capacity, isKept, releasePages)
    this.#maxFreeBytes = maxFreeBytes ?? defaultMaxFreeBytes
    this.rowValues = mover ? mover.rowBytes / Float32Array.BYTES_PER_ELEMENT : rowValuesOf(shape)
  }

  /** Resolves when what sequences asked for is done; undefined where it is done at once. */
  settled(): Promise<void> | undefined {
    return this.#mover?.settled()
  }

  acquire(capacity: number): KvBuffers {
    const memory = this.#free.take(capacity) ?? this.#acquireUnbacked(capacity)
    this.#usedBytes += memory.bytes
    return memory
  }

  recycle(memory: KvBuffers): void {
    this.#usedBytes -= memory.bytes
    const zeroed = memory.zero()
    if (zeroed) void zeroed.then((isUsable) => this.#keep(memory, isUsable && !this.#isReleased))
    else this.#keep(memory, true)
  }

  #keep(memory: KvBuffers, isUsable: boolean): void {
    if (isUsable && this.#free.bytes + memory.bytes <= this.#maxFreeBytes) {
      this.#free.add(memory)
      return
    }
    memory.releasePages()
    memory.release()
  }

  /** Gives the pages of free memory back to the system, until it is used again. */
  releaseFree(): void {
    this.#releaseFreeBeyond(0)
  }

  async release(): Promise<void> {
    this.#isReleased = true
    for (const memory of [...this.#free.takeAll(), ...this.#unbacked.takeAll()]) memory.release()
    await this.#mover?.release()
  }

  #acquireUnbacked(capacity: number): KvBuffers {
    const memory = this.#unbacked.take(capacity) ?? this.#create(capacity)
    this.#releaseFreeBeyond(Math.max(0, this.#maxFreeBytes - this.#usedBytes - memory.bytes))
    return memory
  }

  #releaseFreeBeyond(bytes: number): void {
    for (const memory of this.#free.takeBeyond(bytes)) {
      if (memory.releasePages()) this.#unbacked.add(memory)
      else memory.release()
    }
  }
}

class MemoryByCapacity {
  readonly #memories = new Map<number, KvBuffers[]>()
  bytes = 0

  add(memory: KvBuffers): void {
    const same = this.#memories.get(memory.capacity)
    if (same) same.push(memory)
    else this.#memories.set(memory.capacity, [memory])
    this.bytes += memory.bytes
  }

  take(capacity: number): KvBuffers | undefined {
    const memory = this.#memories.get(capacity)?.pop()
    this.bytes -= memory?.bytes ?? 0
    return memory
  }

  /** As many as it takes to keep no more than this. */
  *takeBeyond(bytes: number): Iterable<KvBuffers> {
    for (const capacity of this.#memories.keys())
      while (this.bytes > bytes) {
        const memory = this.take(capacity)
        if (!memory) break
        yield memory
      }
  }

  takeAll(): Iterable<KvBuffers> {
    return this.takeBeyond(Number.NEGATIVE_INFINITY)
  }
}

/** Beyond this, new memory from the system is cheaper, because the system zeroes pages only when they are touched. */
const defaultMaxFreeBytes = 64 * 1024 * 1024
