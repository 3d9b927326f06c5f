import { describe, expect, it } from 'vitest'
import { chooseBridge } from '../../../../core/policy/link/choose-bridge.ts'
import type { BridgeState } from '../../../../core/wire/protocol/messages.ts'

const ours = 'aa'.repeat(32)
const other = 'bb'.repeat(32)
const ready = (fields: Partial<BridgeState> = {}): BridgeState => ({
  v: 1,
  state: 'ready',
  birth: 1,
  at: '2026-01-02T03:04:05.678Z',
  modelId: ours,
  data: 'ws://127.0.0.1:7070/v1/data',
  sessions: 0,
  ...fields,
})
const chosenOf = (states: Record<string, BridgeState>, present?: string, isConnected = false) =>
  chooseBridge(new Map(Object.entries(states)), ours, present === undefined ? undefined : { bridge: present, isConnected })
const choose = (states: Record<string, BridgeState>, present?: string) => chosenOf(states, present)?.bridge

describe('the choice of a bridge', () => {
  it.each([
    {
      what: 'is none if no bridge is ready',
      states: { a: ready({ state: 'lost' }), b: ready({ state: 'draining' }) },
      chosen: undefined,
    },
    {
      what: 'is never a bridge without a data plane URL',
      states: { a: { ...ready(), data: undefined } as unknown as BridgeState },
      chosen: undefined,
    },
    {
      what: 'prefers a bridge with the model of the device',
      states: { a: ready({ modelId: other }), b: ready({ sessions: 9 }) },
      chosen: 'b',
    },
    {
      what: 'is a bridge with another model if there is no other, so that the mismatch is reported',
      states: { a: ready({ modelId: other }) },
      chosen: 'a',
    },
    { what: 'is the least busy bridge', states: { a: ready({ sessions: 3 }), b: ready({ sessions: 2 }) }, chosen: 'b' },
    {
      what: 'is the present bridge if no other is better',
      states: { a: ready({ sessions: 3 }), b: ready() },
      present: 'a',
      chosen: 'a',
    },
    {
      what: 'changes when the present bridge changes its model',
      states: { a: ready({ modelId: other }), b: ready() },
      present: 'a',
      chosen: 'b',
    },
  ])('$what', ({ states, present, chosen }) => {
    expect(choose(states as Record<string, BridgeState>, present)).toBe(chosen)
  })

  it('follows what the connected bridge announces after a restart with another model', () => {
    const restarted = ready({ modelId: other, birth: 2 })
    expect(chosenOf({ a: restarted }, 'a', true)).toMatchObject({ bridge: 'a', modelIds: [other], birth: 2 })
    expect(chosenOf({ a: restarted, b: ready() }, 'a', true)).toMatchObject({ bridge: 'b', modelIds: [ours] })
    expect(chosenOf({ a: ready({ birth: 3 }), b: ready() }, 'a', true)).toMatchObject({ bridge: 'a', modelIds: [ours], birth: 3 })
  })

  it.each(['draining', 'lost', 'disconnected'] as const)('stays with a connected bridge that is %s', (state) => {
    expect(chosenOf({ a: ready({ state }), b: ready() }, 'a', true)).toBeUndefined()
    expect(chosenOf({ a: ready({ state }), b: ready() }, 'a', false)?.bridge).toBe('b')
    expect(chosenOf({ b: ready() }, 'a', true)).toBeUndefined()
  })
})
