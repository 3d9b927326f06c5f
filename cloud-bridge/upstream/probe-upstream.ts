import { UpstreamFailures } from '../../core/answer/upstream/failure.ts'
import { Watchdog } from '../../core/answer/upstream/watchdog.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { sendRequest } from '../../core/kit/base/http-client.ts'

/** From the start of a probe to the head of its response. */
const probeMs = 5_000
/** As after other failures to connect. */
const retryAfterMs = 1_000

export interface ProbedServer {
  /** Begins messages, which clients see. */
  readonly name: string
  readonly url: string
  /** @throws BrimError CONFIG_INVALID */
  readonly key: () => string | undefined
}

/**
 * Asks a server for its models. Any response but a server error shows that it is alive: some servers do not list their models, and
 * requests tell whether key and model are right.
 * @returns why it is not alive; undefined: it is
 */
export async function probeUpstream(
  { name, url, key }: ProbedServer,
  clock: Clock,
  signal: AbortSignal,
): Promise<BrimError | undefined> {
  const failures = new UpstreamFailures('', name)
  const watchdog = new Watchdog(clock)
  watchdog.allow(probeMs, () => failures.failed(`does not respond within ${probeMs / 1_000} s`, { retryAfterMs }))
  const to = new URL(url)
  to.pathname += '/models'
  try {
    const token = key()
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const response = await sendRequest(to, { headers, signal: AbortSignal.any([signal, watchdog.signal]) })
    response.destroy()
    const { statusCode: status = 0 } = response
    return status < 500 ? undefined : failures.failed(`responds with status ${status}`, { retryAfterMs })
  } catch (error) {
    return error instanceof BrimError ? error : failures.unreachable(retryAfterMs, error)
  } finally {
    watchdog.close()
  }
}
