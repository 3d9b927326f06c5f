/** Maximum connections of one listener. */
export interface ConnectionCaps {
  readonly total: number
  /** From one network; see core/kit/listen/network.ts. */
  readonly perNetwork: number
  /** That have sent no complete request yet, or are between two requests. */
  readonly waiting: number
}

/** What happens to a connection that a client opens: it is refused, or it may replace another one. */
export type ConnectionAdmission<C> = { readonly refusedBy: 'total' | 'perNetwork' } | { readonly replaces: C | undefined }

interface Network<C> {
  count: number
  /** Oldest first. */
  readonly waiting: Set<C>
}

/**
 * The connections of one listener. At a cap, a new connection replaces the one that has waited longest, of the network that
 * waits with most: an honest client sends its request within milliseconds, so a flood of silent connections replaces itself.
 */
export class ConnectionTable<C> {
  readonly #caps: ConnectionCaps
  readonly #isCapped: (network: string) => boolean
  readonly #networks = new Map<string, Network<C>>()
  readonly #networkOf = new Map<C, string>()
  #waiting = 0

  /** @param isCapped whether `perNetwork` applies to this network */
  constructor(caps: ConnectionCaps, isCapped: (network: string) => boolean) {
    this.#caps = caps
    this.#isCapped = isCapped
  }

  get size(): number {
    return this.#networkOf.size
  }

  /** Admits a new connection, which waits for its first request, unless no other one can make room. */
  admit(connection: C, network: string): ConnectionAdmission<C> {
    const { total, perNetwork, waiting } = this.#caps
    const own = this.#networks.get(network)
    let replaces: C | undefined
    if (own && own.count >= perNetwork && this.#isCapped(network)) {
      replaces = oldest(own)
      if (replaces === undefined) return { refusedBy: 'perNetwork' }
    } else if (this.size >= total || this.#waiting >= waiting) {
      replaces = this.#longestWaiting()
      if (replaces === undefined) return { refusedBy: 'total' }
    }
    if (replaces !== undefined) this.remove(replaces)
    this.#add(connection, network)
    return { replaces }
  }

  /**
   * The connection is one of a client of this network, as a proxy says.
   * @returns false: the network has its maximum, and the connection must be closed
   */
  assign(connection: C, name: string): boolean {
    const from = this.#networkFor(connection)
    if (!from || this.#networkOf.get(connection) === name) return from !== undefined
    if ((this.#networks.get(name)?.count ?? 0) >= this.#caps.perNetwork && this.#isCapped(name)) return false
    const isWaiting = from.waiting.has(connection)
    this.remove(connection)
    this.#add(connection, name)
    if (!isWaiting) this.beginRequest(connection)
    return true
  }

  /** A request of this connection is under way: nothing replaces it. */
  beginRequest(connection: C): void {
    if (this.#networkFor(connection)?.waiting.delete(connection)) this.#waiting -= 1
  }

  /** The connection waits for its next request. */
  endRequest(connection: C): void {
    const network = this.#networkFor(connection)
    if (!network || network.waiting.has(connection)) return
    network.waiting.add(connection)
    this.#waiting += 1
  }

  remove(connection: C): void {
    this.beginRequest(connection)
    const name = this.#networkOf.get(connection)
    if (name === undefined) return
    this.#networkOf.delete(connection)
    const network = this.#networks.get(name)!
    network.count -= 1
    if (network.count === 0) this.#networks.delete(name)
  }

  #add(connection: C, name: string): void {
    const network = this.#networks.get(name) ?? { count: 0, waiting: new Set() }
    network.count += 1
    network.waiting.add(connection)
    this.#waiting += 1
    this.#networks.set(name, network)
    this.#networkOf.set(connection, name)
  }

  #networkFor(connection: C): Network<C> | undefined {
    const name = this.#networkOf.get(connection)
    return name === undefined ? undefined : this.#networks.get(name)
  }

  #longestWaiting(): C | undefined {
    let most: Network<C> | undefined
    for (const network of this.#networks.values()) if (network.waiting.size > (most?.waiting.size ?? 0)) most = network
    return most && oldest(most)
  }
}

const oldest = <C>({ waiting }: Network<C>): C | undefined => waiting.values().next().value
