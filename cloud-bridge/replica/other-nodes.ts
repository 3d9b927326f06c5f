import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect as connectPlain, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { type HttpRequest, readBody, sendRequest } from '../../core/kit/base/http-client.ts'
import { KeptConnections } from '../../core/kit/base/kept-connections.ts'
import { isLoopback } from '../../core/kit/base/loopback.ts'
import { connectPinned, type Dial } from '../../core/kit/base/pinned-socket.ts'
import { identityOperations } from '../../core/wire/protocol/http/identity.ts'
import { SubjectReply } from '../../core/wire/protocol/identity.ts'
import type { Primary } from './fleet-database.ts'

const forwardedHeader = 'brim-forwarded'
const askTimeoutMs = 3_000
const connectTimeoutMs = 3_000
const maxReplyBytes = 4_096

/** A node as the others reach it. */
export type Target = Pick<Primary, 'url' | 'pin' | 'auth'>

/** A request is forwarded at most once: two nodes that each consider the other the primary would forward it in a loop. */
export const isForwarded = ({ headers }: IncomingMessage): boolean => headers[forwardedHeader] !== undefined

/** Passes on to other nodes what clients ask of this one. */
export class OtherNodes {
  readonly #host: string
  readonly #connections = new KeptConnections()
  readonly #dials = new Map<string, Dial>()

  /** @param host where this node listens */
  constructor(host: string) {
    this.#host = host
  }

  /**
   * @param read body of the request, where it has been read
   * @returns the response's head and body. @throws Error where the request goes nowhere; as `sendRequest`
   */
  async send(incoming: IncomingMessage, to: Target, signal: AbortSignal, read?: string): Promise<IncomingMessage> {
    const { target, headers: all } = this.#targetOf(incoming, to)
    // Whether the client keeps its connection says nothing of the one to the other node.
    const { connection: _, ...given } = all
    const { 'content-encoding': __, 'transfer-encoding': ___, ...plain } = given
    const headers = read === undefined ? given : { ...plain, 'content-length': String(Buffer.byteLength(read)) }
    const { method } = incoming
    // Without a body the request may be sent again, where an idle connection has just been closed.
    const hasBody = headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
    return this.#request(target, to, { ...(method && { method }), ...(hasBody && { body: read ?? incoming }), headers, signal })
  }

  /**
   * From its first line on, the connection is the other node's: its bytes pass as they are.
   * @returns once they do. @throws as `send`; nothing has been sent then
   */
  async pass(incoming: IncomingMessage, socket: Duplex, head: Buffer, to: Target, signal: AbortSignal): Promise<void> {
    const { target, headers } = this.#targetOf(incoming, to)
    const other = await this.#connect(target, to, AbortSignal.any([signal, AbortSignal.timeout(connectTimeoutMs)]))
    other.once('error', () => socket.destroy()).once('close', () => socket.destroy())
    if (signal.aborted || socket.destroyed) return void other.destroy()
    socket.once('close', () => other.destroy())
    signal.addEventListener('abort', () => other.destroy(), { once: true })
    const lines = Object.entries(headers).flatMap(([name, value]) => [value ?? []].flat().map((each) => `${name}: ${each}\r\n`))
    other.write(`${incoming.method} ${target.pathname}${target.search} HTTP/1.1\r\n${lines.join('')}\r\n`)
    other.write(head)
    other.pipe(socket).pipe(other)
  }

  /** What a token proves at another node. @throws as `sendRequest`; Error where that does not tell */
  async subjectOf(token: string, to: Target): Promise<string | undefined> {
    const headers = { authorization: `Bearer ${token}`, [forwardedHeader]: '1' }
    const target = new URL(identityOperations.subject.path, to.url)
    const reply = await this.#request(target, to, { headers, signal: AbortSignal.timeout(askTimeoutMs) })
    const body = await readBody(reply, maxReplyBytes)
    if (reply.statusCode !== 200) throw new Error(`${target.href} replied with status ${reply.statusCode}`)
    return SubjectReply.parse(JSON.parse(body.toString())).subject ?? undefined
  }

  #request(target: URL, to: Target, request: HttpRequest): Promise<IncomingMessage> {
    return sendRequest(target, { ...request, connections: this.#connections, dial: this.#dialOf(to) })
  }

  async #connect(target: URL, to: Target, signal: AbortSignal): Promise<Socket> {
    const { hostname, port, protocol } = target
    const at = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || (protocol === 'https:' ? 443 : 80) }
    const pinned = await this.#dialOf(to)?.(target.href, signal)
    if (pinned) return pinned
    const socket = protocol === 'https:' ? connectTls(at) : connectPlain(at)
    await once(socket, protocol === 'https:' ? 'secureConnect' : 'connect', { signal }).catch((error: unknown) => {
      socket.destroy()
      throw error
    })
    return socket
  }

  #dialOf({ pin }: Target): Dial | undefined {
    if (pin === null) return undefined
    const known = this.#dials.get(pin) ?? ((url, signal) => connectPinned(url, [pin], signal))
    this.#dials.set(pin, known)
    return known
  }

  #targetOf(incoming: IncomingMessage, to: Target) {
    const { url: path = '/', headers, socket } = incoming
    if (!to.auth && !isLoopback(this.#host))
      throw new Error('the other bridge accepts every caller, and this bridge listens beyond loopback')
    if (isForwarded(incoming)) throw new Error('forwarded already')
    const target = new URL(path, to.url)
    // A path like //host would be another server.
    if (target.origin !== new URL(to.url).origin) throw new Error('not a path of this server')
    const clients = [headers['x-forwarded-for'], socket.remoteAddress].flat().filter((each) => each !== undefined)
    return { target, headers: { ...headers, 'x-forwarded-for': clients.join(', '), [forwardedHeader]: '1' } }
  }
}
