import { describe, expect, it } from 'vitest'
import { Reader } from '../../../core/policy/serving/reader.ts'
import { type AndesLimits, andes } from '../../../lab/baselines/andes.ts'
import { firstCome } from '../../../lab/baselines/first-come.ts'
import { simulate, type TestEngine } from '../../support/serving-simulation.ts'
import { stateOf, streamState, unmeasured } from '../../support/serving-state.ts'

const limits: AndesLimits = { horizonS: 5, expectedTtftS: 1.3, maxPreemptions: 1, promptRows: 64 }

/** Holds 8 requests, whatever their length. */
const engine: TestEngine = {
  step: { rows: 256, streams: 16 },
  stepMs: (rows) => 10 + 2 * rows,
  kvBytes: () => 1,
  memoryBytes: 8,
  tokensPerS: 340,
  prefillSPerRow: 0.002,
}

const burst = Array.from({ length: 32 }, (_, i) => ({ atMs: i, promptRows: 32, tokens: 100, tokensPerS: 5 }))

describe('Andes', () => {
  it.each([0, 0.5, 1])('preempts at most %d requests of each on average', (maxPreemptions) => {
    const { preemptions } = simulate(andes({ ...limits, maxPreemptions }), engine, burst)
    expect(preemptions).toBeLessThanOrEqual(maxPreemptions * burst.length)
    expect(preemptions).toBeGreaterThanOrEqual(0.8 * maxPreemptions * burst.length)
  })

  it('answers a burst sooner than in the order of arrival, and pays with a little throughput', () => {
    const meanTtftMs = ({ sentMs }: ReturnType<typeof simulate>) =>
      sentMs.reduce((sum, [firstMs], i) => sum + firstMs! - burst[i]!.atMs, 0) / burst.length
    const [fcfs, ours] = [simulate(firstCome(), engine, burst), simulate(andes(limits), engine, burst)]
    expect(meanTtftMs(ours)).toBeLessThan(0.8 * meanTtftMs(fcfs))
    expect(fcfs.endedMs / ours.endedMs).toBeGreaterThan(0.8)
  })

  describe('serves as many at once as gain most together', () => {
    const waiting = Array.from({ length: 8 }, (_, i) =>
      streamState(i, { residency: 'evicted', contextLength: 0, resumptions: ['recompute'], reader: new Reader(10, 100, 0) }),
    )
    const served = (stepSOf: (rows: number) => number | undefined) =>
      andes(limits).plan(stateOf(waiting, { speeds: { ...unmeasured, stepSOf } }), 2_000).resume.length

    it.each([
      ['all, where steps are as long for one as for all', () => 0.05, 8],
      ['all that its speed suffices for', (rows: number) => 0.004 * rows ** 2, 5],
      ['one, where each further one slows down all the others more', (rows: number) => 0.1 * rows ** 3, 1],
      ['all that fit, where nothing has been measured', () => undefined, 8],
    ])('%s', (_, stepSOf, count) => {
      expect(served(stepSOf)).toBe(count)
    })
  })

  it('beyond that, preempts the least gaining where another has no memory for its next row', () => {
    const resident = (id: number, unread: number) => {
      const reader = new Reader(5, 200, 0)
      reader.deliver(unread, 1_000)
      return streamState(id, { growthBytes: 64, fullBytes: 256, reader, resumptions: ['recompute'] })
    }
    const streams = [resident(0, 5), resident(1, 100), resident(2, 10)]
    const memory = { budgetBytes: 320, usedBytes: 192 }
    const plan = andes({ ...limits, maxPreemptions: 0 }).plan(stateOf(streams, { memory }), 1_000)
    expect(plan.preempt).toEqual([1])
    expect(plan.run.map(({ stream }) => stream)).toEqual([0, 2])
  })
})
