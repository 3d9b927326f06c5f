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

const requested = (expectedTokens: number, view: FleetView, own: Partial<PlanTerms> = {}) => plan(expectedTokens, view, own, true)
const fleet = (...devices: ExpandingDevice[]): FleetView => ({ devices, waiting: [] })

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

  const slow = device('slow', [model(2)])
  const fast = device('fast', [model(0.2)])
  const poor = device('poor', [model(0.2, { ability: 0.1 })])
  const queue = [waiting('1', 200), waiting('2', 200)]

  it.each<[string, number, FleetView]>([
    ['short', 63, fleet(fast)],
    ['no-device', 200, fleet()],
    ['queue-full', 200, { devices: [slow], waiting: queue }],
    ['latency', 200, fleet(slow)],
    ['latency', 200, fleet({ ...fast, busyS: 60 })],
    ['latency', 200, fleet({ ...fast, networkS: 15 })],
    ['latency', 200, fleet({ ...fast, current: undefined, models: [model(0.2, { loadS: 60 })] })],
    ['error', 200, fleet(poor)],
  ])('is full because of %s', (reason, tokens, view) => {
    expect(plan(tokens, view)).toMatchObject({ mode: 'full', reason, fullS: f(tokens) })
  })

  it('is full where the objectives prefer that', () => {
    expect(plan(200, fleet(fast), { objectives: [{ metric: 'error', tolerance: 0.1 }] })).toMatchObject({
      ...{ mode: 'full', reason: 'objectives' },
    })
    expect(plan(200, fleet(fast), { objectives: [{ metric: 'edgeCost', tolerance: 0 }] })).toMatchObject({ reason: 'objectives' })
  })

  it('says what it expects', () => {
    const devices = [{ ...fast, busyS: 10 }, slow]
    const chosen = plan(200, { devices, waiting: [] }, { objectives: [{ metric: 'serverCost', tolerance: 0 }] })
    expect(chosen).toMatchObject({ mode: 'sketch', level: 3, sketchTokens: 60, ahead: 0, device: 'fast', model: 'c0.2' })
    if (chosen.mode !== 'sketch') return
    expect(chosen.fullS).toBeCloseTo(20.9)
    expect(chosen.sketchS).toBeCloseTo(6.9)
    expect(chosen.budgetS).toBeCloseTo(14)
    expect(chosen.queueS).toBeCloseTo(10 - 6.9)
    expect(chosen.expansionS).toBeCloseTo(0.2 * 20.9)
    expect(chosen.predictedS).toBeCloseTo(10 + 0.05 + 4.18)
    expect(chosen.metrics).toMatchObject({ serverCost: 60, edgeCost: 200 })
  })

  it('takes the shortest sketch that the ability of the small models allows', () => {
    const levelOf = (ability: number) => {
      const able = device('d', [model(0.01, { ability })])
      const chosen = plan(200, fleet(able), { objectives: [{ metric: 'serverCost', tolerance: 0 }] })
      return chosen.mode === 'sketch' ? chosen.level : 0
    }
    expect([0.9, 0.45, 0.35, 0.25, 0.1].map(levelOf)).toEqual([3, 3, 2, 1, 0])
  })

  it('keeps the printed bottleneck while nothing waits, and else spares the stage that answers wait for', () => {
    // The expansion takes longer than any sketch: printed, all levels are equal, and the longest is the best.
    const devices = [device('d', [model(0.45)])]
    const at = (waitS: number, slots: number) => {
      const own = { ...terms, overlap: true }
      const chosen = planAnswer(
        { expectedTokens: 100, isSketchRequested: false },
        { devices, waiting: [] },
        { ...cloud, waitS, slots },
        [0.4, 0.2],
        own,
      )
      return chosen.mode === 'sketch' ? chosen.level : chosen.reason
    }
    expect(at(0, 1)).toBe(1)
    expect(at(5, 4)).toBe(2)
  })

  it('is a sketch on request, in spite of latency and error, but not of a full queue', () => {
    expect(requested(20, fleet(fast))).toMatchObject({ mode: 'sketch' })
    expect(requested(200, fleet(slow))).toMatchObject({ mode: 'sketch', device: 'slow' })
    expect(requested(200, fleet(poor))).toMatchObject({ mode: 'sketch', device: 'poor' })
    expect(requested(200, fleet(slow, fast))).toMatchObject({ mode: 'sketch', device: 'fast' })
    expect(requested(200, { devices: [slow], waiting: queue })).toMatchObject({ mode: 'full', reason: 'queue-full' })
    expect(requested(200, fleet())).toMatchObject({ mode: 'full', reason: 'no-device' })
  })

  it('counts on devices to work while the sketch is written', () => {
    const view = { devices: [{ ...fast, busyS: 3 }], waiting: [waiting('1', 100), waiting('2', 100, 5)] }
    // Both are done by then.
    expect(plan(1_000, view, { overlap: true })).toMatchObject({ mode: 'sketch', ahead: 0, queueS: 0 })
    expect(plan(1_000, view, { overlap: false, maxWaitingPerDevice: 2 })).toMatchObject({ mode: 'full' })
  })

  describe('for the reader of a streamed answer', () => {
    const speeds = fc.record({ c: fc.double({ min: 0.05, max: 1.5, noNaN: true }), busyS: fc.integer({ min: 0, max: 20 }) })
    const any = fc.record({
      tokens: fc.integer({ min: 64, max: 1_024 }),
      devices: fc.array(speeds, { minLength: 1, maxLength: 4 }),
      queue: fc.array(fc.integer({ min: 1, max: 500 }), { maxLength: 4 }),
      tokensPerS: fc.constantFrom(1, 5, 10, 20, Number.POSITIVE_INFINITY),
    })
    const viewOf = ({ devices, queue }: { devices: { c: number; busyS: number }[]; queue: number[] }): FleetView => ({
      devices: devices.map(({ c, busyS }, at) => device(`d${at}`, [model(c)], { busyS })),
      waiting: queue.map((tokens, at) => waiting(`q${at}`, tokens)),
    })
    // A sketch is cheaper in any case.
    const cheapest = {
      ...terms,
      maxWaitingPerDevice: 99,
      maxError: 1,
      objectives: [{ metric: 'serverCost', tolerance: 0 }] as const,
    }
    const planFor = (expectedTokens: number, tokensPerS: number | undefined, view: FleetView, at: CloudSpeed) =>
      planAnswer({ expectedTokens, isSketchRequested: false, tokensPerS }, view, at, shares, cheapest)

    it('a cloud without a queue, that writes faster than the reader reads, never sketches', () => {
      fc.assert(
        fc.property(any, ({ tokens, tokensPerS, ...fleet }) => {
          const rate = Math.min(tokensPerS, 1 / cloud.tpotS)
          expect(planFor(tokens, rate, viewOf(fleet), cloud)).toMatchObject({ mode: 'full', reason: 'latency' })
        }),
      )
    })

    it('a longer wait for the LLM never turns a sketch into a full answer', () => {
      const waitS = fc.double({ min: 0, max: 60, noNaN: true })
      fc.assert(
        fc.property(any, waitS, waitS, ({ tokens, tokensPerS, ...fleet }, shorterS, moreS) => {
          const at = (waitS: number) => planFor(tokens, tokensPerS, viewOf(fleet), { ...cloud, waitS }).mode
          if (at(shorterS) === 'sketch') expect(at(shorterS + moreS)).toBe('sketch')
        }),
      )
    })

    it('a sketch is made once those that wait and come gain as much by it as the reader loses', () => {
      const view = fleet(device('d', [model(0.5)]))
      const at = (waitS: number) => planFor(200, 5, view, { ...cloud, waitS }).mode
      // 6.9 s of sketch, 0.05 s of network and 10.45 s of expansion in place of 1 s. It takes 6.9 s of the LLM in place of 20.9 s.
      const delayS = 6.9 + 0.05 + 10.45 - 1
      const waitS = (delayS * 20.9) / (4 * (20.9 - 6.9))
      expect([at(0.99 * waitS), at(1.01 * waitS)]).toEqual(['full', 'sketch'])
    })

    it('a queue counts as long as its own wait for its length was', () => {
      const view = fleet(device('d', [model(0.5)]))
      const modeAfter = (waitedS: number) =>
        planAnswer({ expectedTokens: 200, isSketchRequested: false, tokensPerS: 5, waitedS }, view, cloud, shares, cheapest).mode
      const waitS = ((6.9 + 0.05 + 10.45 - 1) * 20.9) / (4 * (20.9 - 6.9))
      // Of which the LLM needs a second for the first token.
      expect([1, 0.99 * waitS + 1, 1.01 * waitS + 1].map(modeAfter)).toEqual(['full', 'full', 'sketch'])
    })

    it('is Eq. 2 as printed for a reader of whole answers, where nothing waits', () => {
      fc.assert(
        fc.property(any, ({ tokens, ...fleet }) => {
          const printed = planFor(tokens, undefined, viewOf(fleet), cloud)
          expect(planFor(tokens, Number.POSITIVE_INFINITY, viewOf(fleet), cloud)).toEqual(printed)
        }),
      )
    })

    it('sketches for a reader faster than a slow LLM', () => {
      const slow = { ...cloud, tpotS: 1 }
      const view = fleet(device('d', [model(0.2)]))
      expect(planFor(200, 0.5, view, slow).mode).toBe('full')
      expect(planFor(200, 20, view, slow).mode).toBe('sketch')
    })
  })

  it('never violates the latency constraint, and never gets quicker by more load', () => {
    const small = fc.record({ c: fc.double({ min: 0.05, max: 2, noNaN: true }), loadS: fc.integer({ min: 0, max: 5 }) })
    const one = fc.record({ models: fc.array(small, { minLength: 1, maxLength: 3 }), busyS: fc.integer({ min: 0, max: 20 }) })
    const load = fc.record({ busyS: fc.integer({ min: 0, max: 9 }), tokens: fc.integer({ min: 1, max: 500 }) })
    const any = fc.record({
      devices: fc.array(one, { minLength: 1, maxLength: 4 }),
      queue: fc.array(load, { maxLength: 4 }),
      ...{ more: load, tokens: fc.integer({ min: 64, max: 600 }), margin: fc.constantFrom(0, 0.1), overlap: fc.boolean() },
      order: fc.shuffledSubarray(['error', 'throughput', 'latency', 'serverCost', 'edgeCost'] as const, { minLength: 1 }),
    })
    fc.assert(
      fc.property(any, ({ devices, queue, more, tokens, margin, overlap, order }) => {
        const objectives = order.map((metric) => ({ metric, tolerance: 0.1 }))
        const own = { margin, overlap, objectives, maxWaitingPerDevice: 99, maxError: 1 }
        const view = (extraS: number, waitingNow: readonly (typeof more)[]) => ({
          devices: devices.map(({ models, busyS }, at) => {
            const speeds = models.map(({ c, loadS }, n) => model(c, { loadS, model: `m${n}` }))
            return device(`d${at}`, speeds, { busyS: busyS + extraS })
          }),
          waiting: waitingNow.map(({ tokens, busyS }, at) => waiting(`q${at}`, tokens, busyS)),
        })
        const calm = plan(tokens, view(0, queue), own)
        const busy = plan(tokens, view(more.busyS, [...queue, more]), own)
        for (const { mode, predictedS, fullS } of [calm, busy])
          if (mode === 'sketch') expect(predictedS).toBeLessThanOrEqual((1 - margin) * fullS)
        const latency = { ...own, objectives: [{ metric: 'latency', tolerance: 0 }] as const }
        const leastS = (of: FleetView) => requested(tokens, of, latency).predictedS!
        expect(leastS(view(more.busyS, [...queue, more]))).toBeGreaterThanOrEqual(leastS(view(0, queue)) - 1e-9)
      }),
    )
  })
})

describe('a long prompt', () => {
  const small = model(0.2, { prefillS: 0.004, contextTokens: 8_000 })
  const planFor = (promptTokens: number) =>
    planAnswer({ expectedTokens: 200, isSketchRequested: false, promptTokens }, fleet(device('d', [small])), cloud, shares, terms)

  it('is counted with the prefill rate of the small model: c + k · l', () => {
    const [short, long] = [planFor(64), planFor(564)]
    expect(long.predictedS! - short.predictedS!).toBeCloseTo(500 * 0.004)
    expect(short.mode).toBe('sketch')
    expect(planFor(6_000)).toMatchObject({ mode: 'full', reason: 'latency' })
  })

  it('that does not fit into any small model is no sketch', () => {
    expect(planFor(9_000)).toMatchObject({ mode: 'full', reason: 'context' })
  })
})

it('devices that have not been measured are the reason, not that there are none', () => {
  expect(plan(200, { devices: [], waiting: [], unmeasured: 2 })).toMatchObject({ mode: 'full', reason: 'unmeasured' })
  expect(plan(200, { devices: [], waiting: [] })).toMatchObject({ mode: 'full', reason: 'no-device' })
})
