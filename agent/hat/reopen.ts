import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { LinkSession } from '../link/link-session.ts'

export interface ReopenOptions {
  /** Opens a session at the best available bridge. */
  open(signal: AbortSignal): Promise<LinkSession>
  /** How long an interrupted answer waits for a bridge, in ms. */
  readonly patienceMs: number
  readonly clock: Clock
}

/** An answer is reported as waiting once it has waited this long: a second bridge takes over sooner. */
const noticeMs = 1_000

/** Failures that end a session but not its answer: link or bridge failed, or the bridge dropped the session. */
const linkFailures: ReadonlySet<ErrorCode> = new Set(['LINK_LOST', 'SESSION_UNKNOWN', 'FRAME_INVALID'])
/** Failures after which another attempt to open a session may succeed. */
const openFailures: ReadonlySet<ErrorCode> = new Set([
  ...linkFailures,
  'BRIDGE_UNREACHABLE',
  'SESSION_REFUSED',
  'ATTESTATION_REFUSED',
])
/** The wait between two attempts doubles from the first to the longest. */
const waits = { firstMs: 50, longestMs: 2_000 }

export const isLinkFailure = (error: unknown): error is BrimError => error instanceof BrimError && linkFailures.has(error.code)

/** Opens a session. It is retried if the link fails meanwhile, but not if there is no bridge at all. @throws as `reopen`, and `open` */
export async function open(options: ReopenOptions, signal: AbortSignal): Promise<LinkSession> {
  try {
    return await options.open(signal)
  } catch (error) {
    if (signal.aborted || !isLinkFailure(error)) throw error
    return reopen(options, signal)
  }
}

/**
 * Opens a session in place of a lost one.
 * @param onWaiting called, at most once, when no bridge has accepted it for a while
 * @throws BrimError LINK_LOST when no bridge accepts it within `patienceMs`; other errors of `open`; the signal's reason
 */
export async function reopen(
  { open, patienceMs, clock }: ReopenOptions,
  signal: AbortSignal,
  onWaiting: () => void = () => {},
): Promise<LinkSession> {
  const done = new AbortController()
  const expired = new AbortController()
  // A sleep rather than a comparison of times: the clock may jump.
  clock.sleep(patienceMs, AbortSignal.any([done.signal, signal])).then(
    () => expired.abort(),
    () => {},
  )
  clock.sleep(noticeMs, AbortSignal.any([done.signal, signal])).then(onWaiting, () => {})
  try {
    for (let waitMs = waits.firstMs; ; waitMs = Math.min(2 * waitMs, waits.longestMs)) {
      try {
        return await open(signal)
      } catch (error) {
        if (signal.aborted || !(error instanceof BrimError) || !openFailures.has(error.code)) throw error
        await clock.sleep(waitMs, AbortSignal.any([expired.signal, signal])).catch(() => {})
        signal.throwIfAborted()
        if (expired.signal.aborted) throw noBridge(patienceMs, error)
      }
    }
  } finally {
    done.abort()
  }
}

const noBridge = (patienceMs: number, cause: BrimError) =>
  new BrimError('LINK_LOST', `the link failed during the answer, and no bridge took it over in ${patienceMs / 1_000} s`, {
    cause,
    hint: 'ask again; with a second bridge (brim agent run --bridge A --bridge B) such answers continue',
  })
