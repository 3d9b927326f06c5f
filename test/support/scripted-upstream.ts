import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** A request that the server received. */
export interface Received {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: Record<string, unknown>
}

type Script = (response: ServerResponse, request: Received) => void | Promise<void>

/** A server whose responses the test writes: one script for each request, the last for all that follow. Probes have none. */
export async function scriptedUpstream(...scripts: Script[]) {
  const requests: Received[] = []
  let probes = 0
  const models: string[] = []
  const answering = new Set<Socket>()
  const server = createServer(async (request, response) => {
    if (request.method === 'GET' && request.url?.endsWith('/models')) {
      probes += 1
      return void response.end(JSON.stringify({ object: 'list', data: models.map((id) => ({ id })) }))
    }
    answering.add(request.socket)
    response.once('close', () => answering.delete(request.socket))
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    // A GET has none.
    const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as Received['body']
    const received = { path: request.url ?? '', headers: request.headers, body }
    requests.push(received)
    await scripts[Math.min(requests.length, scripts.length) - 1]?.(response, received)
  })
  let opened = 0
  server.on('connection', () => {
    opened += 1
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    /** That it names. */
    models,
    /** Times that it was asked for its models. */
    get probes() {
      return probes
    },
    /** Connections that were ever opened. */
    get opened() {
      return opened
    },
    /** Connections with a request that has not ended. */
    get connections() {
      return answering.size
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export const sse = (data: object | string) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`

/** A piece of a chat answer. */
export const piece = (content: string) => sse({ choices: [{ index: 0, delta: { content } }] })

/** The end of a chat answer. */
export const finish = sse({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) + sse('[DONE]')

export function startStream(response: ServerResponse, ...events: string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(events.join(''))
}

/** Answers with these pieces. */
export const streamed =
  (...texts: string[]): Script =>
  (response) => {
    startStream(response, ...texts.map(piece), finish)
    response.end()
  }

export const failing =
  (status: number, headers: Record<string, string> = {}, body = ''): Script =>
  (response) =>
    void response.writeHead(status, headers).end(body)
