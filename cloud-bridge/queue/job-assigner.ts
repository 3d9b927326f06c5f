import type { Logger } from '../../core/kit/base/logger.ts'
import { oncePerTurn } from '../../core/kit/base/once-per-turn.ts'
import { tryOrLog } from '../../core/kit/base/try-or-log.ts'
import { type AvailableDevice, jobsPerDevice, type Lane, lanes } from '../../core/policy/jobs/assign-jobs.ts'
import { FreeDevices } from '../../core/policy/jobs/free-devices.ts'
import type { PresenceFeed } from '../presence/presence-feed.ts'
import type { AttemptToSend } from './assign-attempts.ts'
import type { AttemptEffect } from './job-database.ts'
import type { JobStore } from './job-store.ts'

export interface JobAssignerOptions {
  readonly presence: Pick<PresenceFeed, 'takers'>
  readonly jobs: JobStore
  readonly wallMs: () => number
  readonly onDispatched: (dispatched: readonly AttemptToSend[], effects: readonly AttemptEffect[]) => void
  readonly logger: Logger
}

/** Jobs of a kind that one turn dispatches, and idle devices of a kind that it considers; the next turn continues. */
const maxPerTurn = 256

/**
 * Dispatches queued jobs to the devices that take jobs, once for everything that happened in one turn of the event loop. It
 * looks only at the devices and kinds of jobs for which something has changed.
 */
export class JobAssigner {
  readonly #options: JobAssignerOptions
  readonly #free: Readonly<Record<Lane, FreeDevices>>
  /** Devices for which a job of their own may have become ready, or which may have a slot for one. */
  readonly #changed = new Set<string>()
  /** Kinds of which jobs may be ready that any device may run. */
  readonly #readyKinds = new Set<string>()
  #isClosed = false

  constructor(options: JobAssignerOptions) {
    this.#options = options
    this.#free = { work: new FreeDevices(jobsPerDevice.work), maintenance: new FreeDevices(jobsPerDevice.maintenance) }
  }

  addDevice(device: string, kinds: readonly string[]): void {
    const { jobs, wallMs } = this.#options
    if (jobs.usage.isExhausted(device, wallMs())) return
    for (const lane of lanes) this.#free[lane].put(device, kinds, jobs.loads.of(lane).get(device) ?? 0)
    this.#changed.add(device)
  }

  removeAllDevices(): void {
    for (const lane of lanes) this.#free[lane].clear()
  }

  /** The device takes no jobs, or has stored as much as it may today. */
  removeDevice(device: string): void {
    for (const lane of lanes) this.#free[lane].remove(device)
  }

  /** A new day has begun. */
  resumeDevices(): void {
    for (const [device, kinds] of this.#options.presence.takers) this.addDevice(device, kinds)
    this.schedule()
  }

  /** Whether a job of this kind can be sent now. @param target the only device that may run it, which rejects what it cannot; null: any */
  runs(kind: string, target: string | null): boolean {
    const { takers } = this.#options.presence
    if (target !== null) return takers.has(target)
    for (const kinds of takers.values()) if (kinds.includes(kind)) return true
    return false
  }

  /** Call it after every change that may allow a dispatch. */
  readonly schedule = oncePerTurn(() => {
    const { presence, logger } = this.#options
    if (!this.#isClosed && presence.takers.size > 0) tryOrLog(logger, 'jobs not dispatched', () => this.#dispatch())
  })

  close(): void {
    this.#isClosed = true
  }

  #dispatch(): void {
    const { jobs, wallMs, onDispatched } = this.#options
    const nowMs = wallMs()
    this.#readChanges()
    const claimed = lanes.flatMap((lane) => {
      const devices = this.#candidates(lane, nowMs)
      return devices.length === 0 ? [] : jobs.claim(devices, nowMs, lane)
    })
    // Not before: what a failed transaction leaves undone is tried again.
    this.#changed.clear()
    const isIncomplete = this.#readChanges()
    const idle = jobs.loads.hasWaiting ? this.#free.work.idle(maxPerTurn) : []
    const { dispatched, effects } = jobs.rebalance(idle, nowMs)
    onDispatched([...claimed, ...dispatched], effects)
    if (isIncomplete || (claimed.length > 0 && this.#readyKinds.size > 0)) this.schedule()
  }

  /** @returns whether a claim found less than there is */
  #readChanges(): boolean {
    const { jobs } = this.#options
    const { devices, kinds, isIncomplete } = jobs.loads.takeChanges()
    for (const kind of kinds) this.#readyKinds.add(kind)
    for (const device of devices) {
      for (const lane of lanes) this.#free[lane].setLoad(device, jobs.loads.of(lane).get(device) ?? 0)
      this.#changed.add(device)
    }
    return isIncomplete
  }

  /** The devices that may get jobs in this turn, each once. */
  #candidates(lane: Lane, nowMs: number): AvailableDevice[] {
    const { jobs } = this.#options
    const free = this.#free[lane]
    const found = new Map<string, AvailableDevice>()
    for (const device of this.#changed) {
      const available = jobs.loads.mayHaveOwn(device, lane) ? free.get(device) : undefined
      if (available) found.set(device, available)
    }
    if (lane === 'maintenance') return [...found.values()]
    for (const kind of this.#readyKinds) {
      if (free.freest(kind, 1).length === 0) continue
      const ready = jobs.countReady(kind, nowMs, maxPerTurn)
      if (ready === 0) this.#readyKinds.delete(kind)
      // Those that are found already may get other jobs.
      else for (const available of free.freest(kind, ready + found.size)) found.set(available.device, available)
    }
    return [...found.values()]
  }
}
