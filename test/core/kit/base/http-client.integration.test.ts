import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { dialPinned, readBody, sendRequest } from '../../../../core/kit/base/http-client.ts'
import { KeptConnections } from '../../../../core/kit/base/kept-connections.ts'
import { pinOf } from '../../../../core/kit/base/tls-pin.ts'
import { onLoopback } from '../../../../lab/cluster/loopback-server.ts'

async function serve(listener: RequestListener) {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  let opened = 0
  server.on('connection', () => opened++)
  return {
    url: new URL(`http://127.0.0.1:${port}/`),
    /** All that were ever opened. */
    get opened() {
      return opened
    },
    /** Closes those that serve no request, as a server does after a while. */
    closeIdle: () => server.closeIdleConnections(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const never = new AbortController().signal

it('sends length and type of a body, and reports the connection before anything is written', async () => {
  await using server = await serve((request, response) => {
    const { 'content-type': type, 'content-length': length, connection } = request.headers
    response.end(JSON.stringify({ type, length, connection }))
  })
  let connected = 0
  const onConnected = () => connected++
  const response = await sendRequest(server.url, { method: 'POST', body: '"ü"', signal: never, onConnected })
  expect(connected).toBe(1)
  const sent = JSON.parse((await readBody(response, 1_000)).toString()) as unknown
  expect(sent).toEqual({ type: 'application/json', length: '4', connection: 'close' })
})

it('names the silence of a server that stops in the middle of its body', async () => {
  await using server = await serve((_, response) => void response.write('beginning'))
  const response = await sendRequest(server.url, { signal: never, maxSilentMs: 50 })
  await expect(readBody(response, 1_000)).rejects.toThrow('no data for 0.05 s')
})

it('gives up a server that does not respond, for its silence or the reason of the signal', async () => {
  await using server = await serve(() => {})
  await expect(sendRequest(server.url, { signal: never, maxSilentMs: 50 })).rejects.toThrow('no data for 0.05 s')
  const reason = new Error('not wanted any more')
  const stopping = new AbortController()
  const sent = sendRequest(server.url, { signal: stopping.signal })
  stopping.abort(reason)
  await expect(sent).rejects.toBe(reason)
})

it('follows no redirect, and reads no more than it is allowed', async () => {
  await using server = await serve((_, response) => response.writeHead(302, { location: '/other' }).end('x'.repeat(100)))
  const response = await sendRequest(server.url, { signal: never })
  expect(response.statusCode).toBe(302)
  await expect(readBody(response, 99)).rejects.toThrow('more than 99 bytes')
})

describe('a kept connection', () => {
  const ask = async (url: URL, connections: KeptConnections, body = '{}') => {
    let connected = 0
    const onConnected = () => connected++
    const response = await sendRequest(url, { method: 'POST', body, signal: never, connections, onConnected })
    expect(connected).toBeGreaterThan(0)
    return (await readBody(response, 1_000)).toString()
  }

  it('serves one request after the other, and as many at once as there are', async () => {
    await using server = await serve((request, response) => void request.pipe(response))
    const connections = new KeptConnections()
    for (let nth = 0; nth < 5; nth++) expect(await ask(server.url, connections, `"${nth}"`)).toBe(`"${nth}"`)
    expect(server.opened).toBe(1)
    await Promise.all([0, 1, 2].map(() => ask(server.url, connections)))
    expect(server.opened).toBe(3)
    await ask(server.url, new KeptConnections())
    expect(server.opened).toBe(4)
  })

  it('with a pinned key is verified once for all its requests, and none is sent to another key', async () => {
    const pem = (name: string) => readFileSync(new URL(`../../../fixtures/tls/${name}.pem`, import.meta.url), 'utf8')
    const server = createTlsServer({ key: pem('first.key'), cert: pem('first.cert') }, (_, response) => response.end('ok'))
    let opened = 0
    server.on('secureConnection', () => opened++)
    await using listening = await onLoopback(server)
    const url = new URL(`https://127.0.0.1:${listening.port}/`)
    const connections = new KeptConnections()
    const askPinned = async (cert: string) => {
      const pin = pinOf(new X509Certificate(pem(cert)).publicKey)
      const dial = dials.get(cert) ?? dialPinned(pin)
      dials.set(cert, dial)
      return (await readBody(await sendRequest(url, { signal: never, dial, connections }), 1_000)).toString()
    }
    const dials = new Map<string, ReturnType<typeof dialPinned>>()
    for (let nth = 0; nth < 3; nth++) expect(await askPinned('first.cert')).toBe('ok')
    expect(opened).toBe(1)
    for (let nth = 0; nth < 2; nth++) await expect(askPinned('second.cert')).rejects.toMatchObject({ code: 'IDENTITY_INVALID' })
    // Without a pin the system's certificates decide, and this one is its own.
    await expect(sendRequest(url, { signal: never, connections })).rejects.toThrow(/self-signed|SELF_SIGNED|certificate/)
  })

  it('is replaced where its server has closed it, and the request sent once', async () => {
    const bodies: string[] = []
    await using server = await serve(async (request, response) => {
      const body = (await readBody(request, 1_000)).toString()
      bodies.push(body)
      response.end('ok')
    })
    const connections = new KeptConnections()
    await ask(server.url, connections, '"first"')
    server.closeIdle()
    expect(await ask(server.url, connections, '"second"')).toBe('ok')
    expect(server.opened).toBe(2)
    expect(bodies).toEqual(['"first"', '"second"'])
  })

  it('is replaced where its server closes it while the request is on its way; a new one that is closed is an error', async () => {
    const served = new WeakSet<object>()
    let closesAll = false
    await using server = await serve((request, response) => {
      if (closesAll || served.has(request.socket)) request.socket.destroy()
      else response.end('ok')
      served.add(request.socket)
    })
    const connections = new KeptConnections()
    for (let nth = 0; nth < 3; nth++) expect(await ask(server.url, connections)).toBe('ok')
    expect(server.opened).toBe(3)
    closesAll = true
    await expect(ask(server.url, connections)).rejects.toMatchObject({ code: 'ECONNRESET' })
    expect(server.opened).toBe(4)
  })

  it('is not reused while the rest of its response was not read', async () => {
    await using server = await serve((_, response) => void response.write('beginning'))
    const connections = new KeptConnections()
    for (let nth = 0; nth < 2; nth++) {
      const leaving = new AbortController()
      const response = await sendRequest(server.url, { signal: leaving.signal, connections })
      leaving.abort()
      await expect(readBody(response, 1_000)).rejects.toThrow()
    }
    expect(server.opened).toBe(2)
  })
})
