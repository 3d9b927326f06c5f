import { expect, it } from 'vitest'
import { type Listener, MessageBus } from '../../../cloud-bridge/broker/message-bus.ts'

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
