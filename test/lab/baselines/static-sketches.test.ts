import { describe, expect, it } from 'vitest'
import type { ExpandingDevice } from '../../../core/policy/pice/state.ts'
import { oldestFirst, planStatically, routeByScore } from '../../../lab/baselines/static-sketches.ts'

const cloud = { waitS: 0, ttftS: 1, tpotS: 0.1 }
const terms = {
  ...{ minTokens: 100, level: 2, tokensPerSentence: 20, candidates: 1 },
  ...{ sketchSlackTokens: 0, overlap: true, unmeasuredAbility: 0.5 },
}
const device = (busyS: number): ExpandingDevice => ({
  ...{ device: `busy ${busyS} s`, current: 'm', busyS, networkS: 0 },
  models: [{ model: 'm', loadS: 0, ttftS: 0, tpotS: 9, parallel: [], ability: 0 }],
})
const plan = (expectedTokens: number, devices: readonly ExpandingDevice[], isSketchRequested = false) =>
  planStatically({ expectedTokens, isSketchRequested }, { devices, waiting: [] }, cloud, [0.5, 0.4], terms)

describe('static scheduling', () => {
  it('sketches long answers at its level, whatever the load', () => {
    expect(plan(100, [device(9_999), device(999)])).toMatchObject({
      mode: 'sketch',
      level: 2,
      sketchTokens: 40,
      device: 'busy 999 s',
    })
    expect(plan(99, [device(0)])).toMatchObject({ mode: 'full', reason: 'short' })
    expect(plan(99, [device(0)], true)).toMatchObject({ mode: 'sketch', level: 2 })
    expect(plan(100, [])).toMatchObject({ mode: 'full', reason: 'no-device' })
  })

  it('dispatches in the order of arrival', () => {
    const waiting = [1, 3, 2].map((waitedS) => ({ id: `${waitedS}`, expectedTokens: 100 * waitedS, waitedS }))
    expect(oldestFirst(waiting, 2).map(({ id }) => id)).toEqual(['3', '2'])
  })
})

describe('routing by a score', () => {
  const scores = Array.from({ length: 101 }, (_, at) => at)

  it('sends the given share with the least scores to devices', () => {
    const routed = (share: number) => scores.filter((score) => routeByScore(scores, share)(score) === 'device')
    expect(routed(0.25)).toEqual(scores.slice(0, 26))
    expect(routed(0)).toEqual([])
    expect(routed(1)).toEqual(scores)
  })
})
