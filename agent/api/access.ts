import type { IncomingHttpHeaders } from 'node:http'
import { RequestRefused } from '../../core/answer/api/http-errors.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { isLoopback } from '../../core/kit/base/loopback.ts'
import { isSameSecret } from '../../core/kit/base/same-secret.ts'

/** Which clients may use the API. */
export interface ApiAccess {
  /** One of them is required as bearer token; absent: none is. */
  readonly keys?: readonly string[] | undefined
  /** Names and addresses by which clients may call the API, in addition to those of loopback. */
  readonly allowedHosts: readonly string[]
  /** Of web pages that may call the API, besides those of the allowed hosts. */
  readonly allowedOrigins?: readonly string[] | undefined
}

/** @throws BrimError LISTEN_REFUSED for an address beyond loopback without keys and allowed hosts */
export function requireSafeAddress(host: string, { keys, allowedHosts }: ApiAccess): void {
  if (isLoopback(host)) return
  const missing = [...(keys ? [] : ['--api-key-file']), ...(allowedHosts.length > 0 ? [] : ['--api-allow-host'])]
  if (missing.length === 0) return
  throw new BrimError('LISTEN_REFUSED', `the API listens on ${host} only with ${missing.join(' and ')}`, {
    hint: 'its clients need a key, and --api-allow-host names the host in their URL; or use 127.0.0.1 and an SSH tunnel',
  })
}

/**
 * Why a request is rejected; undefined: it is not. A page of another machine can forge neither header: DNS rebinding leaves the
 * attacker's name in Host, and a cross-site request carries its Origin.
 * @returns a refusal with status 403, or API_KEY_INVALID
 */
export function rejectionOf({ host = '', origin, authorization }: IncomingHttpHeaders, access: ApiAccess): BrimError | undefined {
  const { keys, allowedHosts, allowedOrigins = [] } = access
  const isAllowed = (url: string) => {
    const name = URL.canParse(url) ? new URL(url).hostname : ''
    return isLoopback(name) || allowedHosts.includes(name)
  }
  const isForeignOrigin = origin !== undefined && !isAllowed(origin) && !allowedOrigins.includes(origin)
  const foreign = !isAllowed(`http://${host}`) ? `Host "${host}"` : isForeignOrigin && `Origin "${origin}"`
  if (foreign)
    return new RequestRefused(403, `${foreign} is not this machine`, {
      hint: 'call the API by 127.0.0.1 or localhost, or allow the host with --api-allow-host; a web page with --api-allow-origin',
    })
  const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
  if (!keys || keys.some((key) => isSameSecret(given, key))) return undefined
  return new BrimError('API_KEY_INVALID', given === '' ? 'the request has no API key' : 'the API key is wrong', {
    hint: 'send "authorization: Bearer <key>" with a key of the agent, or give its file to "brim ask" with --api-key-file',
  })
}
