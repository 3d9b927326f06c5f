import { fullJitterMs } from '../../core/policy/link/back-off.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import type { KeyRole, Whoami } from '../../core/wire/protocol/http/admin.ts'
import type { ErrorResponse } from '../../core/wire/protocol/http/error-response.ts'

/** A request that was refused, or that reached no server (status 0). The message says what to try, too. */
export class RequestFailed extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, { code, message, hint }: { code?: string; message: string; hint?: string | undefined }) {
    super(hint ? `${message} (${hint})` : message)
    this.status = status
    this.code = code ?? ''
  }
}

export interface User {
  readonly name: string
  /** `owner`: of an agent, or of a bridge that requires no key. */
  readonly role: KeyRole | 'owner'
}

/** A login that its user has not agreed to. */
export interface OfferedLogin extends User {
  readonly token: string
}

const keyName = 'brim-key'
const backOff = { firstMs: 500, maxMs: 10_000 }

/** The API of the server that the page comes from, with the key of its user. The key is forgotten with the tab. */
export class PageApi {
  readonly server: 'agent' | 'bridge'
  readonly #requiresKey: boolean
  /** The server knows no such key any more. */
  onRefused = () => {}

  constructor({ server, auth }: DOMStringMap) {
    this.server = server === 'agent' ? 'agent' : 'bridge'
    this.#requiresKey = auth === 'key'
  }

  /** @returns undefined where a key is needed. @throws RequestFailed */
  async login(): Promise<User | undefined> {
    if (!this.#requiresKey) return { name: 'without a key', role: 'owner' }
    if (this.key === undefined) return undefined
    if (this.server === 'bridge') return this.get<Whoami>('/v1/whoami')
    await this.get('/health')
    return { name: 'key of the agent', role: 'owner' }
  }

  /** The login of a code that “brim login --browser” has put into a URL; it is not used yet. @throws RequestFailed */
  async exchange(code: string): Promise<OfferedLogin> {
    const init = { method: 'POST', body: JSON.stringify({ code }) }
    const { token } = (await (await this.send('/v1/browser-logins/exchange', init)).json()) as { token: string }
    const whoami = await this.send('/v1/whoami', { headers: { authorization: `Bearer ${token}` } })
    return { ...((await whoami.json()) as Whoami), token }
  }

  /** Absent: none is sent. */
  get key(): string | undefined {
    return sessionStorage.getItem(keyName) ?? undefined
  }

  set key(key: string | undefined) {
    if (key === undefined) sessionStorage.removeItem(keyName)
    else sessionStorage.setItem(keyName, key)
  }

  async get<T>(path: string, signal: AbortSignal | null = null): Promise<T> {
    return (await this.send(path, { signal })).json() as Promise<T>
  }

  async post<T>(path: string): Promise<T> {
    return (await this.send(path, { method: 'POST' })).json() as Promise<T>
  }

  /** @throws RequestFailed for a status that is none of success; the signal's reason */
  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    if (init.body) headers.set('content-type', 'application/json')
    const isOwnKey = this.key !== undefined && !headers.has('authorization')
    if (isOwnKey) headers.set('authorization', `Bearer ${this.key}`)
    const response = await fetch(path, { ...init, headers }).catch((error: unknown) => {
      init.signal?.throwIfAborted()
      throw new RequestFailed(0, { message: `the ${this.server} does not respond`, code: String(error) })
    })
    if (response.ok) return response
    const body = (await response.json().catch(() => undefined)) as ErrorResponse | undefined
    if (response.status === 401 && isOwnKey) this.onRefused()
    throw new RequestFailed(response.status, body?.error ?? { message: `status ${response.status}` })
  }

  /** The events of a stream, until it ends. @param body of a POST @throws RequestFailed, also where the connection breaks */
  async *events<T>(path: string, signal: AbortSignal, onOpen = () => {}, body?: object): AsyncGenerator<T> {
    const post = body && { method: 'POST', body: JSON.stringify(body) }
    const response = await this.send(path, { ...post, signal, headers: { accept: 'text/event-stream' } })
    onOpen()
    for await (const data of readSse(bodyBytes(response, signal))) yield JSON.parse(data) as T
  }

  /**
   * Follows a stream until `read` returns true or the signal is aborted; one that ends or breaks is opened again.
   * @param read reads one connection to its end. @param onLink whether there is a connection, or why there is none
   */
  async follow(
    read: (onOpen: () => void) => Promise<boolean>,
    onLink: (problem: string | undefined) => void,
    signal: AbortSignal,
  ) {
    let failures = 0
    const onOpen = () => {
      failures = 0
      onLink(undefined)
    }
    while (!signal.aborted) {
      try {
        if (await read(onOpen)) return
        onLink('the connection was lost')
      } catch (error) {
        if (signal.aborted) return
        onLink(errorText(error))
        // It will not be allowed the next time either.
        if (error instanceof RequestFailed && [401, 403, 404].includes(error.status)) return
      }
      failures += 1
      await pause(fullJitterMs(failures, backOff, Math.random()), signal)
    }
  }
}

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Resolves after `ms`, or when the signal is aborted. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })

/** Not every browser iterates over a body. @throws RequestFailed where the connection breaks; the signal's reason */
export async function* bodyBytes({ body }: Response, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = body!.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } catch (error) {
    signal.throwIfAborted()
    throw new RequestFailed(0, { message: 'the connection was lost', code: String(error) })
  } finally {
    await reader.cancel().catch(() => {})
  }
}
