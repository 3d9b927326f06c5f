import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ServingPolicy, StreamState } from '../../../../core/policy/serving/policy.ts'
import { readingExperience } from '../../../../core/policy/tokenflow/quality.ts'
import { type TokenFlowLimits, tokenflow } from '../../../../core/policy/tokenflow/tokenflow.ts'
import { andes } from '../../../../lab/baselines/andes.ts'
import { firstCome } from '../../../../lab/baselines/first-come.ts'
import { type SimulatedRequest, simulate, type TestEngine } from '../../../support/serving-simulation.ts'
import { answerState, stateOf, unmeasured } from '../../../support/serving-state.ts'

const limits: TokenFlowLimits = {
  intervalMs: 500,
  conservativeness: 2,
  stallWeight: 50,
  maxRequests: 1_000,
  damping: 0.1,
  overloadTolerance: 0.2,
  promptRows: 64,
}

it('comes out as printed: the paper’s two slots of 40 tokens/s and three readers (Fig. 6)', () => {
  const engine: TestEngine = {
    step: { rows: 2, streams: 2 },
    stepMs: () => 25,
    kvBytes: () => 1,
    bytesPerRow: 0,
    memoryBytes: 2,
    slow: { budgetBytes: 100, loadBytesPerS: Number.POSITIVE_INFINITY },
    tokensPerS: 80,
  }
  const requests = [
    { atMs: 0, tokensPerS: 20 },
    { atMs: 0, tokensPerS: 30 },
    { atMs: 2_000, tokensPerS: 25 },
  ].map((request) => ({ ...request, promptRows: 1, tokens: 2_000 }))
  const { moves } = simulate(tokenflow({ ...limits, intervalMs: 1_000, conservativeness: 3 }), engine, requests)
  const names = (ids: readonly number[]) => ids.map((id) => `R${id + 1}`)
  expect(
    moves.slice(0, 3).map(({ atMs, preempt, resume }) => [Math.round(atMs / 100) / 10, names(preempt), names(resume)]),
  ).toEqual([
    [0, [], ['R1', 'R2']],
    [3, ['R1'], ['R3']],
    [5, ['R2'], ['R1']],
  ])
})

/** Holds about 20 streams; a step of 16 rows takes as long as 4 of one row. */
const engine: TestEngine = {
  step: { rows: 256, streams: 16 },
  stepMs: (rows) => 10 + 2.2 * Math.min(rows, 16) + 0.6 * Math.max(0, rows - 16),
  kvBytes: (rows) => 2 ** Math.ceil(Math.log2(Math.max(64, rows))),
  memoryBytes: 16 * 256,
  slow: { budgetBytes: 1_000_000, loadBytesPerS: 50_000 },
  tokensPerS: 340,
  prefillSPerRow: 0.0006,
}

/** What the readers of a run experienced. */
function served(policy: ServingPolicy, requests: readonly SimulatedRequest[]) {
  const { sentMs, endedMs, preemptions } = simulate(policy, engine, requests)
  const answers = requests.map(({ atMs, tokensPerS }, i) =>
    readingExperience({ tokensPerS, requestedMs: atMs, sentMs: sentMs[i]! }),
  )
  const ttftMs = answers.map((answer) => answer.ttftMs!).sort((a, b) => a - b)
  const perS = (tokens: number) => (tokens * 1_000) / endedMs
  return {
    p99TtftMs: ttftMs[Math.ceil(0.99 * ttftMs.length) - 1]!,
    meanTtftMs: ttftMs.reduce((sum, ms) => sum + ms, 0) / ttftMs.length,
    effectivePerS: perS(answers.reduce((sum, { weightedTokens }) => sum + weightedTokens, 0)),
    rawPerS: perS(answers.reduce((sum, { tokens }) => sum + tokens, 0)),
    stalledMs: answers.reduce((sum, answer) => sum + answer.stalledMs, 0),
    preemptions,
  }
}

it('answers a burst early and at the pace of its readers, without generating less (simulated)', () => {
  const burst = Array.from({ length: 64 }, (_, i) => ({
    atMs: i,
    promptRows: 48 + (i % 5) * 8,
    tokens: 110 + (i % 7) * 10,
    tokensPerS: 4,
  }))
  const [fcfs, ours] = [served(firstCome(), burst), served(tokenflow(limits), burst)]
  expect(ours.p99TtftMs / fcfs.p99TtftMs).toBeLessThan(0.3)
  expect(ours.meanTtftMs / fcfs.meanTtftMs).toBeLessThan(0.3)
  expect(ours.effectivePerS / fcfs.effectivePerS).toBeGreaterThan(2)
  expect(ours.rawPerS / fcfs.rawPerS).toBeGreaterThan(0.97)
  expect(ours.stalledMs / burst.length).toBeLessThan(500)
})

it('without a slow tier, recomputation takes little from a load that lasts (simulated)', () => {
  const anyLoad = fc.record({
    requests: fc.integer({ min: 60, max: 120 }),
    perS: fc.constantFrom(3, 6, 1_000),
    promptRows: fc.integer({ min: 16, max: 200 }),
    tokens: fc.integer({ min: 40, max: 120 }),
    tokensPerS: fc.integer({ min: 2, max: 30 }),
    memoryBytes: fc.integer({ min: 2_048, max: 6_144 }),
    prefillSPerRow: fc.constantFrom(0.0006, 0.003),
  })
  fc.assert(
    fc.property(
      anyLoad,
      fc.infiniteStream(fc.integer({ min: -50, max: 50 })),
      ({ memoryBytes, prefillSPerRow, ...load }, noise) => {
        const { slow: _, stepMs, ...rest } = engine
        const promptMs = 1_000 * prefillSPerRow
        const without = {
          ...rest,
          ...{ memoryBytes, prefillSPerRow },
          stepMs: (rows: number) => stepMs(Math.min(rows, 16)) + promptMs * Math.max(0, rows - 16),
        }
        const spread = (mean: number) => Math.max(1, Math.round(mean * (1 + noise.next().value / 100)))
        const requests = Array.from({ length: load.requests }, (_, i) => ({
          ...{ atMs: (1_000 * i) / load.perS, tokensPerS: load.tokensPerS },
          ...{ promptRows: spread(load.promptRows), tokens: spread(load.tokens) },
        }))
        const endedMs = (policy: ServingPolicy) => simulate(policy, without, requests).endedMs
        expect(endedMs(tokenflow(limits))).toBeLessThan(endedMs(firstCome()) / 0.9)
      },
    ),
    { numRuns: 8 },
  )
})

describe('for any arrivals', () => {
  const anyRequest = fc.record({
    atMs: fc.integer({ min: 0, max: 5_000 }),
    promptRows: fc.integer({ min: 1, max: 300 }),
    tokens: fc.integer({ min: 1, max: 60 }),
    tokensPerS: fc.double({ min: 0.5, max: 60, noNaN: true }),
  })
  const anyRequests = fc.array(anyRequest, { minLength: 1, maxLength: 40 })
  const anyEngine = fc.record({
    memoryBytes: fc.integer({ min: 512, max: 8_192 }),
    isTiered: fc.boolean(),
    isMeasured: fc.boolean(),
  })
  const engineOf = ({ memoryBytes, isTiered, isMeasured }: { memoryBytes: number; isTiered: boolean; isMeasured: boolean }) => {
    const { slow, tokensPerS, prefillSPerRow, ...rest } = engine
    return {
      ...rest,
      memoryBytes,
      ...(isTiered && { slow }),
      ...(isMeasured && { tokensPerS, prefillSPerRow }),
    } as TestEngine
  }
  const policies: [string, () => ServingPolicy][] = [
    ['tokenflow', () => tokenflow(limits)],
    ['agile tokenflow', () => tokenflow({ ...limits, conservativeness: 1, intervalMs: 100 })],
    ['andes', () => andes({ horizonS: 5, expectedTtftS: 1, maxPreemptions: 1, promptRows: 64 })],
    ['first come', () => firstCome()],
    ['first come in chunks', () => firstCome({ chunkRows: 64 })],
  ]

  it.each(policies)('%s stays within the memory and ends every answer', (_, policy) => {
    fc.assert(
      fc.property(anyRequests, anyEngine, (requests, on) => {
        const { sentMs } = simulate(policy(), engineOf(on), requests)
        expect(sentMs.map(({ length }) => length)).toEqual(requests.map(({ tokens }) => tokens))
      }),
      { numRuns: 40 },
    )
  })

  it.each(policies)('%s preempts nothing while all fit', (_, policy) => {
    fc.assert(
      fc.property(anyRequests, anyEngine, (requests, on) => {
        const memoryBytes = requests.reduce((sum, { promptRows, tokens }) => sum + engine.kvBytes(promptRows + tokens), 0)
        expect(simulate(policy(), { ...engineOf(on), memoryBytes }, requests).preemptions).toBe(0)
      }),
      { numRuns: 40 },
    )
  })

  it('tokenflow starves none: a first token waits for what arrived before it, whatever arrives later', () => {
    const flood = fc.record({
      perS: fc.integer({ min: 1, max: 40 }),
      tokensPerS: fc.integer({ min: 1, max: 60 }),
      promptRows: fc.integer({ min: 1, max: 200 }),
      tokens: fc.integer({ min: 1, max: 60 }),
    })
    fc.assert(
      fc.property(anyRequests, flood, (requests, { perS, ...one }) => {
        const later = Array.from({ length: 200 }, (_, i) => ({ ...one, atMs: 5_001 + (i * 1_000) / perS }))
        const { sentMs } = simulate(tokenflow(limits), engine, [...requests, ...later])
        for (const [i, { atMs }] of requests.entries()) {
          const before = requests.filter((other) => other.atMs <= atMs)
          // As if each row of theirs had a step of its own.
          const rows = before.reduce((sum, { promptRows, tokens }) => sum + promptRows + tokens, 0)
          expect(sentMs[i]![0]! - atMs).toBeLessThanOrEqual(rows * engine.stepMs(1) + limits.intervalMs)
        }
      }),
      { numRuns: 8 },
    )
  })
})

describe('free memory', () => {
  const residents = Array.from({ length: 32 }, (_, id) =>
    answerState(id, { contextLength: 100, kvBytes: 100, fullBytes: 10_000, waitingRows: 1 }),
  )
  const away = answerState(99, { contextLength: 100, kvBytes: 100, fullBytes: 10_000, residency: 'evicted' })
  const newcomer = { ...away, contextLength: 0, phase: 'prefill' } as const
  const stateWith = (freeBytes: number, isTiered = true, waiting: StreamState = away) =>
    stateOf([...residents, waiting], {
      memory: { budgetBytes: 10_000, usedBytes: 10_000 - freeBytes },
      slow: isTiered ? { budgetBytes: 1e6 } : undefined,
      speeds: { ...unmeasured, stepSOf: () => 0.05 },
    })
  const resumedWith = (freeBytes: number, atMs: number) => {
    const policy = tokenflow(limits)
    // A choice takes it; the next one is due at 500 ms.
    policy.plan(stateWith(250), 0)
    return policy.plan(stateWith(freeBytes), atMs).resume.map(({ stream }) => stream)
  }

  // Ten steps of 16 rows in 0.5 s: 5 rows of one byte for each of the 32 that are there.
  it('goes to a new request whatever the others grow by', () => {
    expect(tokenflow(limits).plan(stateWith(100, true, newcomer), 0).resume).toHaveLength(1)
  })

  it('goes to a preempted request beyond what the others grow by until the next choice; these take turns in the steps', () => {
    expect(resumedWith(261, 1)).toEqual([99])
    expect(resumedWith(250, 1)).toEqual([])
    expect(resumedWith(133, 400)).toEqual([99])
    expect(resumedWith(120, 400)).toEqual([])
  })

  it('goes to none without a slow tier, as long as the others have not what they grow by until their end', () => {
    expect(tokenflow(limits).plan(stateWith(9_000, false, newcomer), 0).resume).toEqual([])
  })
})
