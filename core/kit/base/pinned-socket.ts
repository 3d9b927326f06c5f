import type { Socket } from 'node:net'
import { connect, type TLSSocket } from 'node:tls'
import { BrimError } from './errors.ts'
import { pinOf, serverKeyOf } from './tls-pin.ts'

/**
 * Opens the connection to a server whose key is pinned; undefined: no key is, and TLS uses the certificates that this system
 * trusts. @throws BrimError
 */
export type Dial = (url: string, signal: AbortSignal) => Promise<Socket | undefined>

const timeoutMs = 10_000
const defaultPorts: Record<string, number> = { 'https:': 443, 'wss:': 443, 'mqtts:': 8883 }

/**
 * Opens a TLS connection and verifies the server's public key before anything is sent. Only the key counts: a device whose
 * clock is in 1970 cannot check the certificate's dates, and addresses change.
 * @param pins as returned by `pinOf`: the key must be one of them
 * @throws BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE
 */
export function connectPinned(url: string, pins: readonly string[], signal?: AbortSignal): Promise<TLSSocket> {
  const { protocol, hostname, port, host } = new URL(url)
  const name = hostname.replace(/^\[(.*)\]$/, '$1')
  const unreachable = (cause: unknown) =>
    new BrimError('BRIDGE_UNREACHABLE', `${host} cannot be reached over TLS`, {
      cause,
      hint: 'is the bridge running, with TLS enabled?',
    })
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: name,
      port: port === '' ? (defaultPorts[protocol] ?? 443) : Number(port),
      ...(/^[\d.]+$|:/.test(name) ? {} : { servername: name }),
      // The key is verified below.
      rejectUnauthorized: false,
    })
    const abort = () => socket.destroy(signal?.reason instanceof Error ? signal.reason : new Error('aborted'))
    const failed = (cause: unknown) => {
      signal?.removeEventListener('abort', abort)
      reject(signal?.aborted ? signal.reason : unreachable(cause))
    }
    socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no response within ${timeoutMs} ms`)))
    socket.once('error', failed)
    if (signal?.aborted) return abort()
    signal?.addEventListener('abort', abort, { once: true })
    socket.once('secureConnect', () => {
      const key = serverKeyOf(socket)
      signal?.removeEventListener('abort', abort)
      socket.off('error', failed)
      socket.setTimeout(0)
      if (key !== undefined && pins.includes(pinOf(key))) return resolve(socket)
      socket.on('error', () => {})
      socket.destroy()
      reject(
        new BrimError('IDENTITY_INVALID', `the TLS key of ${host} does not match the pinned key`, {
          hint: 'is the address right? if the bridge has a new key, enrol or log in again',
        }),
      )
    })
  })
}
