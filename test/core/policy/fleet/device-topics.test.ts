import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DeviceTopics, type WantedMessage } from '../../../../core/policy/fleet/device-topics.ts'

const hourMs = 3_600_000
const known = (topic: string, payload: string): WantedMessage => ({ topic, payload, presence: 'known' })

describe('the retained messages about a device', () => {
  it('are sent once, again when they change, and all of them to another broker', () => {
    const topics = new DeviceTopics()
    expect(topics.update([known('a', '1'), known('b', '1')], 0)).toHaveLength(2)
    expect(topics.update([known('a', '1'), known('b', '2')], 1)).toEqual([{ topic: 'b', payload: '2' }])
    topics.onConnect()
    expect(topics.update([known('a', '1'), known('b', '2')], 2)).toHaveLength(2)
  })

  it('are cleared when nothing wants them, those of an earlier start too', () => {
    const topics = new DeviceTopics(['old'])
    topics.update([known('a', '1'), known('old', '1')], 0)
    expect(topics.update([known('a', '1')], 1)).toEqual([{ topic: 'old', payload: '' }])
    expect(topics.update([], 2)).toEqual([{ topic: 'a', payload: '' }])
    expect(topics.topics).toEqual([])
  })

  it('survive a sensor that fails for minutes, and not one that is gone', () => {
    const missing: WantedMessage = { topic: 'heat', payload: '1', presence: 'missing' }
    const topics = new DeviceTopics()
    expect(topics.update([missing], 0)).toEqual([])
    topics.update([known('heat', '1')], 1)
    expect(topics.update([missing], 2)).toEqual([])
    expect(topics.update([known('heat', '1')], hourMs)).toEqual([])
    expect(topics.update([missing], hourMs + 1)).toEqual([])
    expect(topics.update([missing], 2 * hourMs)).toEqual([{ topic: 'heat', payload: '' }])
    expect(topics.update([missing], 3 * hourMs)).toEqual([])
  })

  it('stay as they are while it is unknown what the device has', () => {
    const topics = new DeviceTopics(['heat'])
    const unknown = ['heat', 'fan'].map((topic): WantedMessage => ({ topic, payload: '1', presence: 'unknown' }))
    expect(topics.update(unknown, 0)).toEqual([{ topic: 'heat', payload: '1' }])
    expect(topics.update(unknown, 9 * hourMs)).toEqual([])
  })

  it('leave a broker with exactly those that are known to be so', () => {
    const message = fc.record({
      topic: fc.constantFrom('a', 'b', 'c'),
      payload: fc.constantFrom('1', '2'),
      presence: fc.constantFrom('known' as const, 'unknown' as const, 'missing' as const),
    })
    const step = fc.record({ wanted: fc.uniqueArray(message, { selector: ({ topic }) => topic }), afterMs: fc.nat(hourMs) })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const topics = new DeviceTopics()
        const retained = new Map<string, string>()
        let nowMs = 0
        for (const { wanted, afterMs } of steps) {
          nowMs += afterMs
          for (const { topic, payload } of topics.update(wanted, nowMs)) {
            if (payload === '') retained.delete(topic)
            else retained.set(topic, payload)
          }
          for (const { topic, payload, presence } of wanted) if (presence === 'known') expect(retained.get(topic)).toBe(payload)
          for (const topic of retained.keys()) expect(wanted.map((each) => each.topic)).toContain(topic)
          expect([...topics.topics].sort()).toEqual([...retained.keys()].sort())
        }
      }),
    )
  })
})
