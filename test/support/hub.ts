import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

/** What a test changes of a response. @returns whether it has responded itself */
export type Respond = (request: IncomingMessage, response: ServerResponse, body: Buffer) => boolean

export interface TestHub extends AsyncDisposable {
  readonly url: string
  readonly commit: string
  readonly files: Map<string, Buffer>
  /** In the order of their arrival, of both hosts. */
  readonly requests: { host: 'hub' | 'cdn'; path: string; range?: string | undefined; authorization?: string | undefined }[]
  /** Of large files, which another origin serves. */
  onDownload: Respond
  /** Of everything else. */
  onAsk: Respond
}

export const repo = 'acme/tiny'

/** A hub with one model, which sends large files from another origin, as the public one does. */
export async function startHub(files: Map<string, Buffer>, commit = 'c'.repeat(40)): Promise<TestHub> {
  const requests: TestHub['requests'] = []
  const hub = {
    commit,
    files,
    requests,
    onDownload: (() => false) as Respond,
    onAsk: (() => false) as Respond,
  }
  const record = (host: 'hub' | 'cdn', { url = '', headers }: IncomingMessage) =>
    requests.push({ host, path: url, range: headers.range, authorization: headers.authorization })
  const cdn = await listen((request, response) => {
    record('cdn', request)
    const body = files.get(decodeURIComponent((request.url ?? '').slice(1).replace(/\?.*/, '')))
    if (!body) return void response.writeHead(404).end()
    if (!hub.onDownload(request, response, body)) sendFile(request, response, body)
  })
  const main = await listen((request, response) => {
    record('hub', request)
    if (hub.onAsk(request, response, Buffer.alloc(0))) return
    const path = decodeURIComponent(new URL(request.url ?? '', 'http://hub').pathname)
    const json = (value: unknown) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(value))
    }
    if (path.startsWith(`/api/models/${repo}/revision/`)) {
      const revision = path.slice(`/api/models/${repo}/revision/`.length)
      if (!['main', 'v1', commit].includes(revision)) return refuse(response, 404, 'RevisionNotFound')
      return json({ _id: '1', id: repo, sha: commit, lastModified: '2026-01-01T00:00:00.000Z' })
    }
    if (path === `/api/models/${repo}/tree/${commit}`) return json([...files].map(([name, body]) => entryOf(name, body)))
    const file = path.match(new RegExp(`^/${repo}/resolve/${commit}/(.*)$`))?.[1] ?? ''
    const body = files.get(file)
    if (!body) return refuse(response, 404, path.includes(repo) ? 'EntryNotFound' : 'RepoNotFound')
    if (!isLarge(file)) return sendFile(request, response, body)
    response.writeHead(302, { location: `${urlOf(cdn)}/${file}?signature=secret` }).end()
  })
  return Object.assign(hub, {
    url: urlOf(main),
    [Symbol.asyncDispose]: async () => void (await Promise.all([close(main), close(cdn)])),
  })
}

export function refuse(response: ServerResponse, status: number, code?: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, { ...(code === undefined ? {} : { 'x-error-code': code }), ...headers })
  response.end('{"error":"refused"}')
}

/** The files of a folder, by their paths in it. */
export const filesOf = (folder: string): Map<string, Buffer> =>
  new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]))

/** Sends `bytes` of the rest of a body, then closes the connection. */
export function breakAfter(bytes: number, request: IncomingMessage, response: ServerResponse, body: Buffer): true {
  const from = firstByte(request)
  response.writeHead(from > 0 ? 206 : 200, {
    'content-length': body.length - from,
    ...(from > 0 ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {}),
  })
  response.write(body.subarray(from, from + bytes), () => setTimeout(() => response.destroy(), 20))
  return true
}

const isLarge = (name: string) => /\.(safetensors|gguf)$/.test(name)

const entryOf = (path: string, body: Buffer) => ({
  type: 'file',
  path,
  size: body.length,
  oid: createHash('sha1').update(`blob ${body.length}\0`).update(body).digest('hex'),
  ...(isLarge(path)
    ? { lfs: { oid: createHash('sha256').update(body).digest('hex'), size: body.length, pointerSize: 130 } }
    : {}),
})

const firstByte = ({ headers }: IncomingMessage) => Number(/^bytes=(\d+)-/.exec(headers.range ?? '')?.[1] ?? 0)

function sendFile(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? []
  if (first === undefined) return void response.writeHead(200, { 'content-length': body.length }).end(body)
  if (Number(first) >= body.length) return void response.writeHead(416).end()
  const part = body.subarray(Number(first), last ? Number(last) + 1 : undefined)
  const range = `bytes ${first}-${Number(first) + part.length - 1}/${body.length}`
  response.writeHead(206, { 'content-length': part.length, 'content-range': range }).end(part)
}

async function listen(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<Server> {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

async function close(server: Server): Promise<void> {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
}
