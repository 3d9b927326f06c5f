import { readFile, stat } from 'node:fs/promises'
import { z } from 'zod'
import { BrimError, errorCodes } from '../../core/base/errors.ts'
import { readSse } from '../../core/base/sse.ts'
import { jobsPath } from '../queue/http.ts'

const ErrorBody = z.object({ error: z.object({ code: z.string(), message: z.string(), hint: z.string().nullish() }) })

/** `/v1/jobs` of a bridge, or what else stands at `base`. @throws BrimError BRIDGE_UNREACHABLE, and what the bridge answers */
export class JobsClient {
  readonly #url: string
  readonly #signal: AbortSignal
  readonly #keyFile: string | undefined

  /** @param keyFile holds the key of an operator, where the bridge asks for one */
  constructor(bridgeUrl: string, keyFile: string | undefined, signal: AbortSignal, base: string = jobsPath) {
    if (!URL.canParse(bridgeUrl) || !/^https?:/.test(bridgeUrl))
      throw new BrimError('USAGE', `--bridge-url ${bridgeUrl} is no URL`, { hint: 'for example http://127.0.0.1:7070' })
    this.#url = bridgeUrl.replace(/\/$/, '') + base
    this.#signal = signal
    this.#keyFile = keyFile
  }

  async get(path: string): Promise<unknown> {
    return (await this.#ask(path, {})).json()
  }

  async post(path: string, body: unknown): Promise<unknown> {
    const headers = { 'content-type': 'application/json' }
    return (await this.#ask(path, { method: 'POST', headers, body: JSON.stringify(body) })).json()
  }

  /** What has happened to a job, then what happens, until it ends. @throws BrimError also LINK_LOST */
  async *watch(id: string): AsyncGenerator<unknown> {
    yield* this.stream(`/${encodeURIComponent(id)}/events`, (cause) => lost(id, cause))
  }

  /** Server-sent events, until the bridge ends them. @param broken what to throw where the connection breaks */
  async *stream(path: string, broken: (cause: unknown) => BrimError): AsyncGenerator<unknown> {
    const response = await this.#ask(path, { headers: { accept: 'text/event-stream' } })
    try {
      if (response.body) for await (const data of readSse(response.body)) yield JSON.parse(data) as unknown
    } catch (cause) {
      this.#signal.throwIfAborted()
      throw broken(cause)
    }
  }

  async #ask(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
    const authorization = this.#keyFile === undefined ? {} : { authorization: `Bearer ${await readKey(this.#keyFile)}` }
    const headers = { ...init.headers, ...authorization }
    const response = await fetch(this.#url + path, { ...init, headers, signal: this.#signal }).catch((cause: unknown) => {
      this.#signal.throwIfAborted()
      throw new BrimError('BRIDGE_UNREACHABLE', `no bridge answers at ${this.#url}`, {
        cause: cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause,
        hint: 'start one with "brim bridge run", or name its HTTP address with --bridge-url',
      })
    })
    if (response.ok) return response
    const body = ErrorBody.safeParse(await response.json().catch(() => undefined))
    if (!body.success)
      throw new BrimError('BRIDGE_UNREACHABLE', `${this.#url} answers ${response.status}, but not as a bridge does`, {
        hint: 'is that really the HTTP address of a bridge?',
      })
    const { code, message, hint } = body.data.error
    const known = Object.keys(errorCodes).find((name): name is keyof typeof errorCodes => name === code)
    throw new BrimError(known ?? 'REQUEST_INVALID', message, hint == null ? {} : { hint })
  }
}

export const lost = (id: string, cause?: unknown) =>
  new BrimError('LINK_LOST', 'the connection to the bridge broke; the job goes on', { cause, hint: `brim job watch ${id}` })

/** @throws BrimError USAGE where it cannot be read, or others may read it */
async function readKey(file: string): Promise<string> {
  try {
    const { mode } = await stat(file)
    if ((mode & 0o077) !== 0) throw new BrimError('USAGE', `others may read --key-file ${file}`, { hint: `chmod 600 ${file}` })
    return (await readFile(file, 'utf8')).trim()
  } catch (cause) {
    if (cause instanceof BrimError) throw cause
    throw new BrimError('USAGE', `--key-file ${file} cannot be read`, { cause })
  }
}
