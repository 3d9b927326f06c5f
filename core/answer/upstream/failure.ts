import { BrimError } from '../../kit/base/errors.ts'
import { visibleLine } from '../../kit/base/visible-text.ts'

const maxQuoted = 300
const brokenRetryAfterMs = 1_000

/** Text of the server, as messages quote it. */
export const brief = (text: string): string => visibleLine(text.length > maxQuoted ? `${text.slice(0, maxQuoted)}…` : text)

/** Of OpenAI and vLLM; of llama.cpp. */
const contextCodes: ReadonlySet<string> = new Set(['context_length_exceeded', 'exceed_context_size_error'])

/** The errors of one upstream. Applications see the messages, so they name the model; the log has the server's address. */
export class UpstreamFailures {
  /** Begins messages. */
  protected readonly serverName: string

  constructor(model: string, serverName = `the upstream of ${model}`) {
    this.serverName = serverName
  }

  /** For a code that the server gives its error, where that says more than the status; undefined: it does not. */
  coded(code: string, reason: string, _retryAfterMs: number): BrimError | undefined {
    if (!contextCodes.has(code)) return undefined
    return new BrimError('CONTEXT_OVERFLOW', `${this.serverName} rejects the request: ${reason}`, { hint: 'shorten the prompt' })
  }

  /** No connection. */
  unreachable(retryAfterMs: number, cause: unknown): BrimError {
    return this.failed('cannot be reached', { cause, retryAfterMs })
  }

  /** @param what follows the upstream's name @param retryAfterMs set where a retry may succeed */
  failed(what: string, { cause, retryAfterMs }: { cause?: unknown; retryAfterMs?: number | undefined } = {}): BrimError {
    return new BrimError('UPSTREAM_FAILED', `${this.serverName} ${what}`, {
      ...(cause === undefined ? {} : { cause }),
      hint: retryAfterMs === undefined ? 'check its URL, model and key' : 'ask again later',
      retryAfterMs,
    })
  }

  /** The connection was lost, or the stream ended, before the answer did. */
  brokenOff(cause?: unknown): BrimError {
    return this.failed('ended its stream in the middle of an answer', { cause, retryAfterMs: brokenRetryAfterMs })
  }

  /** Status 429. */
  busy(retryAfterMs: number): BrimError {
    return new BrimError('QUEUE_FULL', `${this.serverName} has too many requests`, {
      hint: 'ask again later',
      retryAfterMs,
    })
  }

  rejected(reason: string): BrimError {
    return new BrimError('REQUEST_INVALID', `${this.serverName} rejects the request: ${reason}`)
  }
}
