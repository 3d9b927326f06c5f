import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { projectRoot } from '../../kit/base/version.ts'
import { noSuchPath } from './http-errors.ts'

/** Beside the document: `npm run build` makes them of cloud-bridge/page. No other file is sent. */
const types = {
  'main.js': 'text/javascript; charset=utf-8',
  'style.css': 'text/css; charset=utf-8',
  'icon.svg': 'image/svg+xml',
} as const

const folder = new URL('dist/page/', projectRoot)

/** Scripts and styles are files of this server, and nothing is sent elsewhere: text of a device or a model can do nothing here. */
const policy = [
  "default-src 'none'",
  ...['script-src', 'style-src', 'img-src', 'connect-src'].map((kind) => `${kind} 'self'`),
  ...['base-uri', 'form-action', 'frame-ancestors'].map((kind) => `${kind} 'none'`),
  "require-trusted-types-for 'script'",
].join('; ')

const sentAlways = {
  vary: 'accept-encoding',
  'cache-control': 'no-cache',
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
}

/** What the page has to know before it asks. */
export interface PageFacts {
  readonly server: 'agent' | 'bridge'
  /** Whether a key is required. */
  readonly auth: boolean
}

interface PageFile {
  readonly bytes: Buffer
  readonly gzipped: Buffer
  readonly etag: string
}

/** The page's files, read when they are first asked for. A browser asks each time whether they have changed. */
export class PageFiles {
  readonly #read = new Map<string, PageFile>()

  /** @returns sends the document. @throws RequestRefused 404 where it is not built */
  document({ server, auth }: PageFacts, headers: IncomingHttpHeaders): (response: ServerResponse) => void {
    const facts = `<html data-server="${server}" data-auth="${auth ? 'key' : 'none'}"`
    return this.#sender(facts, 'text/html; charset=utf-8', headers, () => textOf('index.html').replace('<html', facts))
  }

  /** @returns sends one of the other files. @throws RequestRefused 404 */
  file(name: string, headers: IncomingHttpHeaders): (response: ServerResponse) => void {
    if (!Object.hasOwn(types, name)) throw noSuchPath()
    return this.#sender(name, types[name as keyof typeof types], headers, () => textOf(name))
  }

  #sender(key: string, type: string, headers: IncomingHttpHeaders, read: () => string): (response: ServerResponse) => void {
    const file = this.#read.get(key) ?? fileOf(Buffer.from(read()))
    this.#read.set(key, file)
    const { etag } = file
    const isZipped = /\bgzip\b/.test(String(headers['accept-encoding'] ?? ''))
    const head = { ...sentAlways, etag, ...(isZipped && { 'content-encoding': 'gzip' }) }
    return (response) => {
      if (headers['if-none-match'] === etag) return void response.writeHead(304, head).end()
      const body = isZipped ? file.gzipped : file.bytes
      response.writeHead(200, { ...head, 'content-type': type, 'content-length': body.length }).end(body)
    }
  }
}

function textOf(name: string): string {
  try {
    return readFileSync(new URL(name, folder), 'utf8')
  } catch {
    throw noSuchPath('the page is not built: "npm run build" builds it')
  }
}

const fileOf = (bytes: Buffer): PageFile => ({
  bytes,
  gzipped: gzipSync(bytes),
  etag: `"${createHash('sha256').update(bytes).digest('base64url')}"`,
})
