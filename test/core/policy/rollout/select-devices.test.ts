import { describe, expect, it } from 'vitest'
import { compareVersions, parseVersionRange } from '../../../../core/kit/base/version-range.ts'
import { type SelectableDevice, selectDevices } from '../../../../core/policy/rollout/select-devices.ts'

const device = (id: string, more: object = {}): SelectableDevice =>
  ({ id, state: 'ready', agent: '0.2.0', labels: {}, identity: null, telemetry: null, ...more }) as SelectableDevice
const enrolled = (group: string, status = 'approved') => ({ identity: { group, status } })

const fleet = [
  device('a', { state: 'lost', labels: { site: 'lab', rack: '1' }, ...enrolled('north') }),
  device('b', { labels: { site: 'lab' }, agent: '0.3.0', telemetry: { device: { module: 'Orin NX' } } }),
  device('c', { agent: '0.3.0-rc.1+abc', ...enrolled('north'), telemetry: { device: { module: 'AGX Orin' } } }),
  device('d', { ...enrolled('north', 'revoked') }),
  device('e', { state: null, agent: null, ...enrolled('south') }),
  device('f', { state: 'draining', agent: 'unknown' }),
]
const select = (selector: object) => selectDevices(fleet, selector).map(({ id }) => id)

describe('selectDevices', () => {
  it('takes devices that fit every condition, the connected ones first', () => {
    expect(select({})).toEqual(['b', 'c', 'f', 'a'])
    expect(select({ labels: { site: 'lab' } })).toEqual(['b', 'a'])
    expect(select({ labels: { site: 'lab', rack: '1' } })).toEqual(['a'])
    expect(select({ groups: ['north', 'south'] })).toEqual(['c', 'a'])
    expect(select({ module: 'orin' })).toEqual(['b', 'c'])
    expect(select({ module: 'orin nx' })).toEqual(['b'])
    expect(select({ agentVersion: '<0.3.0' })).toEqual(['c', 'a'])
    expect(select({ agentVersion: '<0.3.0', groups: ['north'], module: 'agx' })).toEqual(['c'])
  })

  it('takes a device that never connected only by name, and a revoked one never', () => {
    expect(select({ devices: ['d', 'e', 'a'] })).toEqual(['a', 'e'])
    expect(select({ devices: ['a', 'b'], labels: { rack: '1' } })).toEqual(['a'])
  })
})

it('orders versions as Semantic Versioning does', () => {
  const ascending = [
    '0.3.0-alpha',
    '0.3.0-alpha.1',
    '0.3.0-alpha.2',
    '0.3.0-alpha.1a',
    '0.3.0-alpha.beta',
    '0.3.0-rc.2',
    '0.3.0-rc.11',
    '0.3.0',
    '0.3.1',
    '0.10.0',
    '2.0.0',
  ]
  for (const [at, one] of ascending.entries())
    for (const [other, two] of ascending.entries()) expect(Math.sign(compareVersions(one, two)!)).toBe(Math.sign(at - other))
  expect(compareVersions('1.0.0+a', '1.0.0+b')).toBe(0)
  expect(compareVersions('1.0', '1.0.0')).toBeUndefined()
})

it('reads conditions on versions', () => {
  const fits = (range: string, version: string) => parseVersionRange(range)?.(version)
  expect(fits('>=0.2.0 <0.3.0', '0.2.9')).toBe(true)
  expect(fits('>=0.2.0 <0.3.0', '0.3.0')).toBe(false)
  expect(fits('0.3.0', '0.3.0+commit')).toBe(true)
  expect(fits('<0.3.0', 'unknown')).toBe(false)
  for (const range of ['', '0.3', '~0.3.0', '< 0.3.0', '>=0.2.0 and <1.0.0'])
    expect(parseVersionRange(range), range).toBeUndefined()
})
