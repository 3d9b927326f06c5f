import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SlowProxy, startSlowProxy } from '../../../../lab/bench/disco/slow-proxy.ts'

const tokens = 6
const token = (i: number) => `id: a/${i}\ndata: {"choices":[{"text":"é${i}"}]}\n\n`
let closed = 0
/** Streams its tokens at once; /endless never ends. */
const server = createServer((request, response) => {
  response.on('close', () => {
    if (!response.writableFinished) closed += 1
  })
  if (request.method === 'GET') return void response.end('{"status":"ok"}')
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  response.write('data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n')
  const all = Array.from({ length: tokens }, (_, i) => token(i)).join('')
  // Events and characters are cut anywhere.
  const bytes = Buffer.from(all)
  response.write(bytes.subarray(0, 31))
  response.write(bytes.subarray(31))
  if (!request.url?.startsWith('/endless')) response.end('data: [DONE]\n\n')
})

let proxy: SlowProxy
let slowed = 0
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  proxy = await startSlowProxy(new URL(`http://127.0.0.1:${port}`), () => {
    slowed += 1
    return { ttftMs: 120, tokenMs: 20 }
  })
})
afterAll(async () => {
  await proxy[Symbol.asyncDispose]()
  server.closeAllConnections()
  server.close()
})

const ask = (path: string, signal?: AbortSignal) =>
  fetch(`http://127.0.0.1:${proxy.port}${path}`, { method: 'POST', body: '{}', ...(signal && { signal }) })

describe('a slow proxy', () => {
  it('delays the tokens of an answer as the latency says, and changes none', async () => {
    const sentMs = performance.now()
    const text = await (await ask('/v1/completions')).text()
    expect(performance.now() - sentMs).toBeGreaterThan(120 + (tokens - 1) * 20 - 5)
    expect(text).toContain(Array.from({ length: tokens }, (_, i) => token(i)).join(''))
    expect(text.trimEnd()).toMatch(/data: \[DONE\]$/)
    expect(slowed).toBe(1)
  })

  it('passes other requests on unchanged', async () => {
    const before = slowed
    const response = await fetch(`http://127.0.0.1:${proxy.port}/health`)
    expect(await response.json()).toEqual({ status: 'ok' })
    expect(slowed).toBe(before)
  })

  it('ends the request at the server when its client leaves', async () => {
    const leaving = new AbortController()
    const response = await ask('/endless/completions', leaving.signal)
    const reader = response.body!.getReader()
    await reader.read()
    const before = closed
    leaving.abort()
    await expect.poll(() => closed).toBe(before + 1)
  })
})
