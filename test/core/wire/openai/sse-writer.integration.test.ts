import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { type SseWriter, startSse } from '../../../../core/wire/openai/sse-writer.ts'

/** More than the buffers of the connection hold. */
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
  /** Sends more than the buffers hold, and waits until they are full. @returns whether the send has resolved */
  async function startSend({ stream, reader }: Awaited<ReturnType<typeof toStalledReader>>) {
    let isSent = false
    void stream.send({ text: muchText }).then(() => {
      isSent = true
    })
    for (let turn = 0; turn < 100; turn++) await new Promise((next) => setImmediate(next))
    expect([isSent, reader.destroyed]).toEqual([false, false])
    return () => isSent
  }

  it('delays the stream until it reads again', async () => {
    await using stalled = await toStalledReader(new AbortController().signal)
    const isSent = await startSend(stalled)
    stalled.reader.resume()
    await expect.poll(isSent).toBe(true)
  })

  it('delays the stream until it disconnects', async () => {
    await using stalled = await toStalledReader(new AbortController().signal)
    const isSent = await startSend(stalled)
    stalled.reader.destroy()
    await expect.poll(isSent).toBe(true)
    await expect(stalled.stream.send({ text: muchText })).resolves.toBeUndefined()
  })

  it('does not delay an agent that stops', async () => {
    const stop = new AbortController()
    await using stalled = await toStalledReader(stop.signal)
    const isSent = await startSend(stalled)
    stop.abort()
    await expect.poll(isSent).toBe(true)
    await expect(stalled.stream.send({ text: muchText })).resolves.toBeUndefined()
  })
})
