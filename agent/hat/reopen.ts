import type { Clock } from '../../core/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/base/errors.ts'
import type { LinkSession } from '../link/link-session.ts'

export interface ReopenOptions {
  /** A session at whichever bridge is best now. */
  open(signal: AbortSignal): Promise<LinkSession>
  /** How long an answer waits for a bridge that takes it over. */
  readonly patienceMs: number
  readonly clock: Clock
}

/** What ends a session but not the answer: link or bridge died, the bridge forgot the session, or talks garbage. */
const linkFailures: ReadonlySet<ErrorCode> = new Set(['LINK_LOST', 'SESSION_UNKNOWN', 'FRAME_INVALID'])
/** What keeps a session from being opened now, but perhaps not in a moment. */
const openFailures: ReadonlySet<ErrorCode> = new Set([...linkFailures, 'BRIDGE_UNREACHABLE', 'SESSION_REFUSED'])
/** The first wait between two attempts, which doubles up to the second. */
const waits = { firstMs: 50, longestMs: 2_000 }

export const isLinkFailure = (error: unknown): error is BrimError => error instanceof BrimError && linkFailures.has(error.code)

/**
 * A session in place of one that was lost.
 * @throws BrimError LINK_LOST when no bridge can be had for `patienceMs`; CANCELED; what `open` throws for good
 */
export async function reopen({ open, patienceMs, clock }: ReopenOptions, signal: AbortSignal): Promise<LinkSession> {
  const done = new AbortController()
  const expired = new AbortController()
  // A sleep: by a clock that jumps patience would be over at once, or never.
  clock.sleep(patienceMs, AbortSignal.any([done.signal, signal])).then(
    () => expired.abort(),
    () => {},
  )
  try {
    for (let waitMs = waits.firstMs; ; waitMs = Math.min(2 * waitMs, waits.longestMs)) {
      try {
        return await open(signal)
      } catch (error) {
        if (signal.aborted || !(error instanceof BrimError) || !openFailures.has(error.code)) throw error
        await clock.sleep(waitMs, AbortSignal.any([expired.signal, signal])).catch(() => {})
        signal.throwIfAborted()
        if (expired.signal.aborted) throw givenUp(patienceMs, error)
      }
    }
  } finally {
    done.abort()
  }
}

const givenUp = (patienceMs: number, cause: BrimError) =>
  new BrimError(
    'LINK_LOST',
    `the link broke in the middle of the answer, and no bridge took it over in ${patienceMs / 1_000} s`,
    {
      cause,
      hint: 'ask again; a second bridge (brim agent run --bridge A --bridge B) would take such answers over',
    },
  )
