import { BrimError } from '../../kit/base/errors.ts'
import { shownUrl } from '../../kit/base/shown-url.ts'

/** What the hub was asked for, and how. */
export interface HubQuestion {
  readonly endpoint: string
  /** As in `OWNER/NAME`. */
  readonly repo: string
  readonly revision: string
  readonly hasToken: boolean
}

interface HubRefusal {
  readonly status: number
  /** Header X-Error-Code. */
  readonly errorCode: string | undefined
  /** Header Retry-After. */
  readonly retryAfter: string | undefined
}

const tokenHint = 'set HF_TOKEN to a token of https://huggingface.co/settings/tokens'

/** The error of a response of the hub: HUB_UNAVAILABLE if a retry may succeed. */
export function hubRefused({ endpoint, repo, revision, hasToken }: HubQuestion, refusal: HubRefusal): BrimError {
  const { status, errorCode, retryAfter } = refusal
  const page = `${endpoint}/${repo}`
  if (status === 429) {
    const seconds = /^\d{1,6}$/.test(retryAfter ?? '') ? Number(retryAfter) : undefined
    return new BrimError(
      'HUB_UNAVAILABLE',
      `the hub limits the rate of requests${seconds === undefined ? '' : ` for ${seconds} s`}`,
      {
        hint: `try again later${hasToken ? '' : `; a token has a higher limit: ${tokenHint}`}`,
        retryAfterMs: seconds === undefined ? undefined : 1_000 * seconds,
      },
    )
  }
  if (status >= 500 || status === 408) return hubUnavailable(endpoint, new Error(`it responds with status ${status}`))
  if (errorCode === 'GatedRepo' || status === 403)
    return new BrimError('HUB_REFUSED', `${repo} is gated: the hub gives it only to users who were granted access`, {
      hint: `accept its terms at ${page}, then ${hasToken ? 'use a token of the same user that may read gated models' : tokenHint}`,
    })
  if (errorCode === 'RevisionNotFound')
    return new BrimError('HUB_NOT_FOUND', `${repo} has no revision ${revision}`, {
      hint: `see ${page}/commits, or omit @${revision} for the newest one`,
    })
  if (errorCode === 'EntryNotFound')
    return new BrimError('HUB_NOT_FOUND', `${repo} no longer has a file that its list names`, { hint: 'pull it again' })
  // The hub hides private models and unknown names alike.
  if (status === 401)
    return new BrimError(
      'HUB_REFUSED',
      `${repo} does not exist, or may not be read ${hasToken ? 'with this token' : 'without a token'}`,
      {
        hint: `check the name; for a private or gated model, ${hasToken ? 'check that the token is valid (HF_TOKEN, or the file of "hf auth login")' : tokenHint}`,
      },
    )
  if (status === 404)
    return new BrimError('HUB_NOT_FOUND', `${endpoint} has no model ${repo}, or no revision ${revision} of it`, {
      hint: 'check the name: it is the last part of the address of its page',
    })
  return hubInvalid(`${endpoint} responds with status ${status}`)
}

export const hubUnavailable = (endpoint: string, cause: unknown): BrimError =>
  new BrimError('HUB_UNAVAILABLE', `${shownUrl(endpoint)} cannot be used now: ${causeText(cause)}`, {
    cause,
    hint: 'check the connection, or set HF_ENDPOINT to a mirror; what was downloaded is kept, and the next pull continues',
  })

/** The hub sent something other than it announced, or than its protocol allows. */
export const hubInvalid = (message: string, cause?: unknown): BrimError =>
  new BrimError('HUB_INVALID', message, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'is HF_ENDPOINT right? does a proxy change downloads? pull again, or copy the files from another machine',
  })

/** `fetch` hides the reason in the cause of its error. */
function causeText(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  return cause.cause instanceof Error && cause.cause.message !== '' ? cause.cause.message : cause.message
}
