import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { type SseWriter, startSse } from '../../../core/openai/sse-writer.ts'

/** More than the buffers between us hold. */
const muchText = 'x'.repeat(32 * 2 ** 20)

/** A stream to a real reader that has sent its request and then reads nothing. */
async function toStalledReader(signal: AbortSignal) {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const streams = new Promise<SseWriter>((resolve) => {
    server.once('request', (_, response) => resolve(startSse(response, signal)))
  })
  const reader = connect((server.address() as AddressInfo).port, '127.0.0.1')
  reader.on('error', () => {})
  reader.pause()
  reader.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')
  return {
    stream: await streams,
    reader,
    async [Symbol.asyncDispose]() {
      reader.destroy()
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

describe('a client that stalls', () => {
  /** Whether the promise resolves within `ms`. */
  const resolves = (sent: Promise<void>, ms: number) =>
    Promise.race([sent.then(() => true), new Promise<boolean>((done) => setTimeout(done, ms, false))])

  it('is waited for until it reads again', async () => {
    await using stalled = await toStalledReader(new AbortController().signal)
    const sent = stalled.stream.send({ text: muchText })
    expect(await resolves(sent, 50)).toBe(false)
    stalled.reader.resume()
    expect(await resolves(sent, 10_000)).toBe(true)
  })

  it('is waited for until it disconnects', async () => {
    await using stalled = await toStalledReader(new AbortController().signal)
    const sent = stalled.stream.send({ text: muchText })
    expect(await resolves(sent, 50)).toBe(false)
    stalled.reader.destroy()
    expect(await resolves(sent, 10_000)).toBe(true)
    expect(await resolves(stalled.stream.send({ text: muchText }), 10_000)).toBe(true)
  })

  it('does not delay an agent that stops', async () => {
    const stop = new AbortController()
    await using stalled = await toStalledReader(stop.signal)
    const sent = stalled.stream.send({ text: muchText })
    expect(await resolves(sent, 50)).toBe(false)
    stop.abort()
    expect(await resolves(sent, 10_000)).toBe(true)
    expect(await resolves(stalled.stream.send({ text: muchText }), 10_000)).toBe(true)
  })
})
