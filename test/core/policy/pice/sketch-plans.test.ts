import { describe, expect, it } from 'vitest'
import { defaultPlanTerms } from '../../../../core/policy/pice/plan-answer.ts'
import { sketchPlans } from '../../../../core/policy/pice/sketch-plans.ts'
import type { CloudSpeed, ExpandingDevice } from '../../../../core/policy/pice/state.ts'

const cloud: CloudSpeed = { waitS: 0, ttftS: 1, tpotS: 0.1 }
const slm = { model: 'slm', loadS: 0, ttftS: 0, tpotS: 0.02, parallel: [], ability: 0.7 }
const device: ExpandingDevice = { device: 'd', models: [slm], current: 'slm', busyS: 0, networkS: 0.05 }
const terms = { ...defaultPlanTerms, sketchSlackTokens: 0 }
const planOf = (own: Partial<ExpandingDevice> = {}, load: Partial<CloudSpeed> = {}, more: Partial<typeof terms> = {}) =>
  sketchPlans(201, { devices: [{ ...device, ...own }], waiting: [] }, { ...cloud, ...load }, [0.5], { ...terms, ...more })[0]!

describe('the prediction for a sketch', () => {
  it('allows the sketch some more tokens than it was asked for', () => {
    expect(planOf().sketchS).toBeCloseTo(1 + 0.1 * 100)
    expect(planOf({}, {}, { sketchSlackTokens: 10 }).sketchS).toBeCloseTo(1 + 0.1 * 110)
  })

  it('counts the tokens of all candidates', () => {
    expect(planOf({}, {}, { candidates: 3 }).metrics).toMatchObject({ serverCost: 101, edgeCost: 603 })
  })

  it('expects what was asked for before no later than if it were asked for now', () => {
    const queueS = (arrivesInS: number) => {
      const waiting = [{ id: 'before', expectedTokens: 401, waitedS: 0, arrivesInS }]
      return sketchPlans(201, { devices: [device], waiting }, cloud, [0.5, 0.1], terms)[0]!.queueS
    }
    // This sketch is written after 11 s, that one would be after 20.95 s; the device takes 8 s for it.
    expect(queueS(5)).toBeCloseTo(5 + 8 - 11)
    expect(queueS(900)).toBeCloseTo(20.95 + 8 - 11)
  })

  it('leaves no time for a slower small model where others wait', () => {
    expect(planOf().withinS).toBe(Number.POSITIVE_INFINITY)
    const slower = { ...slm, model: 'slower', tpotS: 0.04 }
    const view = { devices: [{ ...device, models: [slm, slower] }], waiting: [] }
    const plans = sketchPlans(201, view, { ...cloud, waitS: 20 }, [0.5], terms)
    expect(plans[0]!.withinS).toBeGreaterThan(plans[0]!.expansionS)
    expect(plans[0]!.withinS).toBeLessThan(plans[1]!.expansionS)
    const busy = { ...view, waiting: [{ id: 'w', expectedTokens: 100, waitedS: 0 }] }
    expect(sketchPlans(201, busy, cloud, [0.5], terms)[0]!.withinS).toBeCloseTo(plans[0]!.withinS)
  })

  it('has the stage as bottleneck that answers wait for', () => {
    expect(planOf().metrics.throughput).toBeCloseTo(11)
    // The LLM writes four sketches at once.
    expect(planOf({}, { waitS: 20, slots: 4 }).metrics.throughput).toBeCloseTo(11 / 4)
    // The sketch waits for the device half as long as for the LLM, so that the device's time counts half.
    expect(planOf({ busyS: 71 }, { waitS: 40, slots: 4 }).metrics.throughput).toBeCloseTo(11 / 4 + (200 * 0.02) / 2)
    // The device works for longer than the sketch takes: it limits the answers per second.
    expect(planOf({ busyS: 30 }, { slots: 4 }).metrics.throughput).toBeCloseTo(200 * 0.02)
    // As many answers share the LLM's time that it limits them, although none waits for its first token.
    expect(planOf({ busyS: 130 }, { slots: 4, running: 19, tpotS: 1 }).metrics.throughput).toBeCloseTo(101 / 20)
  })
})
