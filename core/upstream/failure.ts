import { BrimError } from '../base/errors.ts'
import { visibleLine } from '../base/visible-text.ts'

const maxQuoted = 300
const brokenRetryAfterMs = 1_000

/** Text of the server, as messages quote it. */
export const brief = (text: string): string => visibleLine(text.length > maxQuoted ? `${text.slice(0, maxQuoted)}…` : text)

/** The errors of one upstream. Applications see the messages, so they name the model; the log has the server's address. */
export class UpstreamFailures {
  readonly #model: string

  constructor(model: string) {
    this.#model = model
  }

  /** @param what follows the upstream's name @param retryAfterMs set where a retry may succeed */
  failed(what: string, { cause, retryAfterMs }: { cause?: unknown; retryAfterMs?: number | undefined } = {}): BrimError {
    return new BrimError('UPSTREAM_FAILED', `the upstream of ${this.#model} ${what}`, {
      ...(cause === undefined ? {} : { cause }),
      hint: retryAfterMs === undefined ? 'check the URL, the model and the key of the upstream' : 'try again later',
      retryAfterMs,
    })
  }

  /** The connection was lost, or the stream ended, before the answer did. */
  brokenOff(cause?: unknown): BrimError {
    return this.failed('ended its stream in the middle of an answer', { cause, retryAfterMs: brokenRetryAfterMs })
  }

  /** Status 429. */
  busy(retryAfterMs: number): BrimError {
    return new BrimError('QUEUE_FULL', `the upstream of ${this.#model} has too many requests`, {
      hint: 'try again later',
      retryAfterMs,
    })
  }

  rejected(reason: string): BrimError {
    return new BrimError('REQUEST_INVALID', `the upstream of ${this.#model} rejects the request: ${reason}`)
  }
}
