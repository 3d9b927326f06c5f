import { describe, expect, it } from 'vitest'
import { chooseBridge } from '../../../../core/policy/link/choose-bridge.ts'
import type { BridgeState } from '../../../../core/protocol/messages.ts'

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
const choose = (states: Record<string, BridgeState>, present?: string) =>
  chooseBridge(new Map(Object.entries(states)), ours, present)?.bridge

describe('choosing a bridge', () => {
  it.each([
    {
      what: 'takes none where none is ready',
      states: { a: ready({ state: 'lost' }), b: ready({ state: 'draining' }) },
      chosen: undefined,
    },
    {
      what: 'takes none that does not say where it is',
      states: { a: { ...ready(), data: undefined } as unknown as BridgeState },
      chosen: undefined,
    },
    {
      what: 'prefers one that serves our model',
      states: { a: ready({ modelId: other }), b: ready({ sessions: 9 }) },
      chosen: 'b',
    },
    {
      what: 'still names one with another model, so that its user learns of it',
      states: { a: ready({ modelId: other }) },
      chosen: 'a',
    },
    { what: 'takes the least busy', states: { a: ready({ sessions: 3 }), b: ready({ sessions: 2 }) }, chosen: 'b' },
    {
      what: 'stays where it is while that is as good',
      states: { a: ready({ sessions: 3 }), b: ready() },
      present: 'a',
      chosen: 'a',
    },
    {
      what: 'leaves a bridge that changed its model',
      states: { a: ready({ modelId: other }), b: ready() },
      present: 'a',
      chosen: 'b',
    },
  ])('$what', ({ states, present, chosen }) => {
    expect(choose(states as Record<string, BridgeState>, present)).toBe(chosen)
  })
})
