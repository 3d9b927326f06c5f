import type { Clock } from '../../../core/base/clock.ts'
import { BrimError } from '../../../core/base/errors.ts'

/** A job as `GET /v1/jobs/<id>` shows it. */
export interface ShownJob {
  readonly id: string
  readonly state: string
  readonly attempt: number
  readonly result: { readonly text: string } | null
}

const retryEveryMs = 20
/** A bridge that is killed comes back within this time; longer is a finding. */
const maxUnreachableMs = 60_000

/** Submits and reads jobs; repeats each request while the bridge is away. */
export class JobClient {
  readonly #url: string
  readonly #clock: Clock
  readonly #signal: AbortSignal

  constructor(httpUrl: string, clock: Clock, signal: AbortSignal) {
    this.#url = `${httpUrl}/v1/jobs`
    this.#clock = clock
    this.#signal = signal
  }

  /** Submits a job under an idempotency key. @returns the job's id, once the bridge has acknowledged it */
  async submit(key: string, job: object): Promise<string> {
    const headers = { 'content-type': 'application/json', 'idempotency-key': key }
    const { status, body } = await this.#request('', { method: 'POST', headers, body: JSON.stringify(job) })
    if (status !== 202) throw new BrimError('REQUEST_INVALID', `the bridge refused a job with status ${status}`)
    return (body as { id: string }).id
  }

  /** Undefined: the bridge knows no such job. */
  async show(id: string): Promise<ShownJob | undefined> {
    const { status, body } = await this.#request(`/${id}`)
    return status === 200 ? (body as ShownJob) : undefined
  }

  /** Types of a job's events, oldest first. */
  async history(id: string): Promise<readonly string[]> {
    const { body } = await this.#request(`/${id}/events`)
    return (body as { events: { type: string }[] }).events.map(({ type }) => type)
  }

  async #request(path: string, init: RequestInit = {}): Promise<{ status: number; body: unknown }> {
    for (const startedMs = this.#clock.nowMs(); ; await this.#clock.sleep(retryEveryMs)) {
      this.#signal.throwIfAborted()
      try {
        const response = await fetch(this.#url + path, init)
        return { status: response.status, body: await response.json() }
      } catch (cause) {
        if (this.#clock.nowMs() - startedMs <= maxUnreachableMs) continue
        throw new BrimError('BRIDGE_UNREACHABLE', `the bridge did not answer for ${maxUnreachableMs / 1_000} s`, { cause })
      }
    }
  }
}
