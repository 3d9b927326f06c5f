import type { IncomingMessage } from 'node:http'
import { listFiles, modelInfo } from '@huggingface/hub'
import { z } from 'zod'
import type { Clock } from '../../kit/base/clock.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { readBody, sendRequest } from '../../kit/base/http-client.ts'
import { startGet } from '../../kit/base/ranged-get.ts'
import { shownUrl } from '../../kit/base/shown-url.ts'
import { type HubQuestion, hubInvalid, hubRefused, hubUnavailable } from './hub-errors.ts'
import { type HubName, repoOf } from './hub-name.ts'
import type { HubSettings } from './hub-settings.ts'

/** A file of a model, with the hash that its content must have. */
export interface HubFile {
  readonly path: string
  readonly bytes: number
  /** sha256 of a large file; of a small one Git's sha1 of a blob. */
  readonly hash: { readonly kind: 'sha256' | 'git'; readonly hex: string }
}

export interface HubModel {
  readonly name: HubName
  /** Of the revision, 40 hex digits. */
  readonly commit: string
  readonly files: readonly HubFile[]
}

export interface HubOptions {
  readonly settings: Pick<HubSettings, 'endpoint' | 'token'>
  readonly clock: Clock
  readonly signal: AbortSignal
}

const maxSilentMs = 60_000
const maxReplyBytes = 32 << 20
const maxFiles = 20_000
/** Attempts in sequence without a byte. */
const maxFailures = 4
/** A longer wait is left to the user. */
const maxRetryAfterMs = 60_000

const commitPattern = /^[0-9a-f]{40}$/

const Entry = z.object({
  type: z.string(),
  path: z.string().min(1),
  size: z.int().min(0),
  oid: z.string(),
  lfs: z.object({ oid: z.string().regex(/^[0-9a-f]{64}$/), size: z.int().min(0) }).optional(),
})

interface GetRequest {
  readonly name: HubName
  readonly revision: string
  readonly from: number
  /** Offset after the last byte; absent: to the end. */
  readonly to?: number | undefined
}

/** Access to Hugging Face's hub, or to a mirror of it. */
export class Hub {
  readonly #endpoint: string
  readonly #token: string | undefined
  readonly #clock: Clock
  readonly #signal: AbortSignal

  constructor({ settings, clock, signal }: HubOptions) {
    this.#endpoint = settings.endpoint
    this.#token = settings.token
    this.#clock = clock
    this.#signal = signal
  }

  /** The files of a revision. @throws BrimError HUB_UNAVAILABLE, HUB_REFUSED, HUB_NOT_FOUND, HUB_INVALID */
  async model(name: HubName): Promise<HubModel> {
    const commit = await this.commitOf(name)
    const files = await this.patiently(() => this.#list(name, commit))
    return { name, commit, files }
  }

  /** The commit of a revision, without a request if it is one. @throws BrimError as `model` */
  async commitOf(name: HubName): Promise<string> {
    if (commitPattern.test(name.revision)) return name.revision
    const { revision } = name
    const fetch = this.#fetchFor(name)
    const read = () =>
      this.#readReply(() => modelInfo({ name: repoOf(name), revision, hubUrl: this.#endpoint, additionalFields: ['sha'], fetch }))
    const { sha } = await this.patiently(read)
    if (commitPattern.test(sha)) return sha
    throw hubInvalid(`${this.#endpoint} names no commit for ${repoOf(name)}@${revision}`)
  }

  /** Starts the download of a file at an offset. @param to its end, if it is not the file's */
  start(
    { name, commit }: Pick<HubModel, 'name' | 'commit'>,
    path: string,
    from: number,
    to?: number,
  ): Promise<{ body: IncomingMessage; from: number }> {
    return this.#get(this.urlOf({ name, commit }, path), { name, revision: commit, from, to })
  }

  urlOf({ name, commit }: Pick<HubModel, 'name' | 'commit'>, path: string): URL {
    const encoded = path.split('/').map(encodeURIComponent).join('/')
    return new URL(`${this.#endpoint}/${repoOf(name)}/resolve/${commit}/${encoded}`)
  }

  /** Repeats an attempt while its failure may pass. @param progressed whether bytes arrived since it was last called */
  async patiently<T>(attempt: () => Promise<T>, progressed = () => false): Promise<T> {
    for (let failures = 1; ; failures++) {
      try {
        return await attempt()
      } catch (error) {
        this.#signal.throwIfAborted()
        if (progressed()) failures = 1
        if (!(error instanceof BrimError) || error.code !== 'HUB_UNAVAILABLE') throw error
        const { retryAfterMs = 0 } = error
        if (failures >= maxFailures || retryAfterMs > maxRetryAfterMs) throw error
        await this.#clock.sleep(Math.max(retryAfterMs, 1_000 * 2 ** (failures - 1)), this.#signal)
      }
    }
  }

  unavailable(cause: unknown): BrimError {
    return hubUnavailable(this.#endpoint, cause)
  }

  async #list(name: HubName, commit: string): Promise<HubFile[]> {
    const files: HubFile[] = []
    const params = { repo: repoOf(name), revision: commit, recursive: true, hubUrl: this.#endpoint, fetch: this.#fetchFor(name) }
    await this.#readReply(async () => {
      for await (const entry of listFiles(params)) {
        if (entry.type !== 'file') continue
        files.push(fileOf(entry))
        if (files.length > maxFiles) throw hubInvalid(`${repoOf(name)} has more than ${maxFiles} files`)
      }
    })
    return files
  }

  /** @throws BrimError HUB_INVALID for a reply that is not the hub's */
  async #readReply<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read()
    } catch (cause) {
      this.#signal.throwIfAborted()
      throw cause instanceof BrimError ? cause : hubInvalid(`${this.#endpoint} does not respond as a hub does`, cause)
    }
  }

  /** `fetch` for the library: with our client, token, limits and errors. */
  #fetchFor(name: HubName): typeof fetch {
    return async (input) => {
      const url = new URL(String(input))
      const { body } = await this.#get(url, { name, revision: name.revision, from: 0 })
      try {
        const tooLarge = () => hubInvalid(`${shownUrl(url)} sends more than ${maxReplyBytes} bytes`)
        const reply = await readBody(body, maxReplyBytes, tooLarge)
        const { link } = body.headers
        return new Response(new Uint8Array(reply), { headers: typeof link === 'string' ? { link } : {} })
      } catch (cause) {
        this.#signal.throwIfAborted()
        throw cause instanceof BrimError ? cause : this.unavailable(cause)
      }
    }
  }

  #get(url: URL, { name, revision, from, to }: GetRequest): Promise<{ body: IncomingMessage; from: number }> {
    return startGet(url, from, {
      request: (at, offset) => this.#request(at, offset, to),
      follow,
      refused: (at, { statusCode: status = 0, headers }) => {
        // Another host's status says nothing about access to the model; links to it expire.
        if (at.origin !== url.origin) return hubUnavailable(at.origin, new Error(`it responds with status ${status}`))
        const [errorCode] = [headers['x-error-code']].flat()
        return hubRefused(this.#question(name, revision), { status, errorCode, retryAfter: headers['retry-after'] })
      },
      tooManyRedirects: (max) => hubInvalid(`${shownUrl(url)} is redirected more than ${max} times`),
    })
  }

  async #request(url: URL, from: number, to: number | undefined): Promise<IncomingMessage> {
    const range = from > 0 || to !== undefined ? { range: `bytes=${from}-${to === undefined ? '' : to - 1}` } : {}
    try {
      const headers = { ...this.#authorization(url), ...range, 'accept-encoding': 'identity' }
      return await sendRequest(url, { headers, signal: this.#signal, maxSilentMs })
    } catch (cause) {
      this.#signal.throwIfAborted()
      throw hubUnavailable(url.origin, cause)
    }
  }

  #authorization(url: URL): { authorization?: string } {
    const isOwn = url.origin === new URL(this.#endpoint).origin
    return this.#token !== undefined && isOwn ? { authorization: `Bearer ${this.#token}` } : {}
  }

  #question(name: HubName, revision: string): HubQuestion {
    return { endpoint: this.#endpoint, repo: repoOf(name), revision, hasToken: this.#token !== undefined }
  }
}

function follow(from: URL, location: string): URL {
  const to = URL.canParse(location, from.href) ? new URL(location, from) : undefined
  if (to && (to.protocol === 'https:' || (to.protocol === 'http:' && from.protocol === 'http:'))) return to
  throw hubInvalid(`${shownUrl(from)} redirects to ${to ? shownUrl(to) : 'no URL'}, which is not allowed`)
}

/** @throws Error from zod for an entry of another form */
function fileOf(entry: unknown): HubFile {
  const { path, size, oid, lfs } = Entry.parse(entry)
  if (lfs) return { path, bytes: lfs.size, hash: { kind: 'sha256', hex: lfs.oid } }
  return { path, bytes: size, hash: { kind: 'git', hex: z.string().regex(commitPattern).parse(oid) } }
}
