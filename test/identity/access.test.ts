import fc from 'fast-check'
import { expect, it } from 'vitest'
import { allows } from '../../cloud-bridge/identity/access.ts'
import { deviceTopics } from '../../core/protocol/topics.ts'

const id = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,6}[a-z0-9])?$/)
const leaf = fc.constantFrom(...deviceTopics)

/** Whether an MQTT filter covers a topic (3.1.1 §4.7). */
function covers(filter: string, topic: string): boolean {
  const [own, levels] = [filter.split('/'), topic.split('/')]
  for (const [at, part] of own.entries()) {
    if (part === '#') return true
    if (part !== '+' && part !== levels[at]) return false
  }
  return own.length === levels.length
}

it('no device publishes or hears what is of another, whatever it asks for', () => {
  const part = fc.oneof(id, leaf, fc.constantFrom('+', '#', 'brim', 'v1', 'device', 'bridge', 'default', 'state', ''))
  const filter = fc.oneof(
    fc.array(part, { minLength: 1, maxLength: 7 }).map((parts) => parts.join('/')),
    fc.tuple(fc.constantFrom('device', 'bridge'), part, part).map((parts) => `brim/v1/default/${parts.join('/')}`),
  )
  fc.assert(
    fc.property(id, id, leaf, filter, (own, other, name, asked) => {
      fc.pre(own !== other)
      const topic = `brim/v1/default/device/${other}/${name}`
      expect(allows(`device-${own}`, { to: 'publish', topic })).toBe(false)
      if (covers(asked, topic)) expect(allows(`device-${own}`, { to: 'subscribe', filter: asked })).toBe(false)
      expect(allows(`device-${own}`, { to: 'connect', device: other })).toBe(false)
    }),
    { numRuns: 1_000 },
  )
})

it('each direction of each topic is for one side: what a device says no bridge says, and the reverse', () => {
  fc.assert(
    fc.property(id, leaf, (own, name) => {
      const topic = `brim/v1/default/device/${own}/${name}`
      const [device, bridge] = [`device-${own}`, 'bridge-b'].map((client) => allows(client, { to: 'publish', topic }))
      expect(device).not.toBe(bridge)
      expect(allows(`device-${own}`, { to: 'subscribe', filter: topic })).toBe(bridge === true || name === 'state')
      expect(allows('bridge-b', { to: 'subscribe', filter: topic })).toBe(true)
    }),
  )
})

it('a device hears the states of all bridges, and is one device', () => {
  expect(allows('device-a', { to: 'subscribe', filter: 'brim/v1/default/bridge/+/state' })).toBe(true)
  expect(allows('device-a', { to: 'subscribe', filter: 'brim/v1/+/bridge/+/state' })).toBe(false)
  expect(allows('device-a', { to: 'connect', device: 'a' })).toBe(true)
  expect(allows('bridge-a', { to: 'connect', device: 'a' })).toBe(false)
  expect(allows('device-a', { to: 'read' })).toBe(false)
})
