import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { readBody, sendRequest } from '../../../../core/kit/base/http-client.ts'

async function serve(listener: RequestListener) {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: new URL(`http://127.0.0.1:${port}/`),
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
