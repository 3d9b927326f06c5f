import type { IncomingMessage } from 'node:http'
import { json as jsonOf } from 'node:stream/consumers'
import { BrimError, errorCodes } from '../../core/base/errors.ts'
import { requestOnce } from '../../core/base/pinned-request.ts'
import { readSse } from '../../core/openai/sse-reader.ts'
import { ErrorResponse } from '../../core/protocol/http/error-response.ts'

/** Address of a bridge, and the credentials for it. */
export interface BridgeAccess {
  /** HTTP. */
  readonly url: string
  readonly key?: string | undefined
  /** SHA-256 of the public key of its TLS certificate; absent: this system must trust the certificate. */
  readonly pin?: string | undefined
}

/** HTTP client of a bridge. @throws BrimError BRIDGE_UNREACHABLE, IDENTITY_INVALID, and the errors that the bridge returns */
export class BridgeClient {
  readonly #access: BridgeAccess
  /** Path of the URL: a proxy may serve the bridge below one. */
  readonly #prefix: string
  readonly #signal: AbortSignal

  constructor(access: BridgeAccess, signal: AbortSignal) {
    this.#access = access
    this.#prefix = new URL(access.url).pathname.replace(/\/$/, '')
    this.#signal = signal
  }

  async get(path: string): Promise<unknown> {
    return this.#bodyOf(await this.#request('GET', path))
  }

  async post(path: string, body: unknown): Promise<unknown> {
    return this.#bodyOf(await this.#request('POST', path, JSON.stringify(body)))
  }

  /** The events of a stream, each as JSON, until it ends or breaks. */
  async *events(path: string): AsyncGenerator<unknown> {
    const response = await this.#request('GET', path, undefined, { accept: 'text/event-stream' })
    for await (const data of readSse(response)) yield JSON.parse(data) as unknown
  }

  async #bodyOf(response: IncomingMessage): Promise<unknown> {
    return jsonOf(response).catch((cause: unknown) => {
      this.#signal.throwIfAborted()
      throw this.#unexpected(response, cause)
    })
  }

  async #request(method: 'GET' | 'POST', path: string, body?: string, headers: Record<string, string> = {}) {
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
      throw new BrimError('BRIDGE_UNREACHABLE', `no bridge responds at ${url}`, {
        cause,
        hint: isUntrusted(cause)
          ? 'trust its certificate with "brim login --pin …": "brim bridge run" prints the pin'
          : 'start one with "brim bridge run", or give its HTTP URL with --bridge-url',
      })
    })
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode < 300) return response
    const refusal = ErrorResponse.safeParse(await jsonOf(response).catch(() => undefined))
    if (!refusal.success) throw this.#unexpected(response)
    const { code, message, hint } = refusal.data.error
    const known = Object.keys(errorCodes).find((name): name is keyof typeof errorCodes => name === code)
    throw new BrimError(known ?? 'REQUEST_INVALID', message, hint === undefined ? {} : { hint })
  }

  #unexpected(response: IncomingMessage, cause?: unknown): BrimError {
    return new BrimError(
      'BRIDGE_UNREACHABLE',
      `${this.#access.url} responds with status ${response.statusCode}, but is not a bridge`,
      {
        cause,
        hint: 'check the URL: is a proxy or another server there?',
      },
    )
  }
}

/** This system does not trust the certificate. */
const isUntrusted = (cause: unknown) =>
  cause instanceof Error && 'code' in cause && /CERT|SELF_SIGNED|VERIFY/.test(String(cause.code))
