/** A queued job that may be dispatched now. */
export interface QueuedJob {
  /** Order of submission. */
  readonly n: number
  readonly kind: string
  readonly priority: number
  /** The only device that may run it; null: any device that supports the kind. */
  readonly target: string | null
}

export interface AvailableDevice {
  readonly device: string
  readonly kinds: readonly string[]
  /** Number of further jobs it may be given. */
  readonly freeSlots: number
}

export interface Assignment<J> {
  readonly job: J
  readonly device: string
}

/** A device runs the jobs of each lane one at a time, beside those of the other. `maintenance`: what changes the device. */
export const lanes = ['work', 'maintenance'] as const
export type Lane = (typeof lanes)[number]

/**
 * Jobs of a lane that one device may hold. Of work, one that runs and the next one, so that the device need not wait for a
 * round trip. More would only wait behind the first.
 */
export const jobsPerDevice: Readonly<Record<Lane, number>> = { work: 2, maintenance: 1 }

/**
 * Assigns queued jobs to devices. Jobs bound to a device go first, then the highest priority, then the oldest.
 * An unbound job goes to the device with the most free slots that supports its kind.
 */
export function assignJobs<J extends QueuedJob>(jobs: readonly J[], devices: readonly AvailableDevice[]): Assignment<J>[] {
  const free = devices.map((device) => ({ ...device }))
  const byName = new Map(free.map((device) => [device.device, device]))
  const assignments: Assignment<J>[] = []
  for (const job of [...jobs].sort(byUrgency)) {
    const device = job.target === null ? freest(job.kind, free) : byName.get(job.target)
    if (device === undefined || device.freeSlots <= 0) continue
    device.freeSlots -= 1
    assignments.push({ job, device: device.device })
  }
  return assignments
}

const byUrgency = (a: QueuedJob, b: QueuedJob) =>
  Number(a.target === null) - Number(b.target === null) || b.priority - a.priority || a.n - b.n

function freest<D extends AvailableDevice>(kind: string, devices: readonly D[]): D | undefined {
  let best: D | undefined
  for (const device of devices) if (device.freeSlots > (best?.freeSlots ?? 0) && device.kinds.includes(kind)) best = device
  return best
}

/**
 * Moves jobs that wait behind a running job to idle devices, one job to each idle device.
 * @param waiting accepted but not started, not bound to a device, in order of urgency
 */
export function rebalanceJobs<J extends Pick<QueuedJob, 'kind'>>(
  waiting: readonly J[],
  idle: readonly Omit<AvailableDevice, 'freeSlots'>[],
): Assignment<J>[] {
  const free = [...idle]
  return waiting.flatMap((job) => {
    const at = free.findIndex(({ kinds }) => kinds.includes(job.kind))
    const [taken] = at < 0 ? [] : free.splice(at, 1)
    return taken ? [{ job, device: taken.device }] : []
  })
}
