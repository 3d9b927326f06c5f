import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { addJobs, jobsLeft, judgeJobs, judgeRequest, requestsLeft } from '../../core/policy/quota/quota.ts'
import type { KeyRecord, Whoami } from '../../core/wire/protocol/http/admin.ts'
import type { IdentityStore } from './store.ts'

type UsageStore = Pick<IdentityStore, 'jobsOf' | 'countJobs'>

export interface RequestRates {
  /** Of keys without a quota of their own. */
  readonly keyRequestsPerMinute: number
  /** Of a device, for answers. */
  readonly deviceAnswersPerMinute: number
}

/** Set apart from keys, whose ids hold no space. */
export const deviceCaller = (device: string): string => `device ${device}`

/** Usage of API keys and devices: requests in memory, jobs of the day on disk, so that a restart does not reset them. */
export class Quotas {
  readonly #store: UsageStore
  readonly #rates: RequestRates
  readonly #clock: Clock
  readonly #wallMs: () => number
  /** Key or device → when its requests so far are due at an even rate. */
  readonly #dueMs = new Map<string, number>()

  /** @param wallMs UTC ms */
  constructor(store: UsageStore, rates: RequestRates, clock: Clock, wallMs: () => number) {
    this.#store = store
    this.#rates = rates
    this.#clock = clock
    this.#wallMs = wallMs
  }

  /** @param count of requests, or of answers that one request asks for. @throws BrimError QUOTA_EXCEEDED */
  takeRequests({ id, name, requestsPerMinute: own }: KeyRecord, count = 1): void {
    const perMinute = own ?? this.#rates.keyRequestsPerMinute
    this.#take(id, perMinute, count, `key ${name} may make ${perMinute} requests a minute, each answer counted as one`)
  }

  /** A device asks for answers. @throws BrimError QUOTA_EXCEEDED */
  takeAnswers(device: string, count = 1): void {
    const perMinute = this.#rates.deviceAnswersPerMinute
    this.#take(deviceCaller(device), perMinute, count, `device ${device} may ask for ${perMinute} answers a minute`)
  }

  #take(caller: string, perMinute: number, count: number, rule: string): void {
    const judged = judgeRequest(this.#due(caller), perMinute, this.#clock.nowMs(), count)
    if (judged.kind === 'refused') {
      const { retryAfterMs } = judged
      if (count >= perMinute) throw new BrimError('QUOTA_EXCEEDED', rule, { hint: 'ask for fewer answers at once' })
      throw new BrimError('QUOTA_EXCEEDED', rule, { hint: `try again in ${Math.ceil(retryAfterMs / 1_000)} s`, retryAfterMs })
    }
    this.#dueMs.set(caller, judged.next)
  }

  /** Counts nothing. @throws BrimError QUOTA_EXCEEDED when the key may not submit this many more jobs today */
  requireJobs(key: KeyRecord, wanted: number): void {
    if (key.jobsPerDay === null) return
    const judged = judgeJobs(this.#store.jobsOf(key.id), key.jobsPerDay, wanted, this.#wallMs())
    if (judged.kind === 'granted') return
    const { jobsLeft: left } = this.left(key)
    throw new BrimError(
      'QUOTA_EXCEEDED',
      `key ${key.name} may submit ${key.jobsPerDay} jobs a day; ${left} are left, not ${wanted}`,
      {
        hint: `the next day (UTC) begins in ${Math.ceil(judged.retryAfterMs / 60_000)} min; an admin creates keys with other quotas`,
        retryAfterMs: judged.retryAfterMs,
      },
    )
  }

  countJobs({ id, jobsPerDay }: KeyRecord, count: number): void {
    if (jobsPerDay === null || count === 0) return
    this.#store.countJobs(id, addJobs(this.#store.jobsOf(id), count, this.#wallMs()))
  }

  left({ id, requestsPerMinute: own, jobsPerDay }: KeyRecord): Whoami['quota'] {
    const requestsPerMinute = own ?? this.#rates.keyRequestsPerMinute
    return {
      requestsPerMinute,
      requestsLeft: requestsLeft(this.#due(id), requestsPerMinute, this.#clock.nowMs()),
      jobsPerDay,
      jobsLeft: jobsPerDay === null ? null : jobsLeft(this.#store.jobsOf(id), jobsPerDay, this.#wallMs()),
    }
  }

  #due(id: string): number {
    return this.#dueMs.get(id) ?? Number.NEGATIVE_INFINITY
  }
}
