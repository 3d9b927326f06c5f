import type { Io } from '../../../core/kit/base/io.ts'
import { WorkerProcess } from '../../cluster/worker-process.ts'
import type { SimulatedFleet } from './device.ts'
import type { LoadReply, LoadRequest } from './load-worker.ts'

const replyWithinMs = 60_000

/** Processes that hold the devices, so that their work is not counted as the bridge's. */
export class Load implements AsyncDisposable {
  readonly #processes: readonly WorkerProcess<LoadRequest, LoadReply>[]
  #started = 0

  static async open(processes: number, fleet: Omit<SimulatedFleet, 'random' | 'counts'>, io: Io): Promise<Load> {
    const load = new Load(processes, io)
    await load.#askAll(() => ({ type: 'open', fleet }))
    return load
  }

  private constructor(processes: number, io: Io) {
    this.#processes = Array.from({ length: processes }, () => new WorkerProcess(new URL('./load-worker.js', import.meta.url), io))
  }

  /** Starts this many more devices at random times within `withinMs`. */
  async start(devices: number, withinMs: number): Promise<void> {
    const first = this.#started
    this.#started += devices
    const ids = this.ids().slice(first)
    const share = (process: number) => ids.filter((_, at) => at % this.#processes.length === process)
    await this.#askAll((process) => ({ type: 'start', ids: share(process), withinMs }))
  }

  /** Number of devices that were started. */
  get size(): number {
    return this.#started
  }

  ids(): string[] {
    return Array.from({ length: this.#started }, (_, at) => `bench-${String(at + 1).padStart(5, '0')}`)
  }

  /** Devices that are connected and subscribed, and whose state the broker has. */
  async established(): Promise<number> {
    return (await this.#askAll(() => ({ type: 'count' }))).established
  }

  /** What all devices have done since the last call. */
  take(): Promise<LoadReply> {
    return this.#askAll(() => ({ type: 'take' }))
  }

  /** @returns the sum of the replies */
  async #askAll(requestOf: (process: number) => LoadRequest): Promise<LoadReply> {
    const replies = await Promise.all(this.#processes.map((process, at) => process.ask(requestOf(at), replyWithinMs)))
    return replies.reduce((all, one) => {
      const sums = Object.entries(one).map(([name, value]) => {
        const before = all[name as keyof LoadReply]
        return [name, Array.isArray(value) ? [...(before as number[]), ...value] : (before as number) + value]
      })
      return Object.fromEntries(sums) as LoadReply
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((process) => process[Symbol.asyncDispose]()))
  }
}
