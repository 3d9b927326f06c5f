import type { EventEmitter } from 'node:events'
import { isIPv4 } from 'node:net'
import type { Bonjour } from 'bonjour-service'

export interface MulticastAddress {
  /** Address of the network interface; absent: all interfaces. */
  readonly address?: string | undefined
  /** UDP port. Default: 5353, that of multicast DNS. */
  readonly port?: number
}

/**
 * Sends and receives multicast DNS.
 * @param onFailure the port cannot be opened, or a packet not be sent: the program goes on without
 */
export async function openMulticastDns(
  { address, port = 5_353 }: MulticastAddress,
  onFailure: (error: unknown) => void,
): Promise<Bonjour> {
  const { default: Library } = await import('bonjour-service')
  // A socket that is bound to the interface's own address would receive no multicast.
  const at = { port, ...(address !== undefined && isIPv4(address) && { interface: address, bind: '0.0.0.0' }) }
  const opened = new Library(at, onFailure)
  // A port that cannot be opened is reported here alone, and would end the process.
  const { mdns } = (opened as unknown as { readonly server: { readonly mdns: EventEmitter } }).server
  mdns.on('error', onFailure)
  return opened
}
