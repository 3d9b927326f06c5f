import { describe, expect, it } from 'vitest'
import { OwnTopics } from '../../../agent/link/own-topics.ts'

const from = (bridge: string, fields: object = {}) => Buffer.from(JSON.stringify({ v: 1, bridge, ...fields }))

describe('a message in the name of a bridge', () => {
  it('counts on the topics of all bridges while the bridge has none of its own, and ten seconds longer', () => {
    const own = new OwnTopics(undefined)
    expect(own.accepts(undefined, from('bridge-1'), 0)).toBe(true)
    own.add('bridge-1', 1_000)
    expect([10_999, 11_000].map((nowMs) => own.accepts(undefined, from('bridge-1'), nowMs))).toEqual([true, false])
    expect(own.accepts(undefined, from('bridge-2'), 99_000)).toBe(true)
    own.delete('bridge-1')
    expect(own.accepts(undefined, from('bridge-1'), 99_000)).toBe(true)
  })

  it('counts on topics of its own only', () => {
    const own = new OwnTopics(undefined)
    expect(own.accepts('bridge-1', from('bridge-1'), 0)).toBe(true)
    expect(own.accepts('bridge-2', from('bridge-1'), 0)).toBe(false)
  })

  it('counts at an enrolled device only if that is the bridge where it enrolled', () => {
    const own = new OwnTopics('bridge-1')
    expect([undefined, 'bridge-1'].map((of) => own.accepts(of, from('bridge-1'), 0))).toEqual([true, true])
    expect([undefined, 'bridge-2'].map((of) => own.accepts(of, from('bridge-2'), 0))).toEqual([false, false])
  })

  it('is judged by that name also where the device cannot read the rest of it', () => {
    const own = new OwnTopics('bridge-1')
    expect(own.accepts(undefined, from('bridge-2', { v: 9, job: [] }), 0)).toBe(false)
    expect(own.accepts(undefined, Buffer.from('{'), 0)).toBe(true)
  })
})
