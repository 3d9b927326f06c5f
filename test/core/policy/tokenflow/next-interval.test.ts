import { describe, expect, it } from 'vitest'
import type { ServingState, StreamState } from '../../../../core/policy/serving/policy.ts'
import { Reader } from '../../../../core/policy/serving/reader.ts'
import { Room } from '../../../../core/policy/serving/room.ts'
import { admissible, isOverloaded } from '../../../../core/policy/tokenflow/admission.ts'
import { chooseForInterval, isCritical, swapS } from '../../../../core/policy/tokenflow/next-interval.ts'
import { wayBack } from '../../../../core/policy/tokenflow/resumption.ts'
import { tokenflow } from '../../../../core/policy/tokenflow/tokenflow.ts'
import { track } from '../../../../core/policy/tokenflow/tracker.ts'
import { answerState, stateOf, unmeasured } from '../../../support/serving-state.ts'

const limits = {
  ...{ intervalMs: 500, conservativeness: 2, stallWeight: 50 },
  ...{ maxRequests: 100, damping: 0, overloadTolerance: 0.2 },
}
const nowMs = 10_000
const speeds = { ...unmeasured, tokensPerS: 100, prefillSPerRow: 0.01, evictBytesPerS: 100, loadBytesPerS: 200 }

/** A reader that has had `sent` tokens, and has read all of them since `waitedMs`. */
function reader({ sent = 10, waitedMs = 0, maxTokens = 100, tokensPerS = 5 }) {
  const one = new Reader(tokensPerS, maxTokens, 0)
  if (sent > 0) one.deliver(sent, nowMs - waitedMs - (sent * 1_000) / tokensPerS)
  return one
}

const away = (id: number, fields: Partial<StreamState>) => answerState(id, { residency: 'evicted', writtenRows: 64, ...fields })
const newcomer = (id: number, fields: Partial<StreamState> = {}) =>
  answerState(id, { residency: 'evicted', contextLength: 0, resumptions: ['recompute'], ...fields })

/** Which of two preempted requests gets the memory for one; the first where both are worth the same. */
function chosen(first: Partial<StreamState>, second: Partial<StreamState>, by = limits): readonly number[] {
  const state = stateOf([away(1, first), away(2, second)], { memory: { budgetBytes: 64, usedBytes: 0 }, speeds })
  const of = { room: new Room(state), short: [] }
  return chooseForInterval(track(state), new Set(), of, state, by, nowMs)!.resume.map(({ id }) => id)
}

describe('of two requests, the memory goes to the one', () => {
  it.each<[string, Partial<StreamState>, Partial<StreamState>]>([
    ['whose reader waits longer', { reader: reader({ waitedMs: 100 }) }, { reader: reader({ waitedMs: 3_000 }) }],
    ['that lacks more tokens', { reader: reader({ sent: 99 }) }, { reader: reader({}) }],
    ['whose answer has not begun', { reader: reader({ waitedMs: nowMs }) }, { reader: reader({ sent: 0 }) }],
    ['that comes back sooner', { reader: reader({}), waitingRows: 30 }, { reader: reader({}) }],
  ])('%s', (_, first, second) => {
    expect(chosen(first, second)).toEqual([2])
  })

  it('whose further tokens count, where stalls cost nothing', () => {
    const full = reader({ sent: 30, waitedMs: -6_000 })
    const patient = { ...limits, stallWeight: 0, conservativeness: 20 }
    expect(chosen({ reader: full }, { reader: reader({}) }, patient)).toEqual([2])
  })
})

describe('a swap', () => {
  const stream = answerState(1, { kvBytes: 64, contextLength: 64, writtenRows: 48 })
  const state: ServingState = stateOf([stream], { speeds })

  it('takes the eviction of what is not written, the load, and the interval', () => {
    expect(swapS(stream, state, limits)).toBeCloseTo(16 / 100 + 64 / 200 + 0.5, 9)
  })

  it('is critical for a buffer of fewer than μ_b of it', () => {
    const [short, long] = [9, 11].map((sent) => ({ ...stream, reader: reader({ sent, waitedMs: (-sent * 1_000) / 5 }) }))
    expect([short!, long!].map((one) => isCritical(one, state, limits, nowMs))).toEqual([true, false])
  })
})

describe('the way back', () => {
  const stream = away(1, { contextLength: 64, kvBytes: 64 })

  it.each([
    ['load', 0.3, 0],
    ['recompute', 0.4, 0],
    ['load', 0.4, 0.2],
  ] as const)('is %s after %f s of other transfers and %f s of other recomputations', (by, loadS, recomputeS) => {
    expect(wayBack(stream, speeds, { loadS, recomputeS }).by).toBe(by)
  })
})

it('a load waits for the eviction that frees its memory', () => {
  const wayOf = (writtenRows: number) => {
    const leaving = answerState(1, { writtenRows, reader: reader({ sent: 80, waitedMs: -14_000 }) })
    const state = stateOf([leaving, away(2, { reader: reader({ waitedMs: 3_000 }) })], {
      memory: { budgetBytes: 64, usedBytes: 64 },
      speeds,
    })
    return tokenflow({ ...limits, promptRows: 64 }).plan(state, nowMs)
  }
  expect(wayOf(64)).toMatchObject({ preempt: [1], resume: [{ stream: 2, by: 'load' }] })
  expect(wayOf(0)).toMatchObject({ preempt: [1], resume: [{ stream: 2, by: 'recompute' }] })
})

it('resumes no more at once than can be loaded in a quarter of the interval', () => {
  // Loading one takes 0.05 s of 0.125 s.
  const waiting = [1, 2, 3, 4].map((id) => away(id, { kvBytes: 10, reader: reader({ waitedMs: 1_000 * id }) }))
  const state = stateOf(waiting, { memory: { budgetBytes: 64, usedBytes: 0 }, speeds })
  const choice = chooseForInterval(track(state), new Set(), { room: new Room(state), short: [] }, state, limits, nowMs)
  expect(choice!.resume.map(({ id }) => id)).toEqual([4, 3])
})

it('keeps free what the residents grow by until the next choice', () => {
  // Ten steps of 50 ms: ten rows of a byte.
  const resident = answerState(1, { fullBytes: 200, reader: reader({ sent: 80, waitedMs: -14_000 }) })
  const resumed = (freeBytes: number) => {
    const state = stateOf([resident, away(2, { reader: reader({ waitedMs: -1_500 }) })], {
      ...{ memory: { budgetBytes: 64 + freeBytes, usedBytes: 64 }, speeds: { ...speeds, stepSOf: () => 0.05 } },
      slow: { budgetBytes: 1e6 },
    })
    return tokenflow({ ...limits, conservativeness: 1, promptRows: 64 }).plan(state, nowMs).resume.length
  }
  expect([73, 74].map(resumed)).toEqual([0, 1])
})

describe('while the reader of a request that has begun waits', () => {
  const ahead = [1, 2, 3].map((id) => answerState(id, { reader: reader({ sent: 80, waitedMs: -14_000 }) }))
  const fast = { ...speeds, loadBytesPerS: 1e6 }
  const resumed = (others: readonly StreamState[], fields: Partial<ServingState> = {}) => {
    const memory = { budgetBytes: 192, usedBytes: 192 }
    const state = stateOf([...ahead, ...others], { memory, speeds: fast, slow: { budgetBytes: 1e6 }, ...fields })
    const choice = chooseForInterval(track(state), new Set(), { room: new Room(state), short: [] }, state, limits, nowMs)
    return choice?.resume.map(({ id }) => id).sort() ?? []
  }
  const waiting = (waitedMs: number, tokensPerS = 5) => away(4, { reader: reader({ waitedMs, tokensPerS }) })
  const fresh = newcomer(5, { reader: reader({ sent: 0 }) })

  it('no new request gets the memory of others', () => {
    expect(resumed([waiting(-100), fresh])).toContain(5)
    expect(resumed([waiting(100), fresh])).toEqual([4])
  })

  it('a new one does where the reader takes more than a request generates, and waits whatever is chosen', () => {
    const fields = { speeds: { ...fast, stepSOf: () => 0.05 } }
    expect([20, 21].map((tokensPerS) => resumed([waiting(100, tokensPerS), fresh], fields))).toEqual([[4], [4, 5]])
  })

  it('a client does that has fewer requests than others', () => {
    expect(resumed([waiting(100), { ...fresh, client: 'other' }])).toEqual([4, 5])
  })

  it('new ones do without a slow tier, where recomputations are bounded', () => {
    expect(resumed([waiting(100), fresh], { slow: undefined })).toEqual([4, 5])
  })
})

describe('a resident without memory for its next row', () => {
  const residents = [1, 2, 3].map((id) => answerState(id, { reader: reader({ waitedMs: -10_000 * id }) }))
  const short = answerState(4, { reader: reader({}), growthBytes: 10 })
  const waiting = [5, 6].map((id) => away(id, { reader: reader({ waitedMs: 1_000 }) }))
  const state = stateOf([...residents, short, ...waiting], { memory: { budgetBytes: 256, usedBytes: 256 }, speeds })

  it('lets others begin in place of residents where a choice is due', () => {
    const plan = tokenflow({ ...limits, promptRows: 64 }).plan(state, nowMs)
    expect(plan.resume.length).toBeGreaterThan(0)
  })

  it('between two choices makes only so many leave as it needs, those with the largest buffers', () => {
    const policy = tokenflow({ ...limits, promptRows: 64 })
    policy.plan(state, nowMs - 100)
    const plan = policy.plan(state, nowMs)
    expect(plan).toMatchObject({ preempt: [3], resume: [] })
    expect(plan.run.map(({ stream }) => stream)).toContain(4)
  })

  it('leaves itself where its buffer is the largest', () => {
    const policy = tokenflow({ ...limits, promptRows: 64 })
    const ahead = { ...short, reader: reader({ waitedMs: -60_000 }) }
    const alike = stateOf([...residents, ahead, ...waiting], { memory: state.memory, speeds })
    policy.plan(alike, nowMs - 100)
    const plan = policy.plan(alike, nowMs)
    expect(plan.preempt).toEqual([4])
    expect(plan.run.map(({ stream }) => stream)).not.toContain(4)
  })
})

describe('admission', () => {
  const running = answerState(1, { kvBytes: 30, reader: reader({ tokensPerS: 60 }) })
  const admitted = (state: ServingState, ratesCount = true) =>
    admissible(track(state), state, limits, ratesCount).map(({ id }) => id)

  it('ends where the readers would take more than the engine generates', () => {
    const waiting = [2, 3, 4, 5].map((id) => newcomer(id, { reader: reader({ sent: 0, tokensPerS: 20 }) }))
    const state = stateOf([running, ...waiting], { speeds })
    // 120 of 100 tokens/s are within the tolerance.
    expect(admitted(state)).toEqual([2, 3, 4])
    expect(admitted(state, false)).toEqual([2, 3, 4, 5])
  })

  it('ends where both tiers hold no more requests of the mean size', () => {
    const other = answerState(5, { kvBytes: 10 })
    const slow = { budgetBytes: 40, usedBytes: 0 }
    const state = stateOf([running, other, newcomer(6), newcomer(7), newcomer(8)], {
      ...{ slow, memory: { budgetBytes: 40, usedBytes: 40 } },
    })
    expect(admitted(state)).toEqual([6, 7])
  })

  it('counts on no more than the requests that the memory holds generate together', () => {
    // Two requests of 30 bytes, of which a step of 0.04 s gives each a token: 50 tokens/s.
    const overloaded = (stepS: number | undefined) => {
      const memory = { budgetBytes: 60, usedBytes: 30 }
      const state = stateOf([running, away(2, { reader: reader({ tokensPerS: 10 }) })], {
        ...{ memory, speeds: { ...speeds, stepSOf: (rows: number) => (rows === 2 ? stepS : 1) } },
      })
      return isOverloaded(track(state), state, limits)
    }
    expect([0.033, 0.036, undefined].map(overloaded)).toEqual([false, true, false])
  })

  it('follows the order of arrival once the rates exceed what is generated by more than the tolerance', () => {
    const overloaded = (tokensPerS: number) => {
      const state = stateOf([running, away(2, { reader: reader({ tokensPerS }) })], { speeds })
      return isOverloaded(track(state), state, limits)
    }
    expect([59, 61].map(overloaded)).toEqual([false, true])
  })
})
