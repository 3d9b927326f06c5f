import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type PresenceEvent, PresenceFeed } from '../../../cloud-bridge/presence/presence-feed.ts'
import type { DeviceState } from '../../../core/wire/protocol/messages.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const devices = ['a', 'b', 'c']
const stateOf = (state: DeviceState['state'], jobs: string[], birth = 1): DeviceState => ({
  ...{ v: 1, at: new Date(0).toISOString() },
  ...{ state, birth, jobs },
})
const event: fc.Arbitrary<PresenceEvent> = fc.oneof(
  fc.constant({ kind: 'broker lost' } as const),
  fc.record({
    kind: fc.constant('state' as const),
    device: fc.constantFrom(...devices),
    state: fc
      .tuple(
        fc.constantFrom('ready', 'draining', 'disconnected', 'lost'),
        fc.subarray(['slm.generate', 'pice.expand']),
        fc.integer({ min: 1, max: 1_000 }),
      )
      .map(([state, jobs, birth]) => stateOf(state as DeviceState['state'], jobs, birth)),
  }),
)

/** What a subscriber can see at an event: the event, and the answers to all questions. */
const seenAt = (feed: PresenceFeed, event: PresenceEvent) =>
  JSON.stringify([event, devices.map((device) => [feed.isPresent(device), feed.takers.get(device)])])

describe('the presence of devices', () => {
  it('is the same for all subscribers at each event, whatever they publish, however many fail or come later', () => {
    const given = fc.array(fc.record({ event, echo: fc.option(event), isFailing: fc.boolean(), joins: fc.boolean() }))
    fc.assert(
      fc.property(given, (steps) => {
        const feed = new PresenceFeed(silentLogger())
        const first: string[] = []
        const logs = [first]
        const echoes: PresenceEvent[] = []
        let isFailing = false
        feed.subscribe((event) => {
          first.push(seenAt(feed, event))
          const echo = echoes.pop()
          if (echo) feed.publish(echo)
          if (isFailing) throw new Error('a part of the bridge has failed')
        })
        for (const step of steps) {
          if (step.joins) {
            const log: string[] = []
            logs.push(log)
            feed.subscribe((event) => log.push(seenAt(feed, event)))
          }
          isFailing = step.isFailing
          if (step.echo) echoes.push(step.echo)
          feed.publish(step.event)
        }
        const echoed = steps.filter(({ echo }) => echo).length
        return (
          first.length === steps.length + echoed &&
          logs.every((log) => log.join() === first.slice(first.length - log.length).join())
        )
      }),
    )
  })

  it('is of the last state of each device, until the bridge receives no messages', () => {
    const feed = new PresenceFeed(silentLogger())
    const publish = (state: DeviceState['state'], jobs: string[]) =>
      feed.publish({ kind: 'state', device: 'a', state: stateOf(state, jobs) })
    const present = () => [feed.isPresent('a'), feed.takers.has('a')]
    const seen = [present()]
    publish('ready', ['slm.generate'])
    seen.push(present())
    publish('draining', ['slm.generate'])
    seen.push(present())
    publish('ready', [])
    seen.push(present())
    publish('ready', ['slm.generate'])
    feed.publish({ kind: 'broker lost' })
    seen.push(present())
    publish('lost', ['slm.generate'])
    seen.push(present())
    expect(seen).toEqual([
      [false, false],
      [true, true],
      [true, false],
      [true, false],
      [false, false],
      [false, false],
    ])
  })

  it('is told to no one who has unsubscribed', () => {
    const feed = new PresenceFeed(silentLogger())
    const seen: string[] = []
    const end = feed.subscribe((event) => seen.push(event.kind))
    feed.publish({ kind: 'broker lost' })
    end()
    feed.publish({ kind: 'broker lost' })
    expect(seen).toEqual(['broker lost'])
  })
})
