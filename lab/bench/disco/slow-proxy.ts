import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { onLoopback } from '../../cluster/loopback-server.ts'
import type { ApiLatency } from '../../simulate/hardware/api-server.ts'

/**
 * An HTTP proxy that makes the server behind it as slow as a trace: each streamed answer has the TTFT and the gaps of the next
 * latency, or its own where those are longer. Everything else passes unchanged, WebSockets included.
 */
export interface SlowProxy extends AsyncDisposable {
  readonly port: number
}

/** @param next latency of the answer that is asked for */
export async function startSlowProxy(target: URL, next: () => ApiLatency): Promise<SlowProxy> {
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming
    const isAnswer = method === 'POST' && /completions$/.test(url ?? '')
    const slowed = isAnswer ? { ...next(), atMs: systemClock.nowMs() } : undefined
    const to = { host: target.hostname, port: target.port, method, path: url, headers, agent: false }
    const far = request(to, (response) => {
      outgoing.writeHead(response.statusCode ?? 502, response.headers)
      const isStream = response.headers['content-type']?.startsWith('text/event-stream')
      if (slowed && isStream) passSlowly(response, outgoing, slowed).catch(() => outgoing.destroy())
      else response.on('error', () => outgoing.destroy()).pipe(outgoing)
    })
    far.on('error', () => outgoing.destroy())
    // The server sees the end of a request that the device has dropped.
    outgoing.on('close', () => far.destroy())
    incoming.pipe(far)
  })
  server.on('upgrade', (incoming, near, head) => {
    const far = connect(Number(target.port), target.hostname)
    const lines = Array.from({ length: incoming.rawHeaders.length / 2 }, (_, i) => incoming.rawHeaders.slice(2 * i, 2 * i + 2))
    far.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${lines.map((line) => `${line.join(': ')}\r\n`).join('')}\r\n`)
    far.write(head)
    for (const socket of [near, far]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        near.destroy()
        far.destroy()
      })
    }
    near.pipe(far).pipe(near)
  })
  return onLoopback(server)
}

async function passSlowly(
  response: IncomingMessage,
  outgoing: ServerResponse,
  { atMs, ttftMs, tokenMs }: ApiLatency & { readonly atMs: number },
): Promise<void> {
  let dueMs = atMs + ttftMs
  for await (const event of eventsOf(response)) {
    if (hasToken(event)) {
      // A server that is slower than the trace delays what follows; a timer that fires late does not.
      dueMs = Math.max(dueMs, systemClock.nowMs())
      await systemClock.sleep(dueMs - systemClock.nowMs())
      dueMs += tokenMs
    }
    if (outgoing.destroyed) return
    if (!outgoing.write(event)) await once(outgoing, 'drain')
  }
  outgoing.end()
}

const end = '\n\n'

/** Events as their bytes, empty line included. */
async function* eventsOf(response: IncomingMessage): AsyncGenerator<string> {
  let rest = ''
  response.setEncoding('utf8')
  for await (const chunk of response) {
    rest += chunk
    for (let at = rest.indexOf(end); at !== -1; at = rest.indexOf(end)) {
      yield rest.slice(0, at + end.length)
      rest = rest.slice(at + end.length)
    }
  }
  if (rest !== '') yield rest
}

/** Whether an event carries a part of the answer; the others are its role, its end and its usage. */
function hasToken(event: string): boolean {
  const data = event.split('\n').find((line) => line.startsWith('data: {'))
  if (data === undefined) return false
  const { choices } = JSON.parse(data.slice('data: '.length)) as {
    readonly choices?: readonly {
      readonly text?: string
      readonly delta?: { readonly content?: string }
      readonly token_ids?: readonly number[]
    }[]
  }
  const [choice] = choices ?? []
  return Boolean(choice?.text || choice?.delta?.content || choice?.token_ids?.length)
}
