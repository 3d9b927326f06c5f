import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

const family = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** Whether the text is an IP address, or a network such as 10.0.0.0/8. */
export function isAddressOrNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const maxBits = { 4: 32, 6: 128 }[isIP(address)]
  if (maxBits === undefined || rest.length > 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= maxBits)
}

/** The reverse proxies in front of a server: of their requests, X-Forwarded-For names the client. */
export class Proxies {
  readonly #trusted = new BlockList()
  readonly #isNone: boolean

  /** @param networks addresses and networks, as `isAddressOrNetwork` */
  constructor(networks: readonly string[]) {
    this.#isNone = networks.length === 0
    for (const network of networks) {
      const [address = '', bits] = network.split('/')
      if (bits === undefined) this.#trusted.addAddress(address, family(address))
      else this.#trusted.addSubnet(address, Number(bits), family(address))
    }
  }

  /** @param address of a socket */
  includes(address: string): boolean {
    if (this.#isNone) return false
    const plain = plainAddress(address)
    return isIP(plain) !== 0 && this.#trusted.check(plain, family(plain))
  }

  /**
   * Address of the client. Each proxy appends the address that it was called from, so that of the addresses from the end on the
   * first that is no proxy is the client. What stands before it may be invented.
   */
  clientOf({ socket, headers }: Pick<IncomingMessage, 'socket' | 'headers'>): string {
    let client = plainAddress(socket.remoteAddress ?? '')
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join().split(',').reverse()
    for (const hop of forwarded) {
      const address = plainAddress(withoutPort(hop.trim()))
      if (isIP(address) === 0 || !this.includes(client)) break
      client = address
    }
    return client
  }
}

export const noProxies = new Proxies([])

/** An IPv4 address as such where the socket takes IPv6 too. */
const plainAddress = (address: string) => address.replace(/^::ffff:(?=[\d.]+$)/i, '')

/** Some proxies write the port, too: 192.0.2.1:4711, [2001:db8::1]:4711. */
const withoutPort = (hop: string) => hop.replace(/^\[(.*)\](?::\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1')
