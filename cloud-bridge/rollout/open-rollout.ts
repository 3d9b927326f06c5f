import type { Clock } from '../../core/kit/base/clock.ts'
import { isTerminal } from '../../core/policy/jobs/job.ts'
import { nextRollout } from '../../core/policy/rollout/next-rollout.ts'
import {
  type DeviceOutcome,
  devicesUnderWay,
  isOpen,
  type RolloutAction,
  type RolloutEvent,
  type RolloutState,
} from '../../core/policy/rollout/rollout.ts'
import { nextSoak, type Soak, soakProblem } from '../../core/policy/rollout/soak.ts'
import { type JobDetails, maxBatchJobs } from '../../core/wire/protocol/http/jobs.ts'
import { JobSubmission } from '../../core/wire/protocol/jobs.ts'
import type { DeviceState } from '../../core/wire/protocol/messages.ts'
import type { JobQueue } from '../queue/job-queue.ts'
import type { JobStore } from '../queue/job-store.ts'
import type { DeviceError, RolloutStore, StoredRollout } from './rollout-store.ts'

export interface RolloutParts {
  readonly store: RolloutStore
  readonly jobs: Pick<JobStore, 'find' | 'idOfKey'>
  readonly queue: Pick<JobQueue, 'submit' | 'cancel' | 'watch'>
  /** Whether a device is still one of the fleet. */
  readonly isKnown: (device: string) => boolean
  /** The last state of a device; undefined: it never published one. */
  readonly lastState: (device: string) => Pick<DeviceState, 'state' | 'birth'> | undefined
  /** A device that has succeeded is watched for this long: its loss counts as a failure. */
  readonly soakMs: number
  /** UTC ms: starts and outcomes outlive this process. */
  readonly wallMs: () => number
  readonly clock: Clock
}

interface StartedDevice {
  readonly place: number
  readonly device: string
}
interface EndedDevice extends StartedDevice {
  readonly outcome: DeviceOutcome
  readonly error: DeviceError | null
}

/**
 * A rollout with devices that have not ended: stores each step of the policy, then carries it out. What is stored and not
 * carried out when the bridge ends is carried out after the restart: the key of a job keeps it from being submitted twice.
 */
export class OpenRollout {
  readonly #parts: RolloutParts
  readonly #stored: StoredRollout
  #rollout: RolloutState
  #endedMs: number | null
  /** Devices that are stored as started and whose job is not known yet. */
  #unsubmitted: StartedDevice[] = []
  /** By job. */
  readonly #underWay = new Map<string, StartedDevice & { readonly unwatch: () => void }>()
  /** The devices that have succeeded and are watched. */
  readonly #soaking = new Map<string, Soak & { readonly place: number }>()
  /** Jobs that may have ended. */
  readonly #changed = new Set<string>()
  readonly #onJobChanged: () => void

  /** @param onJobChanged call `settle` soon */
  constructor(parts: RolloutParts, stored: StoredRollout, onJobChanged: () => void) {
    this.#parts = parts
    this.#stored = stored
    this.#endedMs = stored.endedMs
    this.#onJobChanged = onJobChanged
    // A device needs time to return after a start of the bridge: its watch begins again.
    const watched = isOpen(stored.rollout) ? parts.store.succeededSince(stored.n, parts.wallMs() - parts.soakMs) : []
    for (const { place, device } of watched) this.#watch(place, device)
    this.#rollout = { ...stored.rollout, soaking: watched.length }
    if (devicesUnderWay(stored.rollout) === 0) return
    for (const { place, device, job } of parts.store.devices(stored.n, 0, 'started', stored.rollout.devices)) {
      if (job === null) this.#unsubmitted.push({ place, device })
      else this.#follow(job, { place, device })
    }
  }

  get stored(): StoredRollout {
    return { ...this.#stored, rollout: this.#rollout, endedMs: this.#endedMs }
  }

  get hasEnded(): boolean {
    return this.#endedMs !== null
  }

  /** Starts the devices that are due, after what could not be done before. Call it every second. */
  tick(): void {
    this.settle()
    this.#endSoaks()
    this.#submitJobs()
    this.apply({ kind: 'tick' })
  }

  /** @returns whether the rollout has changed */
  apply(event: RolloutEvent): boolean {
    const before = this.#rollout
    this.#change(() => [event])
    return this.#rollout !== before
  }

  /** Counts the jobs that have ended. */
  settle(): void {
    const changed = [...this.#changed]
    // Cleared before: the end of one device may cancel the jobs of others.
    this.#changed.clear()
    const ended = changed.flatMap((job) => {
      const device = this.#underWay.get(job)
      const end = device && endOf(this.#parts.jobs.find(job))
      return end ? [{ ...device, ...end, job }] : []
    })
    if (ended.length === 0) return
    try {
      this.#end(ended)
    } catch (error) {
      for (const job of changed) this.#changed.add(job)
      throw error
    }
    for (const { job, unwatch } of ended) {
      unwatch()
      this.#underWay.delete(job)
    }
  }

  /** Whether the device has succeeded and is watched. */
  watches(device: string): boolean {
    return this.#soaking.has(device)
  }

  onDeviceState(device: string, seen: Pick<DeviceState, 'state' | 'birth'>): void {
    const soak = this.#soaking.get(device)
    if (!soak) return
    const next = nextSoak(soak, { state: seen.state, birth: seen.birth })
    if ('problem' in next) this.#settleSoaks([{ ...soak, device, problem: next.problem }])
    else this.#soaking.set(device, { ...soak, ...next })
  }

  /** Ends the watches whose time is over. */
  #endSoaks(): void {
    const nowMs = this.#parts.clock.nowMs()
    const over = [...this.#soaking].filter(([, { untilMs }]) => untilMs <= nowMs)
    if (over.length > 0) this.#settleSoaks(over.map(([device, soak]) => ({ ...soak, device, problem: soakProblem(soak) })))
  }

  /** Counts devices whose watch has ended. @param devices with a problem: they have failed after all */
  #settleSoaks(devices: readonly (StartedDevice & { readonly problem: string | undefined })[]): void {
    const { store } = this.#parts
    this.#change(() =>
      devices.map(({ place, problem }): RolloutEvent => {
        const error = problem !== undefined && { code: 'HEALTH_CHECK_FAILED', message: problem }
        return { kind: error && store.failDevice(this.#stored.n, place, error) ? 'lost' : 'soaked' }
      }),
    )
    for (const { device } of devices) this.#soaking.delete(device)
  }

  #watch(place: number, device: string): void {
    const { lastState, soakMs, clock } = this.#parts
    this.#soaking.set(device, { place, untilMs: clock.nowMs() + soakMs, seen: lastState(device) })
  }

  close(): void {
    for (const { unwatch } of this.#underWay.values()) unwatch()
    this.#underWay.clear()
  }

  #end(devices: readonly EndedDevice[]): void {
    const { store, wallMs, soakMs } = this.#parts
    const watched: StartedDevice[] = []
    this.#change(() =>
      devices.flatMap(({ place, device, outcome, error }): RolloutEvent[] => {
        if (!store.endDevice(this.#stored.n, place, outcome, error, wallMs())) return []
        if (outcome !== 'succeeded') return [{ kind: 'ended', outcome }]
        if (soakMs === 0) return [{ kind: 'ended', outcome }, { kind: 'soaked' }]
        watched.push({ place, device })
        return [{ kind: 'ended', outcome }]
      }),
    )
    for (const { place, device } of watched) this.#watch(place, device)
  }

  /** Stores the steps of these events in one transaction; then carries them out. */
  #change(events: () => RolloutEvent[]): void {
    const { store, wallMs } = this.#parts
    const { n } = this.#stored
    const nowMs = wallMs()
    const { rollout, actions, endedMs } = store.transaction(() => {
      let rollout = this.#rollout
      const actions: RolloutAction[] = []
      for (const event of events()) {
        const step = nextRollout(rollout, event, nowMs)
        rollout = step.rollout
        actions.push(...step.actions)
      }
      const hasEnded = !isOpen(rollout) && devicesUnderWay(rollout) === 0
      const endedMs = hasEnded ? (this.#endedMs ?? Math.round(nowMs)) : null
      for (const action of actions) {
        if (action.kind === 'start') store.startDevices(n, action.from, action.count, nowMs)
        if (action.kind === 'skip') store.skipDevices(n, action.from, nowMs)
      }
      if (rollout !== this.#rollout) store.save(n, rollout, endedMs)
      return { rollout, actions, endedMs }
    })
    this.#rollout = rollout
    this.#endedMs = endedMs
    for (const action of actions) this.#carryOut(action)
  }

  #carryOut(action: RolloutAction): void {
    if (action.kind === 'start') {
      const { from, count } = action
      for (const { place, device } of this.#parts.store.devices(this.#stored.n, from, null, count))
        this.#unsubmitted.push({ place, device })
      this.#submitJobs()
    }
    if (action.kind === 'cancel') for (const job of this.#underWay.keys()) this.#parts.queue.cancel(job)
  }

  /** Submits the jobs of the devices that have started. One that was submitted before the bridge ended is found by its key. */
  #submitJobs(): void {
    if (this.#unsubmitted.length === 0) return
    const { isKnown, jobs, queue, store } = this.#parts
    const gone: EndedDevice[] = []
    // Rollouts of the same kind that were given devices while this one was paused.
    const ofNewer = store.ofNewer(this.#stored.kind, this.#stored.n)
    while (this.#unsubmitted.length > 0) {
      const batch = this.#unsubmitted.slice(0, maxBatchJobs)
      const wanted = batch.filter(({ device }) => isOpen(this.#rollout) && isKnown(device) && !ofNewer.has(device))
      const submitted = wanted.length === 0 ? [] : queue.submit(wanted.map(({ device }) => this.#submissionFor(device)))
      const found = batch.flatMap((one): { one: StartedDevice; job: string }[] => {
        const at = wanted.indexOf(one)
        const job = at < 0 ? jobs.idOfKey(this.#keyOf(one.device)) : submitted[at]!.id
        if (job === undefined)
          gone.push({
            ...one,
            outcome: isOpen(this.#rollout) ? 'skipped' : 'canceled',
            error: superseded(ofNewer.get(one.device)),
          })
        return job === undefined ? [] : [{ one, job }]
      })
      store.transaction(() => {
        for (const { one, job } of found) store.setJob(this.#stored.n, one.place, job)
      })
      this.#unsubmitted.splice(0, batch.length)
      for (const { one, job } of found) this.#follow(job, one)
    }
    if (gone.length > 0) this.#end(gone)
  }

  #follow(job: string, device: StartedDevice): void {
    const { queue } = this.#parts
    const onChanged = () => {
      this.#changed.add(job)
      this.#onJobChanged()
    }
    this.#underWay.set(job, { ...device, unwatch: queue.watch(job, onChanged) })
    // The bridge may have ended between an abort and the cancellation of its jobs.
    if (this.#rollout.state === 'aborted') queue.cancel(job)
    onChanged()
  }

  #keyOf(device: string): string {
    return `rollout-${this.#stored.id}-${device}`
  }

  #submissionFor(device: string): JobSubmission {
    const { kind, input, pace } = this.#stored
    const key = this.#keyOf(device)
    return JobSubmission.parse({ kind, input, device, key, deadlineS: pace.deviceTimeoutS })
  }
}

/** What the end of its job is for a device; undefined: the job has not ended. @param job undefined: it is deleted */
function endOf(job: JobDetails | undefined): Pick<EndedDevice, 'outcome' | 'error'> | undefined {
  if (!job)
    return { outcome: 'failed', error: { code: 'JOB_UNKNOWN', message: 'its job was deleted before the result was read' } }
  if (!isTerminal(job.state)) return undefined
  if (job.state === 'SUCCEEDED') return { outcome: 'succeeded', error: null }
  return { outcome: job.state === 'CANCELED' ? 'canceled' : 'failed', error: job.error }
}

const superseded = (newer: string | undefined): DeviceError | null =>
  newer === undefined ? null : { code: 'CANCELED', message: `rollout ${newer}, which is newer, has the device` }
