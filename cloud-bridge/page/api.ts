import { fullJitterMs } from '../../core/policy/link/back-off.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import type { KeyRole, Whoami } from '../../core/wire/protocol/http/admin.ts'
import type { ErrorResponse } from '../../core/wire/protocol/http/error-response.ts'

/** A request that was refused, or that reached no server (status 0). */
export class RequestFailed extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string

  constructor(status: number, { code, message, hint = '' }: Partial<ErrorResponse['error']> & { message: string }) {
    super(message)
    this.status = status
    this.code = code ?? 'UNKNOWN'
    this.hint = hint
  }
}

/** `owner`: of an agent, or of a bridge that requires no key. */
export type Role = KeyRole | 'owner'
export interface User {
  readonly name: string
  readonly role: Role
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
    if (sessionStorage.getItem(keyName) === null) return undefined
    if (this.server === 'bridge') return this.get<Whoami>('/v1/whoami')
    await this.get('/health')
    return { name: 'key of the agent', role: 'owner' }
  }

  setKey(key: string | undefined): void {
    if (key === undefined) sessionStorage.removeItem(keyName)
    else sessionStorage.setItem(keyName, key)
  }

  get hasKey(): boolean {
    return sessionStorage.getItem(keyName) !== null
  }

  get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return this.send(path, signal ? { signal } : {}).then((response) => response.json() as Promise<T>)
  }

  post<T>(path: string, body?: object): Promise<T> {
    return this.send(path, { method: 'POST', ...(body && { body: JSON.stringify(body) }) }).then(
      (response) => response.json() as Promise<T>,
    )
  }

  /** @throws RequestFailed for a status that is none of success; the signal's reason */
  async send(path: string, { headers, ...init }: RequestInit = {}): Promise<Response> {
    const key = sessionStorage.getItem(keyName)
    const own = {
      ...(init.body ? { 'content-type': 'application/json' } : {}),
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    }
    const response = await fetch(path, { ...init, headers: { ...own, ...headers } }).catch((error: unknown) => {
      init.signal?.throwIfAborted()
      throw new RequestFailed(0, { message: `the ${this.server} does not respond`, code: String(error) })
    })
    if (response.ok) return response
    const body = (await response.json().catch(() => undefined)) as ErrorResponse | undefined
    if (response.status === 401) this.onRefused()
    throw new RequestFailed(response.status, body?.error ?? { message: `status ${response.status}` })
  }

  /** The events of a stream, until it ends. @throws RequestFailed, also where the connection breaks */
  async *events<T>(path: string, signal: AbortSignal, onOpen = () => {}): AsyncGenerator<T> {
    const response = await this.send(path, { signal, headers: { accept: 'text/event-stream' } })
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

export const errorText = (error: unknown): string =>
  error instanceof RequestFailed && error.hint
    ? `${error.message} (${error.hint})`
    : error instanceof Error
      ? error.message
      : String(error)

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
