import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { defaultPlanTerms, type PlanTerms, planAnswer } from '../../../../core/policy/pice/plan-answer.ts'
import type { CloudSpeed, ExpandingDevice, FleetView, SmallModelSpeed } from '../../../../core/policy/pice/state.ts'

const cloud: CloudSpeed = { waitS: 0, ttftS: 1, tpotS: 0.1 }
const shares = [0.5, 0.4, 0.3]

/** A small model `c` times as slow as the LLM alone. */
const model = (c: number, fields: Partial<SmallModelSpeed> = {}): SmallModelSpeed => ({
  ...{ model: `c${c}`, loadS: 0, ttftS: c * cloud.ttftS, tpotS: c * cloud.tpotS, parallel: [], ability: 0.7 },
  ...fields,
})
const device = (name: string, models: readonly SmallModelSpeed[], fields: Partial<ExpandingDevice> = {}): ExpandingDevice => ({
  ...{ device: name, models, current: models[0]!.model, busyS: 0, networkS: 0.05 },
  ...fields,
})
const waiting = (id: string, expectedTokens: number, arrivesInS?: number) => ({
  ...{ id, expectedTokens, waitedS: 0 },
  ...(arrivesInS === undefined ? {} : { arrivesInS }),
})
const terms: PlanTerms = { ...defaultPlanTerms, sketchSlackTokens: 0 }
const plan = (expectedTokens: number, view: FleetView, own: Partial<PlanTerms> = {}, isSketchRequested = false) =>
  planAnswer({ expectedTokens, isSketchRequested }, view, cloud, shares, { ...terms, ...own })

const f = (tokens: number) => 1 + 0.1 * (tokens - 1)

describe('a plan', () => {
  it('satisfies Eq. 2 as printed for equal devices', () => {
    fc.assert(
      fc.property(
        fc.record({
          l: fc.integer({ min: 64, max: 1_000 }),
          c: fc.double({ min: 0.05, max: 1.5, noNaN: true }),
          p: fc.constantFrom(1, 2, 4),
          n: fc.integer({ min: 1, max: 8 }),
          queue: fc.array(fc.integer({ min: 64, max: 1_000 }), { maxLength: 8 }),
        }),
        ({ l, c, p, n, queue }) => {
          const slm = model(c, { ttftS: 0, tpotS: (c * f(l)) / (l - 1) })
          // One more token than is timed, so that every length takes c · f(l) / p of the same line.
          const fast = { ...slm, parallel: [[2, p] as const] }
          const view = {
            devices: Array.from({ length: n }, (_, at) => device(`d${at}`, [fast])),
            waiting: queue.map((tokens, at) => waiting(`q${at}`, tokens)),
          }
          const slmS = (tokens: number) => ((tokens - 1) * fast.tpotS) / p
          const printed = (share: number) =>
            f(Math.round(share * l)) + 0.05 + slmS(l) + queue.reduce((sum, tokens) => sum + slmS(tokens), 0) / n
          const possible = shares.some((share) => printed(share) <= f(l) - 1e-9)
          const impossible = shares.every((share) => printed(share) > f(l) + 1e-9)
          const own = { overlap: false, maxWaitingPerDevice: 99, objectives: [{ metric: 'throughput', tolerance: 0 }] as const }
          const chosen = plan(l, view, own)
          if (possible) expect(chosen).toMatchObject({ mode: 'sketch' })
          if (impossible) expect(chosen).toMatchObject({ mode: 'full', reason: 'latency' })
          if (chosen.mode === 'sketch') expect(chosen.predictedS).toBeCloseTo(printed(shares[chosen.level - 1]!))
        },
      ),
    )
  })
})
