import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HatConditions, UplinkAction } from '../../../../core/policy/hat/hat-steps.ts'
import { UplinkFlow } from '../../../../core/policy/hat/uplink-flow.ts'

const conditions: HatConditions = {
  chunkTokens: 8,
  frameTokens: 64,
  draftLimit: 8,
  mayDraftAhead: true,
  upBytesPerS: 1_000,
  rttS: 0.1,
  cloudS: 0,
}
type Exchange = Extract<UplinkAction, { kind: 'exchange' }>

/** @param bytesPerToken 10 by default: the link holds ten rows */
function uplink(bytesPerToken = 10) {
  const actions: UplinkAction[] = []
  const flow = new UplinkFlow(bytesPerToken, (action) => actions.push(action))
  const taken = () => actions.splice(0)
  const frames = () =>
    taken().map((action) => (action.kind === 'exchange' ? [action.from, action.to, action.returned] : action.kind))
  const send = (from: number, to: number, returned: number, parents: readonly number[] = []) =>
    flow.send({ from, to, returned, parents }, conditions)
  return { flow, taken, frames, send }
}

describe('back-pressure', () => {
  it('lets a frame of any size wait beyond what the link holds, and no more', () => {
    const { flow, frames, send } = uplink()
    expect([send(0, 8, 0), send(8, 16, 0)]).toEqual([true, true])
    // Sixteen rows are on their way: a frame of six and more may follow.
    expect([send(16, 21, 0), send(16, 22, 0)]).toEqual([false, true])
    expect(send(22, 30, 0)).toBe(false)
    expect(frames()).toHaveLength(3)
    flow.on({ kind: 'replied', frame: 1, rows: 0 }, conditions)
    expect(send(22, 30, 0)).toBe(true)
  })

  it('forgets the frames that were replied to, however many they were', () => {
    const { flow, send } = uplink()
    for (let at = 0; at < 50; at += 1) {
      expect(send(50 * at, 50 * (at + 1), 0)).toBe(true)
      flow.on({ kind: 'replied', frame: at + 1, rows: 0 }, conditions)
    }
    expect([send(0, 1, 0), send(1, 2, 0), send(2, 3, 0)]).toEqual([true, true, true])
  })
})

describe('rows that a bridge has lost', () => {
  it('are sent again from the gap, in chunks, the wanted ones in the last frame', () => {
    const { flow, frames, send } = uplink(0)
    send(0, 20, 0)
    flow.on({ kind: 'replied', frame: 1, rows: 0 }, conditions)
    send(20, 23, 3)
    flow.settle(conditions)
    flow.on({ kind: 'gap', frame: 2, held: 5 }, conditions)
    expect(frames()).toEqual([
      [0, 20, 0],
      [20, 23, 3],
      [5, 13, 0],
      [13, 20, 0],
      [20, 23, 3],
    ])
    flow.on({ kind: 'replied', frame: 3, rows: 0 }, conditions)
    flow.on({ kind: 'replied', frame: 4, rows: 0 }, conditions)
    expect(flow.isSettled).toBe(false)
    flow.on({ kind: 'replied', frame: 5, rows: 3 }, conditions)
    expect([flow.isSettled, flow.failovers]).toEqual([true, 0])
  })

  it('are sent to the next session from the first one, once it is open; frames of the lost one count no more', () => {
    const { flow, frames, send } = uplink()
    send(0, 8, 0)
    send(8, 16, 0)
    flow.on({ kind: 'failed', frame: 1 }, conditions)
    expect(frames()).toEqual([[0, 8, 0], [8, 16, 0], 'reopen'])
    // The rest of the prompt waits for the replay.
    expect(send(16, 40, 1)).toBe(true)
    flow.settle(conditions)
    flow.on({ kind: 'failed', frame: 2 }, conditions)
    expect(frames()).toEqual([])
    flow.on({ kind: 'reopened' }, conditions)
    // As many frames as the link holds, and one more.
    expect(frames()).toEqual([
      [0, 8, 0],
      [8, 16, 0],
      [16, 24, 0],
    ])
    flow.on({ kind: 'replied', frame: 3, rows: 0 }, conditions)
    expect(frames()).toEqual([[24, 32, 0]])
    flow.on({ kind: 'replied', frame: 4, rows: 0 }, conditions)
    expect(frames()).toEqual([[32, 40, 1]])
    for (const frame of [5, 6]) flow.on({ kind: 'replied', frame, rows: 0 }, conditions)
    expect(flow.isSettled).toBe(false)
    flow.on({ kind: 'replied', frame: 7, rows: 1 }, conditions)
    expect([flow.isSettled, flow.failovers]).toEqual([true, 1])
  })

  it('end the answer when they are lost every time', () => {
    const { flow, taken, send } = uplink()
    send(0, 1, 1)
    flow.settle(conditions)
    for (let frame = 1; frame <= 6; frame++) flow.on({ kind: 'gap', frame, held: 0 }, conditions)
    expect(taken().at(-1)).toEqual({ kind: 'lost', times: 6 })
  })

  it('move to another session where the bridge returns too few of them', () => {
    const { flow, taken, send } = uplink()
    send(0, 3, 3)
    flow.settle(conditions)
    flow.on({ kind: 'replied', frame: 1, rows: 2 }, conditions)
    expect(taken().at(-1)).toEqual({ kind: 'reopen', wrongRows: { got: 2, wanted: 3 } })
  })
})

describe('a draft that branches', () => {
  const parents = [-1, 0, 0, 1]

  it('tells the bridge with the next frame which of its rows were kept', () => {
    const { flow, taken, send } = uplink()
    send(10, 14, 4, parents)
    flow.settle(conditions)
    flow.on({ kind: 'replied', frame: 1, rows: 4 }, conditions)
    flow.keepRows([0, 2])
    // The bridge has the first of them as a chain.
    expect(flow.chain).toBe(11)
    send(12, 13, 1)
    const trees = taken().map((action) => (action as Exchange).tree)
    expect(trees).toEqual([
      { kept: [], parents },
      { kept: [0, 2], parents: [] },
    ])
    expect(flow.chain).toBe(Number.POSITIVE_INFINITY)
  })

  it('is sent to another session as a tree again, after the rows before it as a chain', () => {
    const { flow, taken, send } = uplink()
    send(2, 6, 4, parents)
    flow.settle(conditions)
    flow.on({ kind: 'failed', frame: 1 }, conditions)
    flow.on({ kind: 'reopened' }, conditions)
    expect(taken().slice(2)).toMatchObject([
      { from: 0, to: 2, returned: 0, tree: undefined },
      { from: 2, to: 6, returned: 4, tree: { kept: [], parents } },
    ])
  })
})

it('pads the frames whose deep states all return', () => {
  const { flow, taken } = uplink()
  const padded = { ...conditions, paddedRows: 9 }
  flow.send({ from: 0, to: 5, returned: 1, parents: [] }, padded)
  flow.send({ from: 5, to: 7, returned: 2, parents: [] }, padded)
  expect(taken().map((action) => (action as Exchange).paddedRows)).toEqual([undefined, 9])
})

it('settles whatever is lost, with no row missing at the bridge, as long as it is not lost again and again', () => {
  const frame = fc.record({ rows: fc.integer({ min: 1, max: 30 }), wanted: fc.integer({ min: 1, max: 30 }) })
  const fate = fc.constantFrom('reply', 'reply', 'reply', 'forget', 'fail')
  fc.assert(
    fc.property(fc.array(frame, { minLength: 1, maxLength: 6 }), fc.array(fate, { maxLength: 12 }), (frames, fates) => {
      const { flow, taken } = uplink()
      let held = 0
      let isOpen = true
      let isLost = false
      let left = [...fates]
      const inFlight: Exchange[] = []
      const carryOut = () => {
        for (const action of taken()) {
          if (action.kind === 'exchange') inFlight.push(action)
          else if (action.kind === 'reopen') isOpen = false
          else isLost = true
        }
      }
      /** The bridge replies to its oldest frame, or link or bridge fails. */
      const happen = () => {
        carryOut()
        if (!isOpen) {
          isOpen = true
          held = 0
          inFlight.length = 0
          flow.on({ kind: 'reopened' }, conditions)
        } else {
          const next = inFlight.shift()!
          const [what = 'reply', ...rest] = left
          left = rest
          if (what === 'fail') flow.on({ kind: 'failed', frame: next.frame }, conditions)
          else {
            if (what === 'forget') held = Math.floor(held / 2)
            if (next.from > held) flow.on({ kind: 'gap', frame: next.frame, held }, conditions)
            else {
              held = next.to
              flow.on({ kind: 'replied', frame: next.frame, rows: next.returned }, conditions)
            }
          }
        }
        carryOut()
      }
      let to = 0
      for (const { rows, wanted } of frames) {
        const from = to
        to += rows
        const rowsToSend = { from, to, returned: Math.min(rows, wanted), parents: [] }
        while (!flow.send(rowsToSend, conditions)) happen()
        carryOut()
      }
      flow.settle(conditions)
      carryOut()
      for (let events = 0; !flow.isSettled && !isLost; events++) {
        expect(events).toBeLessThan(1_000)
        happen()
      }
      if (!isLost) expect([held, inFlight]).toEqual([to, []])
      else expect(fates.filter((what) => what !== 'reply').length).toBeGreaterThanOrEqual(6)
    }),
  )
})
