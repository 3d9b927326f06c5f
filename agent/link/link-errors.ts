import { BrimError, isErrorCode } from '../../core/kit/base/errors.ts'

const unreachableHint = 'is the bridge running, and can this device reach it?'

export const bridgeUnreachable = (message: string, cause?: unknown) =>
  new BrimError('BRIDGE_UNREACHABLE', message, { hint: unreachableHint, ...(cause === undefined ? {} : { cause }) })

export const dataPlaneUnreachable = (url: string, cause?: unknown) =>
  bridgeUnreachable(`the bridge's data plane ${url} cannot be reached`, cause)

/** The WebSocket closed before the bridge welcomed the device. */
export function connectError(url: string, error: BrimError): BrimError {
  if (error.cause instanceof Error && error.cause.message.endsWith(' 401'))
    return new BrimError('NOT_AUTHORIZED', `the bridge's data plane ${url} rejected the login of this device`, {
      hint: 'enrol the device with "brim agent enroll"',
    })
  return dataPlaneUnreachable(url, error.cause ?? error)
}

/** The WebSocket closed with this code and reason. */
export function connectionLost(code: number, reason: string, cause: Error | undefined): BrimError {
  const why = reason === '' ? cause?.message : reason
  const detail = why === undefined ? `code ${code}` : `${why}, code ${code}`
  return new BrimError('LINK_LOST', `the connection to the bridge was lost (${detail})`, {
    ...(cause ? { cause } : {}),
    hint: 'repeat the request; the agent reconnects by itself',
  })
}

/** An error that the bridge reported. A code of a newer release becomes LINK_LOST, with that code in the message. */
export function remoteError(code: string, message: string, retryAfterMs?: number): BrimError {
  const retry = retryAfterMs === undefined ? {} : { retryAfterMs, hint: `try again in ${retryAfterMs} ms` }
  if (isErrorCode(code)) return new BrimError(code, `the bridge: ${message}`, retry)
  return new BrimError('LINK_LOST', `the bridge ended the session: ${message} (${code})`, retry)
}
