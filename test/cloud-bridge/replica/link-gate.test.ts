import { describe, expect, it } from 'vitest'
import { LinkGate } from '../../../cloud-bridge/replica/link-gate.ts'

const keys = (entries: Record<string, string>) => new Map(Object.entries(entries))

function gateOf(subjects: Record<string, string>) {
  const gate = new LinkGate(true)
  gate.proveBy(async (token) => subjects[token])
  return gate
}

describe('the gate of links', () => {
  it('admits a device that the primary knows by its token, as long as it has the same key in the copied identities', async () => {
    const gate = gateOf({ token: 'device-jetson-01', other: 'device-jetson-02' })
    gate.learn(keys({ 'jetson-01': 'key-1', 'jetson-02': 'key-2' }))
    expect(gate.subjectOf('token')).toBeUndefined()
    const forget = await gate.admit('token')
    await gate.admit('other')
    expect(gate.subjectOf('token')).toBe('device-jetson-01')
    // Another device is revoked, then this one has another key.
    gate.learn(keys({ 'jetson-01': 'key-1' }))
    expect(gate.subjectOf('token')).toBe('device-jetson-01')
    expect(gate.subjectOf('other')).toBeUndefined()
    gate.learn(keys({ 'jetson-01': 'key-9' }))
    expect(gate.subjectOf('token')).toBeUndefined()
    gate.learn(keys({ 'jetson-01': 'key-1' }))
    forget!()
    expect(gate.subjectOf('token')).toBeUndefined()
  })

  it('admits no API key, no unknown token, and no device whose identity has not arrived', async () => {
    const gate = gateOf({ key: 'admin-sam', early: 'device-jetson-09' })
    gate.learn(keys({ 'jetson-01': 'key-1' }))
    for (const token of ['key', 'early', 'unknown', '']) expect(await gate.admit(token)).toBeUndefined()
  })

  it('keeps links that are open when the primary cannot be asked, and admits no new ones then', async () => {
    const gate = gateOf({ token: 'device-jetson-01' })
    gate.learn(keys({ 'jetson-01': 'key-1' }))
    await gate.admit('token')
    gate.proveBy(() => {
      throw new Error('there is no primary')
    })
    await expect(gate.admit('second')).rejects.toThrow('no primary')
    expect(gate.subjectOf('token')).toBe('device-jetson-01')
  })

  it('admits everyone where no proof is required', async () => {
    expect(await new LinkGate(false).admit('')).toBeDefined()
  })
})
