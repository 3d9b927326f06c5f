import type { Logger } from '../../core/base/logger.ts'
import { tryOrLog } from '../../core/base/try-or-log.ts'
import { availableDevices, jobsPerDevice, type Lane, lanes } from '../../core/policy/jobs/dispatch.ts'
import type { Dispatch } from './dispatching.ts'
import type { AttemptEffect } from './job-database.ts'
import type { JobStore } from './job-store.ts'

export interface DispatcherOptions {
  readonly jobs: JobStore
  readonly wallMs: () => number
  readonly onDispatched: (dispatched: readonly Dispatch[], effects: readonly AttemptEffect[]) => void
  readonly logger: Logger
}

/** Dispatches queued jobs to the devices that take jobs, once for everything that happened in one turn of the event loop. */
export class Dispatcher {
  readonly #options: DispatcherOptions
  /** The job kinds of each device that takes jobs. */
  readonly #kindsOf = new Map<string, readonly string[]>()
  #isScheduled = false
  #isClosed = false

  constructor(options: DispatcherOptions) {
    this.#options = options
  }

  addDevice(device: string, kinds: readonly string[]): void {
    this.#kindsOf.set(device, kinds)
  }

  removeDevice(device: string): void {
    this.#kindsOf.delete(device)
  }

  removeAllDevices(): void {
    this.#kindsOf.clear()
  }

  /** Call it after every change that may allow a dispatch. */
  schedule(): void {
    if (this.#isScheduled || this.#isClosed) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      if (!this.#isClosed && this.#kindsOf.size > 0) tryOrLog(this.#options.logger, 'jobs not dispatched', () => this.#dispatch())
    })
  }

  close(): void {
    this.#isClosed = true
  }

  #dispatch(): void {
    const { jobs, wallMs, onDispatched } = this.#options
    const nowMs = wallMs()
    const devicesOf = (lane: Lane) =>
      availableDevices(this.#kindsOf, jobs.loads(lane), jobsPerDevice[lane]).filter(
        ({ device }) => !jobs.isExhausted(device, nowMs),
      )
    const claimed = lanes.flatMap((lane) => jobs.claim(devicesOf(lane), nowMs, lane))
    const idle = devicesOf('work').filter(({ freeSlots }) => freeSlots === jobsPerDevice.work)
    const { dispatched, effects } = jobs.rebalance(idle, nowMs)
    onDispatched([...claimed, ...dispatched], effects)
  }
}
