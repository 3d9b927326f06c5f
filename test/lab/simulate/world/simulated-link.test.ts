import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { RateTrace } from '../../../../lab/cluster/rate-trace.ts'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { type LinkModel, SimulatedLink } from '../../../../lab/simulate/world/simulated-link.ts'

const constant = (bytesPerS: number): RateTrace => ({ intervalMs: Number.POSITIVE_INFINITY, bytesPerS: [bytesPerS] })

/** When messages sent at the start arrive. */
function arrivals(model: Partial<LinkModel>, messages: readonly (readonly ['up' | 'down', number])[]) {
  const simulation = new Simulation(1)
  const own = { up: constant(1_000), down: constant(4_000), rttMs: 100, ...model }
  const link = new SimulatedLink(simulation, own, simulation.random('loss'))
  const arrivedMs = messages.map(() => Number.NaN)
  const radioS = messages.map(([direction, bytes], i) =>
    link.send(direction, bytes, () => {
      arrivedMs[i] = simulation.nowMs
    }),
  )
  simulation.advance(10_000)
  return { arrivedMs, radioS, link }
}

it('takes the time of the bytes at the rate of their direction, and half a round trip', () => {
  const { arrivedMs, radioS, link } = arrivals({}, [
    ['up', 500],
    ['up', 1_000],
    ['down', 1_000],
  ])
  expect(arrivedMs).toEqual([550, 1_550, 300])
  // The radio works only while bytes go out, not while they travel or wait.
  expect(radioS).toEqual([0.5, 1, 0.25])
  expect(link.bytes).toEqual({ up: 1_500, down: 1_000 })
})

it('begins its trace at an offset of its own', () => {
  const up = { intervalMs: 1_000, bytesPerS: [1_000, 100] }
  const [fast, slow] = [0, 1_000].map((fromMs) => arrivals({ up, fromMs }, [['up', 100]]).arrivedMs[0]!)
  expect([fast, slow]).toEqual([150, 1_050])
})

it('delivers in order, and never faster than without losses', () => {
  const any = fc.record({
    sizes: fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 30 }),
    lossShare: fc.double({ min: 0, max: 0.3, noNaN: true }),
    rttMs: fc.integer({ min: 1, max: 300 }),
  })
  fc.assert(
    fc.property(any, ({ sizes, lossShare, rttMs }) => {
      const messages = sizes.map((bytes) => ['up', bytes] as const)
      const model = { up: constant(1e6), rttMs }
      const [clean, lossy] = [arrivals(model, messages).arrivedMs, arrivals({ ...model, lossShare }, messages).arrivedMs]
      expect(lossy).toEqual(lossy.toSorted((a, b) => a - b))
      for (const [i, ms] of lossy.entries()) expect(ms).toBeGreaterThanOrEqual(clean[i]! - 1e-6)
    }),
  )
})
