import { Agent as PlainAgent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import type { Dial } from './pinned-socket.ts'

/** Idle connections are closed after that, or as soon as their server demands. */
const idleMs = 30_000
const maxIdle = 8

const kept = { keepAlive: true, timeout: idleMs, maxFreeSockets: maxIdle }

/** Connections that serve one request after the other, so that none is opened, with its TLS, for each. Idle ones keep no process alive. */
export class KeptConnections {
  readonly #plain = new PlainAgent(kept)
  readonly #tls = new TlsAgent(kept)
  readonly #pinned = new WeakMap<Dial, TlsAgent>()

  /** @param dial of TLS connections; undefined: no key is pinned */
  agentFor(isTls: boolean, dial: Dial | undefined): PlainAgent {
    if (!isTls) return this.#plain
    if (!dial) return this.#tls
    const known = this.#pinned.get(dial) ?? new PinnedAgent(dial)
    this.#pinned.set(dial, known)
    return known
  }
}

class PinnedAgent extends TlsAgent {
  readonly #dial: Dial

  constructor(dial: Dial) {
    super(kept)
    this.#dial = dial
  }

  override createConnection(...[options, opened = () => {}]: Parameters<TlsAgent['createConnection']>) {
    const { host, port } = options
    const at = `https://${host?.includes(':') ? `[${host}]` : host}:${port}`
    this.#dial(at, new AbortController().signal).then(
      (socket) => opened(null, socket ?? super.createConnection(options)!),
      (error) => opened(error, undefined as never),
    )
    return undefined
  }
}
