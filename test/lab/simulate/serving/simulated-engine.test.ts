import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ServingPolicy } from '../../../../core/policy/serving/policy.ts'
import { createServingPolicy, type ServingPolicyName, servingPolicyNames } from '../../../../lab/baselines/serving-policies.ts'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import type { SimulatedEngineSession } from '../../../../lab/simulate/serving/engine.ts'
import type { EngineOptions } from '../../../../lab/simulate/serving/engine-options.ts'
import { pagedKv } from '../../../../lab/simulate/serving/kv-size.ts'
import { SimulatedEngine } from '../../../../lab/simulate/serving/simulated-engine.ts'

const policyOf = (name: ServingPolicyName) => createServingPolicy(name, { promptRows: 64, minPromptRows: 1 })

/** A step takes 10 ms and 1 ms per row; a position holds 10 bytes. */
const options = (fields: Partial<EngineOptions> = {}): EngineOptions => ({
  policy: policyOf('decode-first'),
  stepS: ({ rows }) => 0.01 + 0.001 * rows,
  stepJitter: 0,
  answerKv: pagedKv(10),
  deviceKv: pagedKv(5),
  firstPositions: 1,
  memoryBytes: 1_000_000,
  slowBytes: 0,
  transferBytesPerS: 1_000_000,
  writeThrough: true,
  overlap: true,
  step: { rows: 256, streams: 16 },
  pipeline: 1,
  pipelinedPrompts: false,
  maxDecodeRows: 16,
  maxWaiting: 1_000,
  waitsForTransfers: false,
  ...fields,
})

interface Asked {
  readonly atMs: number
  readonly promptTokens: number
  readonly outputTokens: number
  readonly cachedTokens?: number
  readonly tokensPerS?: number
}

/** Asks the engine, and lets everything happen. */
function answers(fields: Partial<EngineOptions>, asked: readonly Asked[], seed = 1) {
  const simulation = new Simulation(seed)
  const engine = new SimulatedEngine(simulation, options(fields))
  const tokensMs: number[][] = asked.map(() => [])
  const refused: number[] = []
  for (const [i, { atMs, tokensPerS = 5, cachedTokens = 0, ...one }] of asked.entries())
    simulation.at(atMs, () => {
      engine.answer({
        ...one,
        cachedTokens,
        tokensPerS,
        token() {
          tokensMs[i]!.push(simulation.nowMs)
        },
        refused: () => refused.push(i),
      })
    })
  const isOver = !simulation.advance(1_000_000)
  return { simulation, engine, tokensMs, refused, isOver }
}

const rounded = (times: readonly number[]) => times.map((ms) => Math.round(ms))

it('answers alone: a step for the prompt, then one for each token', () => {
  const { engine, tokensMs } = answers({}, [{ atMs: 100, promptTokens: 20, outputTokens: 3 }])
  expect(rounded(tokensMs[0]!)).toEqual([130, 141, 152])
  expect(engine.figures).toMatchObject({ steps: 3, rows: 22, preemptions: 0 })
  expect(engine.figures.busyS).toBeCloseTo(0.052)
  expect([engine.memory.usedBytes, engine.load]).toEqual([0, 0])
})

it('computes of a prompt what no cached prefix holds', () => {
  const { engine } = answers({}, [{ atMs: 0, promptTokens: 20, outputTokens: 1, cachedTokens: 15 }])
  expect(engine.figures.rows).toBe(5)
})

it('computes the last row of a prompt even where the prefix holds it all', () => {
  const { engine } = answers({}, [{ atMs: 0, promptTokens: 20, outputTokens: 1, cachedTokens: 20 }])
  expect(engine.figures.rows).toBe(1)
})

it('tells the cost function what a step computes', () => {
  const seen: unknown[] = []
  const stepS: EngineOptions['stepS'] = ({ answers: work, chosen }) => {
    seen.push({ ...work, chosen })
    return 0.01
  }
  answers({ stepS }, [{ atMs: 0, promptTokens: 3, outputTokens: 2 }])
  expect(seen).toEqual([
    { streams: 1, rows: 3, kvPositions: 3, attended: 6, chosen: 1 },
    { streams: 1, rows: 1, kvPositions: 4, attended: 4, chosen: 1 },
  ])
})

it('refuses answers while the queue is full', () => {
  const burst = Array.from({ length: 5 }, () => ({ atMs: 0, promptTokens: 5, outputTokens: 1 }))
  const { refused, tokensMs } = answers({ maxWaiting: 3 }, burst)
  expect(refused).toEqual([3, 4])
  expect(tokensMs.map(({ length }) => length)).toEqual([1, 1, 1, 0, 0])
})

it('starts the steps of a pipeline a stage apart, never two with one stream', () => {
  const two = Array.from({ length: 2 }, () => ({ atMs: 0, promptTokens: 1, outputTokens: 2 }))
  // One stream in each step: 11 ms, of which a stage takes half.
  const { tokensMs } = answers({ pipeline: 2, step: { rows: 16, streams: 1 } }, two)
  expect(tokensMs.map((times) => times.map((ms) => Math.round(10 * ms) / 10))).toEqual([
    [11, 22],
    [16.5, 27.5],
  ])
})

describe('a prompt that takes several steps of a pipeline', () => {
  // Steps of 16 rows take 26 ms, of which a stage takes half; a row takes 11.
  const pipeline = { pipeline: 2, step: { rows: 16, streams: 4 } }
  const rounded = (ms: number) => Math.round(10 * ms) / 10

  it.each([
    [false, [63, 74]],
    [true, [44.5, 55.5]],
  ])('begins the next piece after the last one, or after its first stage: %s', (pipelinedPrompts, expected) => {
    const { tokensMs } = answers({ ...pipeline, pipelinedPrompts }, [{ atMs: 0, promptTokens: 33, outputTokens: 2 }])
    expect(tokensMs[0]!.map(rounded)).toEqual(expected)
  })

  it.each([
    [false, [26, 52, 63]],
    [true, [26, 39, 44.5]],
  ])('does so with a device’s pieces, too: %s', (pipelinedPrompts, expected) => {
    const simulation = new Simulation(1)
    const engine = new SimulatedEngine(simulation, options({ ...pipeline, pipelinedPrompts }))
    const session = engine.session()
    const doneMs: number[] = []
    const send = (rows: number, returned: number) => session.send({ rows, returned, done: () => doneMs.push(simulation.nowMs) })
    simulation.at(0, () => {
      send(16, 0)
      send(16, 1)
      send(1, 1)
    })
    simulation.advance(1_000)
    expect(doneMs.map(rounded)).toEqual(expected)
    expect(session.contextLength).toBe(33)
  })
})

it('calls nothing more of an answer that is stopped, and frees its memory', () => {
  const simulation = new Simulation(1)
  const engine = new SimulatedEngine(simulation, options())
  let tokens = 0
  const stop = engine.answer({
    promptTokens: 5,
    outputTokens: 100,
    cachedTokens: 0,
    tokensPerS: 5,
    token: () => {
      tokens += 1
    },
    refused: () => {},
  })
  simulation.at(20, stop)
  simulation.advance(1_000)
  expect([tokens, engine.load, engine.memory.usedBytes]).toEqual([1, 0, 0])
})

it('computes a device’s pieces in order, and beside answers in one step', () => {
  const simulation = new Simulation(1)
  const engine = new SimulatedEngine(simulation, options())
  const session = engine.session()
  const done: [number, number][] = []
  const piece = (rows: number) => ({
    rows,
    returned: rows,
    done: (cloudS: number) => done.push([Math.round(simulation.nowMs), Math.round(1_000 * cloudS)]),
  })
  simulation.at(0, () => {
    session.send(piece(4))
    session.send(piece(2))
  })
  simulation.at(100, () => {
    session.truncate(5)
    expect(session.contextLength).toBe(5)
    session.send(piece(1))
  })
  simulation.advance(1_000)
  expect(done).toEqual([
    [14, 14],
    [26, 26],
    [111, 11],
  ])
  expect(engine.memory.usedBytes).toBe(30)
  session.close()
  expect(engine.memory.usedBytes).toBe(0)
})

describe('a device whose rows lack memory', () => {
  const ordinary = policyOf('decode-first')
  /** Makes nothing way. */
  const stubborn: ServingPolicy = { plan: (state, nowMs) => ({ ...ordinary.plan(state, nowMs), preempt: [] }) }

  /** Two sessions of 5 bytes a row; the second closes at a time. Memory for 100 rows. */
  function twoSessions(fields: Partial<EngineOptions>, closesMs: number) {
    const simulation = new Simulation(1)
    const engine = new SimulatedEngine(simulation, options({ memoryBytes: 500, maxMemoryWaitMs: 1_000, ...fields }))
    const [first, second] = [engine.session(), engine.session()]
    const events: string[] = []
    const send = (session: SimulatedEngineSession, name: string, rows: number) => {
      const note = (what: string) => events.push(`${name} ${what} ${Math.round(simulation.nowMs)}`)
      session.send({ rows, returned: 1, done: () => note('done'), failed: () => note('failed') })
    }
    simulation.at(0, () => {
      send(first, 'first', 20)
      send(second, 'second', 60)
    })
    simulation.at(100, () => send(first, 'first', 50))
    simulation.at(closesMs, () => second.close())
    simulation.advance(10_000)
    return { events, engine }
  }
  const before = ['first done 90', 'second done 90']
  const preempting = { slowBytes: 10_000 }

  it('gets that of a later session, which is preempted', () => {
    expect(twoSessions(preempting, 900).events).toEqual([...before, 'first done 160'])
  })

  it('waits until others release some', () => {
    expect(twoSessions({ ...preempting, policy: stubborn }, 900).events).toEqual([...before, 'first done 960'])
  })

  it('begins without its cached prefix where it waits, as the device was told', () => {
    const simulation = new Simulation(1)
    const engine = new SimulatedEngine(simulation, options({ memoryBytes: 500, policy: stubborn }))
    const first = engine.session()
    first.send({ rows: 100, returned: 1, done: () => {} })
    simulation.advance(100)
    const second = engine.session(undefined, 30)
    const told = second.contextLength
    first.close()
    simulation.advance(100)
    expect([told, second.contextLength]).toEqual([0, 0])
  })

  it('fails after its time, and releases what it has', () => {
    const { events, engine } = twoSessions({ ...preempting, policy: stubborn }, 2_000)
    expect(events).toEqual([...before, 'first failed 1100'])
    expect([engine.load, engine.memory.usedBytes]).toEqual([0, 0])
  })

  it('fails at once where no other session could be preempted', () => {
    expect(twoSessions({}, 900).events).toEqual([...before, 'first failed 100'])
  })
})

describe('for any arrivals', () => {
  const anyAsked = fc.record({
    atMs: fc.integer({ min: 0, max: 5_000 }),
    promptTokens: fc.integer({ min: 1, max: 300 }),
    outputTokens: fc.integer({ min: 1, max: 60 }),
    tokensPerS: fc.double({ min: 0.5, max: 60, noNaN: true }),
  })
  const anyEngine = fc.record({
    memoryBytes: fc.integer({ min: 4_000, max: 40_000 }),
    slowBytes: fc.constantFrom(0, 5_000, 1_000_000),
    transferBytesPerS: fc.constantFrom(10_000, 1_000_000),
    writeThrough: fc.boolean(),
    overlap: fc.boolean(),
    pipeline: fc.integer({ min: 1, max: 3 }),
    pipelinedPrompts: fc.boolean(),
    stepJitter: fc.constantFrom(0, 0.3),
  })

  it.each(servingPolicyNames)('%s answers everything within the memory, the same way every time', (name) => {
    fc.assert(
      fc.property(fc.array(anyAsked, { minLength: 1, maxLength: 20 }), anyEngine, (asked, fields) => {
        const run = () => answers({ ...fields, policy: policyOf(name) }, asked)
        const { engine, tokensMs, isOver } = run()
        expect(isOver).toBe(true)
        expect(tokensMs.map(({ length }) => length)).toEqual(asked.map(({ outputTokens }) => outputTokens))
        expect([engine.load, engine.memory.usedBytes]).toEqual([0, 0])
        for (const [i, times] of tokensMs.entries()) {
          expect(times[0]).toBeGreaterThan(asked[i]!.atMs)
          expect(times).toEqual(times.toSorted((a, b) => a - b))
        }
        expect(run().tokensMs).toEqual(tokensMs)
      }),
      { numRuns: 8 },
    )
  })
})
