import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { jobsLeft, judgeJobs, judgeRequest, requestsLeft } from '../../core/policy/quota/quota.ts'
import type { IdentityStore, KeyRecord } from './store.ts'

export interface QuotaLeft {
  readonly requestsPerMinute: number | null
  readonly requestsLeft: number | null
  readonly jobsPerDay: number | null
  readonly jobsLeft: number | null
}

/** What keys have asked for: requests in memory, a day's jobs on disk, so that a restart gives nothing away. */
export class Quotas {
  readonly #store: Pick<IdentityStore, 'jobsOf' | 'countJobs'>
  readonly #clock: Clock
  readonly #wallMs: () => number
  /** Key → when its requests so far are due. */
  readonly #dueMs = new Map<string, number>()

  /** @param wallMs UTC ms */
  constructor(store: Pick<IdentityStore, 'jobsOf' | 'countJobs'>, clock: Clock, wallMs: () => number) {
    this.#store = store
    this.#clock = clock
    this.#wallMs = wallMs
  }

  /** @throws BrimError QUOTA_EXCEEDED */
  takeRequest({ id, name, requestsPerMinute }: KeyRecord): void {
    if (requestsPerMinute === null) return
    const judged = judgeRequest(this.#due(id), requestsPerMinute, this.#clock.nowMs())
    if (judged.kind === 'refused')
      throw new BrimError('QUOTA_EXCEEDED', `key ${name} may make ${requestsPerMinute} requests a minute`, {
        hint: `try again in ${Math.ceil(judged.retryAfterMs / 1_000)} s`,
        retryAfterMs: judged.retryAfterMs,
      })
    this.#dueMs.set(id, judged.next)
  }

  /** @throws BrimError QUOTA_EXCEEDED where so many more would be too many today; nothing is counted yet */
  requireJobs(key: KeyRecord, wanted: number): void {
    if (key.jobsPerDay === null) return
    const judged = judgeJobs(this.#store.jobsOf(key.id), key.jobsPerDay, wanted, this.#wallMs())
    if (judged.kind === 'granted') return
    const { jobsLeft: left } = this.left(key)
    throw new BrimError(
      'QUOTA_EXCEEDED',
      `key ${key.name} may submit ${key.jobsPerDay} jobs a day; ${left} are left, not ${wanted}`,
      {
        hint: `the next day (UTC) begins in ${Math.ceil(judged.retryAfterMs / 60_000)} min; an admin makes keys with other quotas`,
        retryAfterMs: judged.retryAfterMs,
      },
    )
  }

  /** So many new jobs have been taken in. */
  countJobs(key: KeyRecord, taken: number): void {
    if (key.jobsPerDay === null || taken === 0) return
    const judged = judgeJobs(this.#store.jobsOf(key.id), Number.POSITIVE_INFINITY, taken, this.#wallMs())
    if (judged.kind === 'granted') this.#store.countJobs(key.id, judged.next)
  }

  left({ id, requestsPerMinute, jobsPerDay }: KeyRecord): QuotaLeft {
    return {
      requestsPerMinute,
      requestsLeft: requestsPerMinute === null ? null : requestsLeft(this.#due(id), requestsPerMinute, this.#clock.nowMs()),
      jobsPerDay,
      jobsLeft: jobsPerDay === null ? null : jobsLeft(this.#store.jobsOf(id), jobsPerDay, this.#wallMs()),
    }
  }

  #due(id: string): number {
    return this.#dueMs.get(id) ?? Number.NEGATIVE_INFINITY
  }
}
