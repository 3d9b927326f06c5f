import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import type { SimulatedFleet } from './device.ts'
import type { LoadReply, LoadRequest } from './load-worker.ts'

const worker = fileURLToPath(new URL('dist/lab/bench/fleet/load-worker.js', projectRoot))
const replyWithinMs = 60_000

/** Processes that hold the devices, so that their work is not counted as the bridge's. */
export class Load implements AsyncDisposable {
  readonly #processes: readonly ChildProcess[]
  readonly #signal: AbortSignal
  #started = 0

  static async open(processes: number, fleet: Omit<SimulatedFleet, 'random' | 'counts'>, { env, signal }: Io): Promise<Load> {
    const children = Array.from({ length: processes }, () =>
      fork(worker, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }),
    )
    const load = new Load(children, signal)
    await load.#askAll(() => ({ type: 'open', fleet }))
    return load
  }

  private constructor(processes: readonly ChildProcess[], signal: AbortSignal) {
    this.#processes = processes
    this.#signal = signal
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
    const replies = await this.#askAll(() => ({ type: 'count' }))
    return replies.reduce((sum, { established }) => sum + established, 0)
  }

  /** What all devices have done since the last call. */
  async take(): Promise<LoadReply> {
    const replies = await this.#askAll(() => ({ type: 'take' }))
    return replies.reduce((all, one) => ({
      attempts: all.attempts + one.attempts,
      refused: all.refused + one.refused,
      unreached: all.unreached + one.unreached,
      lost: all.lost + one.lost,
      samples: all.samples + one.samples,
      jobs: all.jobs + one.jobs,
      established: all.established + one.established,
      pubackMs: all.pubackMs.concat(one.pubackMs),
    }))
  }

  #askAll(requestOf: (process: number) => LoadRequest): Promise<LoadReply[]> {
    return Promise.all(
      this.#processes.map(async (child, at) => {
        const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(replyWithinMs)])
        const replied = once(child, 'message', { signal })
        child.send(requestOf(at))
        const [reply] = await replied.catch((cause: unknown) => {
          this.#signal.throwIfAborted()
          throw new BrimError('RUNTIME_FAILED', 'a process of devices does not reply', { cause })
        })
        return reply as LoadReply
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#processes.map(async (child) => {
        const exited = once(child, 'exit')
        if (child.connected) child.disconnect()
        else child.kill('SIGKILL')
        await exited
      }),
    )
  }
}
