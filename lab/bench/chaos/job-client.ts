import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { JobState } from '../../../core/policy/jobs/job.ts'

/** A job as `GET /v1/jobs/<id>` shows it. */
export interface ShownJob {
  readonly state: JobState
  readonly attempt: number
  readonly result: { readonly text: string } | null
}

const retryEveryMs = 20
/** A bridge that is killed comes back within this time; longer is a finding. */
const maxUnreachableMs = 60_000

/** Submits and reads jobs; repeats each request while the bridge is away. Keeps its connections, unlike the CLI's client. */
export class JobClient {
  readonly #url: string
  readonly #signal: AbortSignal

  constructor(httpUrl: string, signal: AbortSignal) {
    this.#url = `${httpUrl}/v1/jobs`
    this.#signal = signal
  }

  /** Submits a job under an idempotency key. @returns the job's id, once the bridge has acknowledged it */
  async submit(key: string, job: object): Promise<string> {
    const headers = { 'content-type': 'application/json', 'idempotency-key': key }
    const body = await this.#request('', { method: 'POST', headers, body: JSON.stringify(job) })
    return (body as { id: string }).id
  }

  /** Undefined: the bridge knows no such job. */
  async show(id: string): Promise<ShownJob | undefined> {
    return (await this.#request(`/${id}`)) as ShownJob | undefined
  }

  /** Types of a job's events, oldest first. */
  async history(id: string): Promise<readonly string[]> {
    const body = (await this.#request(`/${id}/events`)) as { events: { type: string }[] } | undefined
    return body?.events.map(({ type }) => type) ?? []
  }

  /** @returns the response's body; undefined where the bridge responds with 404 */
  async #request(path: string, init: RequestInit = {}): Promise<unknown> {
    for (const startedMs = systemClock.nowMs(); ; await systemClock.sleep(retryEveryMs)) {
      this.#signal.throwIfAborted()
      try {
        const response = await fetch(this.#url + path, init)
        const body: unknown = await response.json()
        if (response.ok) return body
        if (response.status === 404) return undefined
        throw new BrimError('REQUEST_INVALID', `the bridge responds to a request about jobs with status ${response.status}`)
      } catch (cause) {
        if (cause instanceof BrimError) throw cause
        if (systemClock.nowMs() - startedMs <= maxUnreachableMs) continue
        throw new BrimError('BRIDGE_UNREACHABLE', `the bridge did not respond for ${maxUnreachableMs / 1_000} s`, { cause })
      }
    }
  }
}
