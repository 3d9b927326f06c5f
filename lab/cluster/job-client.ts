import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { JobState } from '../../core/policy/jobs/job.ts'

/** A job as `GET /v1/jobs/<id>` shows it. */
export interface ShownJob {
  readonly state: JobState
  readonly attempt: number
  readonly result: { readonly text: string } | null
}

interface JobClientOptions {
  readonly apiKey?: string
  /** A request is repeated while the bridge is away, at most for this long. Absent: it fails at once. */
  readonly maxUnreachableMs?: number
}

const retryEveryMs = 20

/** Submits and reads jobs. Keeps its connections, unlike the CLI's client. */
export class JobClient {
  readonly #url: string
  readonly #signal: AbortSignal
  readonly #options: JobClientOptions

  constructor(httpUrl: string, signal: AbortSignal, options: JobClientOptions = {}) {
    this.#url = httpUrl
    this.#signal = signal
    this.#options = options
  }

  /** Submits a job, which may have an idempotency key. @returns the job's id, once the bridge has acknowledged it */
  async submit(job: object, key?: string): Promise<string> {
    const headers = { 'content-type': 'application/json', ...(key !== undefined && { 'idempotency-key': key }) }
    const body = await this.#request('/v1/jobs', { method: 'POST', headers, body: JSON.stringify(job) })
    return (body as { id: string }).id
  }

  /** Undefined: the bridge knows no such job. */
  async show(id: string): Promise<ShownJob | undefined> {
    return (await this.#request(`/v1/jobs/${id}`)) as ShownJob | undefined
  }

  /** Types of a job's events, oldest first. */
  async history(id: string): Promise<readonly string[]> {
    const body = (await this.#request(`/v1/jobs/${id}/events`)) as { events: { type: string }[] } | undefined
    return body?.events.map(({ type }) => type) ?? []
  }

  /** From the dispatch of a job to its acceptance, as the bridge measures it; null before the first. */
  async dispatchMs(): Promise<{ readonly p50: number | null; readonly p99: number | null; readonly count: number }> {
    const health = (await this.#request('/health')) as { jobs: { dispatchMs: { p50: number; p99: number; count: number } } }
    return health.jobs.dispatchMs
  }

  /** @returns the response's body; undefined where the bridge responds with 404 */
  async #request(path: string, init: RequestInit & { headers?: Record<string, string> } = {}): Promise<unknown> {
    const { apiKey, maxUnreachableMs = 0 } = this.#options
    const headers = { ...init.headers, ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) }
    for (const startedMs = systemClock.nowMs(); ; await systemClock.sleep(retryEveryMs)) {
      this.#signal.throwIfAborted()
      try {
        const response = await fetch(this.#url + path, { ...init, headers })
        const body: unknown = await response.json()
        if (response.ok) return body
        if (response.status === 404) return undefined
        // Between two primaries.
        if (response.status === 503) throw new Error('the bridge is not available now')
        throw new BrimError('REQUEST_INVALID', `${path}: status ${response.status}, ${JSON.stringify(body)}`)
      } catch (cause) {
        if (cause instanceof BrimError) throw cause
        if (systemClock.nowMs() - startedMs < maxUnreachableMs) continue
        throw new BrimError('BRIDGE_UNREACHABLE', `the bridge did not respond for ${maxUnreachableMs / 1_000} s`, { cause })
      }
    }
  }
}
