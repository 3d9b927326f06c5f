import type { IncomingMessage } from 'node:http'
import { json as jsonOf } from 'node:stream/consumers'
import { BrimError, errorCodes } from '../../core/base/errors.ts'
import { requestOnce } from '../../core/base/pinned-request.ts'
import { readSse } from '../../core/openai/sse-reader.ts'
import { Refusal } from '../../core/protocol/identity.ts'

/** Where a bridge is, and why it should let us in. */
export interface BridgeAccess {
  /** Its HTTP address. */
  readonly url: string
  readonly key?: string | undefined
  /** SHA-256 of the public key that it shows by TLS; absent: a certificate that this system trusts. */
  readonly pin?: string | undefined
}

/** The HTTP of a bridge, as commands use it. @throws BrimError BRIDGE_UNREACHABLE, IDENTITY_INVALID, and what the bridge answers */
export class BridgeClient {
  readonly #access: BridgeAccess
  /** Of the URL's path: a proxy may put the bridge under one. */
  readonly #prefix: string
  readonly #signal: AbortSignal

  constructor(access: BridgeAccess, signal: AbortSignal) {
    this.#access = access
    this.#prefix = new URL(access.url).pathname.replace(/\/$/, '')
    this.#signal = signal
  }

  async get(path: string): Promise<unknown> {
    return this.#bodyOf(await this.#ask('GET', path))
  }

  async post(path: string, body: unknown): Promise<unknown> {
    return this.#bodyOf(await this.#ask('POST', path, JSON.stringify(body)))
  }

  /** The events of a stream, each as JSON, until it ends or breaks. */
  async *events(path: string): AsyncGenerator<unknown> {
    const response = await this.#ask('GET', path, undefined, { accept: 'text/event-stream' })
    for await (const data of readSse(response)) yield JSON.parse(data) as unknown
  }

  async #bodyOf(response: IncomingMessage): Promise<unknown> {
    return jsonOf(response).catch((cause: unknown) => {
      this.#signal.throwIfAborted()
      throw this.#strange(response, cause)
    })
  }

  async #ask(method: 'GET' | 'POST', path: string, body?: string, headers: Record<string, string> = {}) {
    const { key, url } = this.#access
    const authorization = key === undefined ? undefined : { authorization: `Bearer ${key}` }
    const request = {
      method,
      headers: { ...headers, ...authorization },
      ...(body === undefined ? {} : { body }),
      signal: this.#signal,
    }
    const response = await requestOnce(this.#access, this.#prefix + path, request).catch((cause: unknown) => {
      this.#signal.throwIfAborted()
      if (cause instanceof BrimError) throw cause
      throw new BrimError('BRIDGE_UNREACHABLE', `no bridge answers at ${url}`, {
        cause,
        hint: isDistrusted(cause)
          ? 'a certificate of its own: "brim login --pin …" trusts it, with the pin that "brim bridge run" prints'
          : 'start one with "brim bridge run", or name its HTTP address with --bridge-url',
      })
    })
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode < 300) return response
    const refusal = Refusal.safeParse(await jsonOf(response).catch(() => undefined))
    if (!refusal.success) throw this.#strange(response)
    const { code, message, hint } = refusal.data.error
    const known = Object.keys(errorCodes).find((name): name is keyof typeof errorCodes => name === code)
    throw new BrimError(known ?? 'REQUEST_INVALID', message, hint === undefined ? {} : { hint })
  }

  #strange(response: IncomingMessage, cause?: unknown): BrimError {
    return new BrimError('BRIDGE_UNREACHABLE', `${this.#access.url} answers ${response.statusCode}, but not as a bridge does`, {
      cause,
      hint: 'is that really the HTTP address of a bridge?',
    })
  }
}

/** This system's authorities do not vouch for the certificate. */
const isDistrusted = (cause: unknown) =>
  cause instanceof Error && 'code' in cause && /CERT|SELF_SIGNED|VERIFY/.test(String(cause.code))
