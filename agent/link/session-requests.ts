import type { Clock } from '../../core/kit/base/clock.ts'
import { bridgeUnreachable } from './link-errors.ts'
import type { LinkSession, LinkSessionOptions, OpenSession, SessionTransport } from './link-session.ts'

/** Time for the bridge to open a session. */
const openTimeoutMs = 5_000

export interface SessionRequestsOptions {
  /** URL of the data plane. */
  readonly url: string
  readonly clock: Clock
  /** Aborted, with the reason, when the connection has closed. */
  readonly ended: AbortSignal
}

/** What the device alone decides of a session. */
export type SessionForm = Pick<SessionTransport, 'wire' | 'coders'> & Pick<LinkSessionOptions, 'answer'>

export interface SentRequest extends SessionForm {
  readonly modelId: string
  /** The session, if the device did not wait for the bridge to open it. */
  readonly early?: OpenSession
  readonly bytesUp: number
  /** Called once, when the request is answered or given up. */
  readonly settled: () => void
}

export interface PendingRequest extends SentRequest {
  resolve(session: LinkSession): void
  reject(error: unknown): void
}

/** The session requests of one connection that the bridge has not answered. */
export class SessionRequests {
  readonly #options: SessionRequestsOptions
  readonly #pending = new Map<number, PendingRequest>()
  #last = 0
  #timeouts = 0

  constructor(options: SessionRequestsOptions) {
    this.#options = options
  }

  get count(): number {
    return this.#pending.size
  }

  /** Whether no request has timed out since the last sign of life. */
  get isResponsive(): boolean {
    return this.#timeouts === 0
  }

  onSignOfLife(): void {
    this.#timeouts = 0
  }

  /**
   * @param send sends the request of this number
   * @throws the signal's reason; BrimError BRIDGE_UNREACHABLE after 5 s; what the bridge rejects it with
   */
  add(send: (request: number) => SentRequest, signal: AbortSignal): Promise<LinkSession> {
    const { clock, url, ended } = this.#options
    this.#last += 1
    const request = this.#last
    const sent = send(request)
    const done = new AbortController()
    return new Promise<LinkSession>((resolve, reject) => {
      this.#pending.set(request, { ...sent, resolve, reject })
      /** Removes the request's entry, so that a session that the bridge opens later is closed at once. */
      const giveUp = (error: unknown) => {
        this.#pending.delete(request)
        reject(error)
      }
      signal.addEventListener('abort', () => giveUp(signal.reason), { once: true, signal: done.signal })
      clock.sleep(openTimeoutMs, AbortSignal.any([done.signal, ended])).then(
        () => {
          this.#timeouts += 1
          giveUp(bridgeUnreachable(`the bridge at ${url} did not open a session within ${openTimeoutMs} ms`))
        },
        () => {},
      )
    }).finally(() => {
      done.abort()
      sent.settled()
    })
  }

  /** Removes and returns the request of this number; undefined: the device has given it up. */
  take(request: number): PendingRequest | undefined {
    const pending = this.#pending.get(request)
    this.#pending.delete(request)
    return pending
  }

  rejectAll(reason: unknown): void {
    for (const { reject } of this.#pending.values()) reject(reason)
    this.#pending.clear()
  }
}
