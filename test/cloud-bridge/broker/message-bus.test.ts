import { expect, it } from 'vitest'
import { type Listener, MessageBus } from '../../../cloud-bridge/broker/message-bus.ts'

it('messages to very many subscribers give way to others, and reach each in order until it leaves', async () => {
  const bus = new MessageBus()
  const received: string[][] = Array.from({ length: 1_000 }, () => [])
  const listeners = received.map(
    (own): Listener =>
      ({ topic }, done) => {
        own.push(topic)
        done()
      },
  )
  for (const listener of listeners) bus.on('all/+', listener)
  const ended = Promise.all(['all/1', 'all/2'].map((topic) => new Promise<void>((done) => bus.emit({ topic }, done))))
  let others = 0
  bus.on('other', (_, done) => {
    others += 1
    done()
  })
  bus.emit({ topic: 'other' })
  expect(others).toBe(1)
  expect(received.at(-1)).toEqual([])
  bus.removeListener('all/+', listeners.at(-1)!)
  await ended
  expect(received.at(-1)).toEqual([])
  for (const own of received.slice(0, -1)) expect(own).toEqual(['all/1', 'all/2'])
})

it('a message is delivered although one of its subscribers ends the subscription of another meanwhile', () => {
  const bus = new MessageBus()
  const delivered: string[] = []
  const second: Listener = (_, done) => {
    delivered.push('second')
    done()
  }
  bus.on('a/+', (_, done) => {
    delivered.push('first')
    bus.removeListener('a/+', second)
    done()
  })
  bus.on('a/+', second)
  let ends = 0
  bus.emit({ topic: 'a/b' }, () => {
    ends += 1
  })
  expect(delivered).toEqual(['first', 'second'])
  expect(ends).toBe(1)
})
