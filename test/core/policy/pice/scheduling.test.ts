import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { quantile } from '../../../../core/policy/estimate/quantile.ts'
import { defaultBatchTerms } from '../../../../core/policy/pice/next-batch.ts'
import { defaultPlanTerms, planAnswer } from '../../../../core/policy/pice/plan-answer.ts'
import { answerS } from '../../../../core/policy/pice/speeds.ts'
import { type Outcome, poisson, type Simulated, simulate } from '../../../support/pice-simulation.ts'

const shares = [0.45, 0.38, 0.32]
const terms = { ...defaultPlanTerms, ...defaultBatchTerms }
const cloudOf = (slots: number) => ({ slots, ttftS: 0.2, tpotS: 0.05 })
const parallel = [
  [2, 1.6],
  [4, 2.4],
  [8, 3],
  [16, 3.5],
] as const

/** @param c time of each device's small model, over the LLM's */
function scenario(slots: number, c: readonly number[]): Simulated {
  return {
    cloud: cloudOf(slots),
    devices: c.map((ratio, at) => {
      const model = { model: 'm', loadS: 0, ttftS: 0.2 * ratio, tpotS: 0.05 * ratio, parallel, ability: 0.6 }
      return { device: `d${at}`, models: [model], current: 'm', networkS: 0.05 }
    }),
    terms,
    noise: () => ({ sketch: 1, expansion: 1 }),
    plan: (expectedTokens, view, cloud) => planAnswer({ expectedTokens, isSketchRequested: false }, view, cloud, shares, terms),
  }
}
const cloudOnly = (of: Simulated): Simulated => ({
  ...of,
  plan: (tokens, _, cloud) => ({ mode: 'full', reason: 'no-device', fullS: answerS(cloud, tokens) }),
})

/** @param load over what the LLM alone can answer */
function arrivalsAt(load: number, slots: number, { seed = 3, count = 80, foresight = 0 } = {}) {
  const perS = (load * slots) / answerS({ ...cloudOf(slots), waitS: 0 }, 210)
  return poisson(seededRandom(seed), { perS, count, foresight })
}
const latencyS = ({ answers }: Outcome) => answers.reduce((sum, answer) => sum + answer.latencyS, 0) / answers.length
const endS = ({ answers }: Outcome) => Math.max(...answers.map(({ arrival, latencyS }) => arrival.atS + latencyS))

describe.each([0.5, 1.5, 3])('at %f times the capacity of the LLM', (load) => {
  it.each([
    [4, [0.7, 0.7, 0.7, 0.7], 0.1],
    [16, [1, 1, 1, 1], 0.1],
    [16, [0.5, 2, 4], 0.2],
  ])(
    'with %i slots and devices of %j, no plan is slower than the full answer by more than %f, its prediction error',
    (slots, c, error) => {
      const { answers } = simulate(arrivalsAt(load, slots), scenario(slots, c))
      const sketched = answers.filter(({ plan }) => plan.mode === 'sketch')
      expect(sketched.length).toBeGreaterThan(0)
      for (const { plan } of sketched) expect(plan.predictedS).toBeLessThanOrEqual(plan.fullS)
      const overFull = sketched.map(({ plan, latencyS }) => latencyS / plan.fullS)
      expect(quantile(overFull, 0.95)).toBeLessThanOrEqual(1)
      expect(Math.max(...overFull)).toBeLessThanOrEqual(1 + error)
    },
  )

  it('answers are no later than those of the LLM alone, and no fewer, in spite of wrong predictions', () => {
    const random = seededRandom(11)
    const wrong = () => 0.8 + 0.4 * random.next()
    const of = { ...scenario(16, [1, 1, 1, 1]), noise: () => ({ sketch: wrong(), expansion: wrong() }) }
    const arrivals = arrivalsAt(load, 16, { foresight: 0.3 })
    const [pice, alone] = [simulate(arrivals, of), simulate(arrivals, cloudOnly(of))]
    expect(latencyS(pice)).toBeLessThanOrEqual(latencyS(alone))
    expect(endS(pice)).toBeLessThanOrEqual(1.05 * endS(alone))
  })
})

describe('dispatch', () => {
  const any = fc.record({
    ...{ seed: fc.nat(), slots: fc.constantFrom(2, 8), load: fc.constantFrom(0.5, 1.5, 4) },
    devices: fc.integer({ min: 1, max: 5 }),
    c: fc.double({ min: 0.2, max: 1.5, noNaN: true }),
  })
  // All are sketched, so that devices cannot keep up.
  const greedy = (of: Simulated): Simulated => ({
    ...of,
    plan: (expectedTokens, view, cloud) => {
      const own = { ...terms, maxWaitingPerDevice: 1_000 }
      return planAnswer({ expectedTokens, isSketchRequested: true }, view, cloud, shares, own)
    },
  })

  it('answers everything once, and leaves no equal device idle while an expansion waits', () => {
    fc.assert(
      fc.property(any, ({ seed, slots, load, devices, c }) => {
        const arrivals = arrivalsAt(load, slots, { seed, count: 25 })
        const { answers, states } = simulate(arrivals, greedy(scenario(slots, Array<number>(devices).fill(c))))
        expect(new Set(answers.map(({ arrival }) => arrival))).toEqual(new Set(arrivals))
        expect(answers).toHaveLength(arrivals.length)
        for (const { idle, waiting } of states) expect(Math.min(idle, waiting)).toBe(0)
      }),
      { numRuns: 12, examples: [[{ seed: 268078533, slots: 8, load: 0.5, devices: 1, c: 1.4999999850000092 }]] },
    )
  })

  it('begins each expansion within the age bound and what the devices need for those before it', () => {
    fc.assert(
      fc.property(any, ({ seed, slots, load, devices, c }) => {
        const arrivals = arrivalsAt(load, slots, { seed, count: 25 })
        const of = scenario(slots, [...Array<number>(devices).fill(c), 20 * c])
        const { answers } = simulate(arrivals, greedy(of))
        expect(answers).toHaveLength(arrivals.length)
        const longestS = Math.max(...of.devices.map(({ models }) => 4 * (models[0]!.ttftS + 300 * models[0]!.tpotS)))
        for (const { waitedS } of answers) expect(waitedS).toBeLessThanOrEqual(terms.maxWaitS + arrivals.length * longestS)
      }),
      { numRuns: 8 },
    )
  })
})
