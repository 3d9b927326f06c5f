import { connect, type TLSSocket } from 'node:tls'
import { BrimError } from './errors.ts'
import { pinOf } from './tls-pin.ts'

const timeoutMs = 10_000
const defaultPorts: Record<string, number> = { 'https:': 443, 'wss:': 443, 'mqtts:': 8883 }

/**
 * A TLS connection to whoever has the pinned key. The key is all that counts: the certificate's dates mean nothing to a device
 * whose clock stands in 1970, its names nothing where addresses change. Nothing is sent before it is checked.
 * @param pin as `pinOf` gives it
 * @throws BrimError IDENTITY_INVALID, BRIDGE_UNREACHABLE
 */
export function connectPinned(url: string, pin: string, signal?: AbortSignal): Promise<TLSSocket> {
  const { protocol, hostname, port, host } = new URL(url)
  const name = hostname.replace(/^\[(.*)\]$/, '$1')
  const unreachable = (cause: unknown) =>
    new BrimError('BRIDGE_UNREACHABLE', `${host} cannot be reached by TLS`, { cause, hint: 'does the bridge run, with TLS?' })
  return new Promise((resolve, reject) => {
    const socket = connect({
      host: name,
      port: port === '' ? (defaultPorts[protocol] ?? 443) : Number(port),
      ...(/^[\d.]+$|:/.test(name) ? {} : { servername: name }),
      // Checked below.
      rejectUnauthorized: false,
    })
    const abort = () => socket.destroy(signal?.reason instanceof Error ? signal.reason : new Error('aborted'))
    const failed = (cause: unknown) => {
      signal?.removeEventListener('abort', abort)
      reject(signal?.aborted ? signal.reason : unreachable(cause))
    }
    socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)))
    socket.once('error', failed)
    if (signal?.aborted) return abort()
    signal?.addEventListener('abort', abort, { once: true })
    socket.once('secureConnect', () => {
      const shown = socket.getPeerX509Certificate()
      signal?.removeEventListener('abort', abort)
      socket.off('error', failed)
      socket.setTimeout(0)
      if (shown !== undefined && pinOf(shown.publicKey) === pin) return resolve(socket)
      socket.on('error', () => {})
      socket.destroy()
      reject(
        new BrimError('IDENTITY_INVALID', `${host} shows another key than the one that is pinned`, {
          hint: 'is that the right address? if the bridge has a new key, enrol or log in anew',
        }),
      )
    })
  })
}
