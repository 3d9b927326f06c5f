import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createStepLoop } from '../../../cloud-bridge/serving/step-loop.ts'
import { systemClock } from '../../../core/base/clock.ts'
import type { Sequence } from '../../../core/engine/contract.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedPart } from '../../support/scripted-part.ts'

const limits = { tokenBudget: 64, promptTokens: 32, slots: 4, smallTokens: 8, patience: 2 }
const never = new AbortController().signal
const rows = (n: number) => ({ rows: n, width: 2, half: new Uint16Array(n * 2) })

describe('the step loop', () => {
  it('packs whatever is ready, one item per sequence, in the order it came', async () => {
    const part = scriptedPart()
    const loop = createStepLoop(part, limits, systemClock)
    const [a, b] = [part.createSequence(), part.createSequence()]
    const submit = (sequence: Sequence, n: number) =>
      loop.submit({ sequence, states: rows(n), select: 'all', prompt: false }, never)
    await Promise.all([submit(a, 3), submit(b, 4), submit(a, 5)])
    expect(part.steps).toEqual([
      [
        { sequence: a, rows: 3 },
        { sequence: b, rows: 4 },
      ],
      [{ sequence: a, rows: 5 }],
    ])
    expect(a.length).toBe(8)
    expect(loop.metrics).toMatchObject({ steps: 2, items: 3, tokens: 12, splits: 0 })
    expect(loop.metrics.batches.slice(0, 3)).toEqual([0, 1, 1])
  })

  it('lets who was just answered be in the very next step', async () => {
    const part = scriptedPart()
    const loop = createStepLoop(part, limits, systemClock)
    const stream = async (sequence: Sequence) => {
      for (let i = 0; i < 5; i++) await loop.submit({ sequence, states: rows(1), select: 'all', prompt: false }, never)
    }
    await Promise.all([stream(part.createSequence()), stream(part.createSequence()), stream(part.createSequence())])
    expect(part.steps.map((step) => step.length)).toEqual([3, 3, 3, 3, 3])
  })

  it('serves a decode without waiting for the prompts before it', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, limits, systemClock)
    const prompts = [1, 2, 3].map(() =>
      loop.submit({ sequence: part.createSequence(), states: rows(60), select: 'last', prompt: false }, never),
    )
    const decode = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, never)
    await part.finishStep()
    await decode
    const served = Promise.all(prompts)
    let done = false
    void served.then(() => {
      done = true
    })
    while (!done) await part.finishStep()
    const rowsOfSteps = part.steps.map((step) => step.map((item) => item.rows))
    // Pieces of 32 as long as somebody decodes.
    expect(rowsOfSteps[0]).toEqual([32, 1])
    for (const step of rowsOfSteps.slice(1)) expect(step.reduce((sum, n) => sum + n)).toBeLessThanOrEqual(32)
    expect(rowsOfSteps.flat().reduce((sum, n) => sum + n)).toBe(181)
  })

  it('returns of a prompt in pieces what was asked for, as if it had been one', async () => {
    const part = scriptedPart()
    const loop = createStepLoop(part, { ...limits, tokenBudget: 10, smallTokens: 2 }, systemClock)
    const states = { rows: 25, width: 1, half: Uint16Array.from({ length: 25 }, (_, row) => row) }
    const of = async (select: 'all' | 'last' | 'none' | number[]) => {
      const { states: got } = await loop.submit({ sequence: part.createSequence(), states, select, prompt: false }, never)
      return [...got.half]
    }
    expect(await of('all')).toEqual([...states.half])
    expect(await of('last')).toEqual([24])
    expect(await of('none')).toEqual([])
    expect(await of([3, 9, 10, 24])).toEqual([3, 9, 10, 24])
    expect(part.steps.map(([item]) => item!.rows).slice(0, 3)).toEqual([10, 10, 5])
  })

  it('drops a prompt that is given up between two pieces', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...limits, tokenBudget: 10, smallTokens: 2 }, systemClock)
    const stop = new AbortController()
    const prompt = loop.submit({ sequence: part.createSequence(), states: rows(25), select: 'last', prompt: false }, stop.signal)
    await expect.poll(() => part.steps.length).toBe(1)
    const dropped = expect(prompt).rejects.toMatchObject({ code: 'CANCELED' })
    stop.abort()
    await part.finishStep()
    await dropped
    expect(part.steps.length).toBe(1)
  })

  it('removes an item that is given up while it waits, and finishes one that runs', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...limits, slots: 1 }, systemClock)
    const stop = new AbortController()
    const running = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, stop.signal)
    await expect.poll(() => part.steps.length).toBe(1)
    const waiting = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, stop.signal)
    stop.abort()
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELED' })
    await part.finishStep()
    await expect(running).resolves.toMatchObject({ states: { rows: 1 } })
    expect(part.steps.length).toBe(1)
    await expect(
      loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, stop.signal),
    ).rejects.toMatchObject({ code: 'CANCELED' })
  })

  it('fails the one item that is to blame, and serves the others of its step', async () => {
    const part = scriptedPart()
    const loop = createStepLoop(part, limits, systemClock)
    const [a, bad, c] = [part.createSequence(), part.createSequence(), part.createSequence()]
    part.failFor(bad)
    const results = await Promise.allSettled(
      [a, bad, c].map((sequence) => loop.submit({ sequence, states: rows(2), select: 'all', prompt: false }, never)),
    )
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect([a, bad, c].map((sequence) => sequence.length)).toEqual([2, 0, 2])
    expect(loop.metrics).toMatchObject({ splits: 1, failedItems: 1, steps: 2 })
  })

  it('tells how long an item waited and how long it was computed', async () => {
    const clock = fakeClock()
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...limits, slots: 1 }, clock)
    const first = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, never)
    const second = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, never)
    await expect.poll(() => part.steps.length).toBe(1)
    await clock.advance(30)
    await part.finishStep()
    expect(await first).toMatchObject({ queueMs: 0, computeMs: 30 })
    await expect.poll(() => part.steps.length).toBe(2)
    await clock.advance(10)
    await part.finishStep()
    expect(await second).toMatchObject({ queueMs: 30, computeMs: 10 })
    expect(loop.metrics.computeMs).toBeCloseTo(0.8 * 30 + 0.2 * 10)
  })

  it('closes without leaving anyone waiting, after the step that runs', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...limits, slots: 1 }, systemClock)
    const running = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, never)
    await expect.poll(() => part.steps.length).toBe(1)
    const waiting = loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, never)
    let closed = false
    const closing = loop.close().then(() => {
      closed = true
    })
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELED' })
    expect(closed).toBe(false)
    await part.finishStep()
    await closing
    await expect(running).resolves.toBeDefined()
    await expect(
      loop.submit({ sequence: part.createSequence(), states: rows(1), select: 'all', prompt: false }, never),
    ).rejects.toMatchObject({
      code: 'CANCELED',
    })
  })
})

describe('the step loop over a pipeline of two stages', () => {
  const two = { ...limits, pipeline: 2 }
  const request = (sequence: Sequence, n: number, prompt = false) =>
    ({ sequence, states: rows(n), select: 'all', prompt }) as const

  it('has two steps under way at once, and the third waits for one of them', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...two, slots: 1 }, systemClock)
    const [a, b, c] = [1, 2, 3].map(() => part.createSequence())
    const answers = [a!, b!, c!].map((sequence) => loop.submit(request(sequence, 2), never))
    await expect.poll(() => part.steps.length).toBe(2)
    // Nothing has ended yet.
    expect(loop.metrics.steps).toBe(0)
    await part.finishStep()
    await answers[0]
    await expect.poll(() => part.steps.length).toBe(3)
    await part.finishStep()
    await part.finishStep()
    await Promise.all(answers)
    expect(part.steps).toEqual([a, b, c].map((sequence) => [{ sequence, rows: 2 }]))
    expect(loop.metrics).toMatchObject({ steps: 3, items: 3, tokens: 6 })
  })

  it('fills the second stage with who comes while the first step is under way', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, two, systemClock)
    const first = loop.submit(request(part.createSequence(), 1), never)
    await expect.poll(() => part.steps.length).toBe(1)
    const second = loop.submit(request(part.createSequence(), 1), never)
    await expect.poll(() => part.steps.length).toBe(2)
    await part.finishStep()
    await part.finishStep()
    await Promise.all([first, second])
  })

  it('never has one sequence in both, whether its rows are two items or a prompt in pieces', async () => {
    const part = scriptedPart({ manual: true })
    const underWay: Sequence[] = []
    let most = 0
    const watched = alteredPart(part, {
      before: (items) => {
        underWay.push(...items.map(({ sequence }) => sequence))
        expect(new Set(underWay).size).toBe(underWay.length)
        most = Math.max(most, underWay.length)
      },
      after: (items) => {
        for (const { sequence } of items) underWay.splice(underWay.indexOf(sequence), 1)
      },
    })
    const loop = createStepLoop(watched, { ...two, tokenBudget: 10, smallTokens: 2, slots: 1 }, systemClock)
    const sequences = [1, 2, 3].map(() => part.createSequence())
    const answers = Promise.all(
      sequences.flatMap((sequence, i) =>
        [request(sequence, 25, true), request(sequence, 1 + i), request(sequence, 30, true)].map((asked) =>
          loop.submit(asked, new AbortController().signal),
        ),
      ),
    )
    let done = false
    void answers.finally(() => {
      done = true
    })
    while (!done) {
      // Each step begins a turn after the one before it.
      for (let turn = 0; turn < 4; turn++) await nextTurn()
      await part.finishStep()
    }
    expect((await answers).map(({ states }) => states.rows)).toEqual([25, 1, 30, 25, 2, 30, 25, 3, 30])
    expect(sequences.map(({ length }) => length)).toEqual([56, 57, 58])
    expect(most).toBe(2)
    expect(loop.metrics.failedItems).toBe(0)
  })

  it('fails the one item that is to blame while another step is under way', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...two, slots: 2 }, systemClock)
    const [a, bad, c, d] = [1, 2, 3, 4].map(() => part.createSequence())
    part.failFor(bad!)
    const answers = Promise.allSettled([a!, bad!, c!, d!].map((sequence) => loop.submit(request(sequence, 2), never)))
    let done = false
    void answers.then(() => {
      done = true
    })
    await expect.poll(() => part.steps.length).toBe(2)
    while (!done) await part.finishStep()
    expect((await answers).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled'])
    expect([a, bad, c, d].map((sequence) => sequence!.length)).toEqual([2, 0, 2, 2])
    expect(loop.metrics).toMatchObject({ splits: 1, failedItems: 1 })
  })

  it('measures a step from its beginning to its end, the other one under way or not', async () => {
    const clock = fakeClock()
    const part = scriptedPart({ manual: true })
    const delays: number[] = []
    const loop = createStepLoop(part, { ...two, slots: 1 }, clock, ({ computeMs }) => delays.push(computeMs))
    const first = loop.submit(request(part.createSequence(), 1), never)
    await expect.poll(() => part.steps.length).toBe(1)
    await clock.advance(10)
    const second = loop.submit(request(part.createSequence(), 1), never)
    await expect.poll(() => part.steps.length).toBe(2)
    await clock.advance(20)
    await part.finishStep()
    expect(await first).toMatchObject({ queueMs: 0, computeMs: 30 })
    await clock.advance(10)
    await part.finishStep()
    expect(await second).toMatchObject({ queueMs: 0, computeMs: 30 })
    expect(delays).toEqual([30, 30])
  })

  it('closes after both steps, and drops what is left of a prompt', async () => {
    const part = scriptedPart({ manual: true })
    const loop = createStepLoop(part, { ...two, tokenBudget: 10, smallTokens: 2, slots: 1 }, systemClock)
    const prompt = loop.submit(request(part.createSequence(), 25, true), never)
    const decode = loop.submit(request(part.createSequence(), 1), never)
    await expect.poll(() => part.steps.length).toBe(2)
    let closed = false
    const closing = loop.close().then(() => {
      closed = true
    })
    const dropped = expect(prompt).rejects.toMatchObject({ code: 'CANCELED' })
    await part.finishStep()
    expect(closed).toBe(false)
    await part.finishStep()
    await closing
    await dropped
    await expect(decode).resolves.toBeDefined()
    expect(part.steps.length).toBe(2)
  })
})
