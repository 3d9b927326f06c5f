import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import { expect, it } from 'vitest'
import type { EventBatch, EventSource } from '../../../cloud-bridge/http/event-streams.ts'
import type { Operation } from '../../../core/wire/protocol/http/operation.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { startTestHttp } from '../../support/http.ts'

const watch = { method: 'GET', path: '/watch', access: 'open', summary: '' } as const satisfies Operation

/** A source under the test's control. */
function testSource() {
  const due: EventBatch[] = []
  let wake = () => {}
  let subscribed = false
  const source: EventSource = {
    next: () => due.shift() ?? { events: [], after: 'wait' },
    subscribe(listener) {
      wake = listener
      subscribed = true
      return () => {
        subscribed = false
      }
    },
  }
  return {
    source,
    isSubscribed: () => subscribed,
    push(...batches: EventBatch[]) {
      due.push(...batches)
      wake()
    },
  }
}

async function open(source: EventSource, clock = fakeClock()) {
  const http = await startTestHttp([(router) => router.serve(watch, ({ events }) => events(source))], { clock })
  const request = get(`${http.url}/watch`)
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  let text = ''
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return {
    response,
    text: () => text,
    async [Symbol.asyncDispose]() {
      request.destroy()
      await http.close()
    },
  }
}

it('a stream begins at once, sends events with their ids as they come, and ends with its source', async () => {
  const { source, push, isSubscribed } = testSource()
  await using stream = await open(source)
  expect(stream.response.headers['content-type']).toBe('text/event-stream')
  expect(stream.text()).toBe('')
  push({ events: [{ id: 1, data: { a: 1 } }], after: 'more' }, { events: [{ data: 'b' }], after: 'wait' })
  await expect.poll(stream.text).toBe('id: 1\ndata: {"a":1}\n\ndata: "b"\n\n')
  const ended = once(stream.response, 'end')
  push({ events: [{ data: 'last' }], after: 'end' })
  await ended
  expect(stream.text().endsWith('data: "last"\n\n')).toBe(true)
  await expect.poll(isSubscribed).toBe(false)
})

it('an idle stream carries a heartbeat every 15 seconds', async () => {
  const clock = fakeClock()
  await using stream = await open(testSource().source, clock)
  await clock.advance(30_000)
  await expect.poll(stream.text).toBe(': heartbeat\n\n: heartbeat\n\n')
})

it('a source that fails breaks its stream, and does not throw where an event is announced', async () => {
  const { source, push, isSubscribed } = testSource()
  let isBroken = false
  const next = () => {
    if (isBroken) throw new Error('disk I/O error')
    return source.next()
  }
  await using stream = await open({ ...source, next })
  const broken = once(stream.response, 'error')
  isBroken = true
  expect(() => push()).not.toThrow()
  expect(await broken).toMatchObject([{ code: 'ECONNRESET' }])
  await expect.poll(isSubscribed).toBe(false)
})

it('a stream ends its subscription when its reader disconnects', async () => {
  const { source, isSubscribed } = testSource()
  await using stream = await open(source)
  expect(isSubscribed()).toBe(true)
  stream.response.destroy()
  await expect.poll(isSubscribed).toBe(false)
})
