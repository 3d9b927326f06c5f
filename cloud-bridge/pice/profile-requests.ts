import type { Clock } from '../../core/base/clock.ts'
import { JobSubmission } from '../../core/protocol/jobs.ts'
import type { JobQueue } from '../queue/job-queue.ts'

/** Minimum time between two requests to one device, and the time that a profile may take. */
const everyMs = 10 * 60_000

/** Devices whose small models the bridge does not know: they are asked for a profile when they are idle. */
export class ProfileRequests {
  readonly #queue: Pick<JobQueue, 'submit'>
  readonly #clock: Clock
  readonly #wanted = new Set<string>()
  readonly #askedMs = new Map<string, number>()

  constructor(queue: Pick<JobQueue, 'submit'>, clock: Clock) {
    this.#queue = queue
    this.#clock = clock
  }

  want(device: string): void {
    const askedMs = this.#askedMs.get(device) ?? Number.NEGATIVE_INFINITY
    if (this.#clock.nowMs() - askedMs >= everyMs) this.#wanted.add(device)
  }

  get areWanted(): boolean {
    return this.#wanted.size > 0
  }

  /** The device is idle. */
  onIdle(device: string): void {
    if (!this.#wanted.delete(device)) return
    this.#askedMs.set(device, this.#clock.nowMs())
    this.#queue.submit([JobSubmission.parse({ kind: 'profile', input: {}, device, deadlineS: everyMs / 1_000, attempts: 2 })])
  }
}
