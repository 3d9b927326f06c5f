import { once } from 'node:events'
import { connect } from 'node:tls'

const timeoutMs = 3_000

/** Whether the server behind an `http:` URL completes a TLS handshake. Nothing is sent to it. Never throws. */
export async function speaksTls({ hostname, port }: URL, signal: AbortSignal): Promise<boolean> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  const socket = connect({ host, port: Number(port || 80), rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]) })
    return true
  } catch {
    return false
  } finally {
    socket.on('error', () => {}).destroy()
  }
}
