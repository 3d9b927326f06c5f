import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Serving } from '../../../cloud-bridge/serving/serving.ts'
import type { Stream } from '../../../cloud-bridge/serving/stream.ts'
import type { Sequence } from '../../../core/model/engine/contract.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy } from '../../../core/policy/serving/policy.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { type ScriptedPart, scriptedPart } from '../../support/scripted-part.ts'
import { openStream, testServing } from '../../support/serving.ts'

const rows = (n: number) => ({ rows: n, width: 2, half: new Uint16Array(n * 2) })
const append = (stream: Stream, n: number) => stream.append({ states: rows(n), select: 'all' })
const prefill = (stream: Stream, n: number) => stream.append({ states: rows(n), select: 'last' })
const openStreams = (serving: Serving, count: number) =>
  Promise.all(Array.from({ length: count }, () => openStream(serving))) as Promise<[Stream, ...Stream[]]>
const rowsOfSteps = (part: ScriptedPart) => part.steps.map((step) => step.map((item) => item.rows))
const small = { rows: 10, streams: 1 }

/** Finishes the steps of a manual part until the promise has settled. */
async function finishSteps<T>(part: ScriptedPart, settling: Promise<T>): Promise<T> {
  let isSettled = false
  const settle = () => {
    isSettled = true
  }
  settling.then(settle, settle)
  while (!isSettled) {
    // Each step begins a turn after the one before it.
    for (let turn = 0; turn < 4; turn++) await nextTurn()
    if (!isSettled) await part.finishStep()
  }
  return settling
}

describe('the step loop', () => {
  it('packs the rows of all waiting streams, in the order of their arrival', async () => {
    const part = scriptedPart()
    const serving = testServing(part)
    const [a, b, c] = await openStreams(serving, 3)
    await Promise.all([append(b!, 4), append(a, 3), append(c!, 5)])
    expect(rowsOfSteps(part)).toEqual([[4, 3, 5]])
    expect([a, b, c].map((stream) => stream!.length)).toEqual([3, 4, 5])
    expect(serving.metrics).toMatchObject({ steps: 1, items: 3, tokens: 12, splits: 0 })
    expect(serving.metrics.batches.slice(0, 4)).toEqual([0, 0, 0, 1])
  })

  it('gives a stream whose rows were returned a place in the next step', async () => {
    const part = scriptedPart()
    const decode = async (stream: Stream) => {
      for (let i = 0; i < 5; i++) await append(stream, 1)
    }
    await Promise.all((await openStreams(testServing(part), 3)).map(decode))
    expect(part.steps.map((step) => step.length)).toEqual([3, 3, 3, 3, 3])
  })

  it('serves a decode without waiting for the prompts before it', async () => {
    const part = scriptedPart({ manual: true })
    const [decoding, ...prompting] = await openStreams(testServing(part), 4)
    const prompts = prompting.map((stream) => prefill(stream, 60))
    const decode = append(decoding, 1)
    await part.finishStep()
    await decode
    await finishSteps(part, Promise.all(prompts))
    // Pieces of 32 rows while a stream decodes.
    expect(rowsOfSteps(part)[0]).toEqual([1, 32])
    for (const step of rowsOfSteps(part).slice(1)) expect(step.reduce((sum, n) => sum + n)).toBeLessThanOrEqual(32)
    expect(rowsOfSteps(part).flat()).toHaveLength(7)
    expect(
      rowsOfSteps(part)
        .flat()
        .reduce((sum, n) => sum + n),
    ).toBe(181)
  })

  it('gives prompts the whole of each step again once no stream has decoded for a while', async () => {
    const part = scriptedPart()
    const clock = fakeClock()
    const [a, b] = await openStreams(testServing(part, { clock }), 2)
    await append(a, 1)
    await clock.advance(499)
    await prefill(b!, 40)
    await clock.advance(500)
    await prefill(b!, 40)
    expect(rowsOfSteps(part)).toEqual([[1], [32], [8], [40]])
  })

  it('gives prompts the whole of each step where only prompts have run', async () => {
    const part = scriptedPart()
    const [a, b] = await openStreams(testServing(part), 2)
    await prefill(a, 40)
    await prefill(b!, 40)
    expect(rowsOfSteps(part)).toEqual([[40], [40]])
  })

  it('lets a prompt go first once it was skipped four times', async () => {
    const part = scriptedPart()
    const [a, b] = await openStreams(testServing(part, { step: { streams: 1 } }), 2)
    const prompt = prefill(b!, 20)
    for (let i = 0; i < 6; i++) await append(a, 1)
    expect((await prompt).states.rows).toBe(1)
    expect(rowsOfSteps(part).flat().indexOf(20)).toBe(4)
  })

  it('returns the selected rows of a prompt in pieces, as if it had been one step', async () => {
    const part = scriptedPart()
    const serving = testServing(part, { step: small, maxDecodeRows: 2 })
    const states = { rows: 25, width: 1, half: Uint16Array.from({ length: 25 }, (_, row) => row) }
    const selected = async (select: 'all' | 'last' | 'none' | number[]) => {
      const result = await (await openStream(serving)).append({ states, select })
      return [...result.states.half]
    }
    expect(await selected('all')).toEqual([...states.half])
    expect(await selected('last')).toEqual([24])
    expect(await selected('none')).toEqual([])
    expect(await selected([3, 9, 10, 24])).toEqual([3, 9, 10, 24])
    expect(rowsOfSteps(part).slice(0, 3)).toEqual([[10], [10], [5]])
  })

  it('drops a prompt whose stream is closed between two pieces', async () => {
    const part = scriptedPart({ manual: true })
    const serving = testServing(part, { step: small, maxDecodeRows: 2 })
    const stream = await openStream(serving)
    const dropped = expect(prefill(stream, 25)).rejects.toMatchObject({ code: 'CANCELED' })
    await expect.poll(() => part.steps.length).toBe(1)
    const closed = stream.close()
    expect(serving.memory.usedBytes).toBeGreaterThan(0)
    await part.finishStep()
    await dropped
    await closed
    expect(part.steps.length).toBe(1)
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('rejects the rows of a closed stream that wait, and returns those that a step is computing', async () => {
    const part = scriptedPart({ manual: true })
    const [a, b] = await openStreams(testServing(part, { step: { streams: 1 } }), 2)
    const running = append(a, 1)
    await expect.poll(() => part.steps.length).toBe(1)
    const waiting = append(b!, 1)
    const closed = [a.close(), b!.close()]
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELED' })
    await part.finishStep()
    await expect(running).resolves.toMatchObject({ states: { rows: 1 } })
    await Promise.all(closed)
    expect(part.steps.length).toBe(1)
    await expect(append(a, 1)).rejects.toMatchObject({ code: 'CANCELED' })
  })

  it('fails only the stream that caused a failed step', async () => {
    const part = scriptedPart()
    const serving = testServing(part)
    const [a, bad, c] = await openStreams(serving, 3)
    await append(bad!, 1)
    part.failFor(part.steps[0]![0]!.sequence)
    const results = await Promise.allSettled([a, bad, c].map((stream) => append(stream!, 2)))
    expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect([a, bad, c].map((stream) => stream!.length)).toEqual([2, 1, 2])
    expect(serving.metrics).toMatchObject({ splits: 1, failedItems: 1, steps: 3 })
  })

  it('measures how long rows waited and how long they were computed', async () => {
    const clock = fakeClock()
    const part = scriptedPart({ manual: true })
    const serving = testServing(part, { clock, step: { streams: 1 } })
    const [a, b] = await openStreams(serving, 2)
    const first = append(a, 1)
    const second = append(b!, 1)
    await expect.poll(() => part.steps.length).toBe(1)
    await clock.advance(30)
    await part.finishStep()
    expect(await first).toMatchObject({ queueMs: 0, computeMs: 30 })
    await expect.poll(() => part.steps.length).toBe(2)
    await clock.advance(10)
    await part.finishStep()
    expect(await second).toMatchObject({ queueMs: 30, computeMs: 10 })
    expect(serving.metrics.computeMs).toBeCloseTo(0.8 * 30 + 0.2 * 10)
    expect(serving.metrics.queueMs).toBeCloseTo(0.2 * 30)
  })

  it('rejects waiting rows when it closes, and resolves after the running step', async () => {
    const part = scriptedPart({ manual: true })
    const serving = testServing(part, { step: { streams: 1 } })
    const [a, b] = await openStreams(serving, 2)
    const running = append(a, 1)
    await expect.poll(() => part.steps.length).toBe(1)
    const waiting = append(b!, 1)
    let isClosed = false
    const closing = serving.close().then(() => {
      isClosed = true
    })
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELED', message: 'the bridge is shutting down' })
    expect(isClosed).toBe(false)
    await part.finishStep()
    await closing
    await expect(running).resolves.toMatchObject({ states: { rows: 1 } })
    await expect(append(a, 1)).rejects.toMatchObject({ code: 'CANCELED' })
  })

  it('refuses a second append, and changes of the rows, during an append', async () => {
    const part = scriptedPart({ manual: true })
    const stream = await openStream(testServing(part))
    const first = append(stream, 1)
    expect(() => stream.truncate(0)).toThrow('during an append')
    expect(() => stream.gather(0, [])).toThrow('during an append')
    expect(() => append(stream, 1)).toThrow('during an append')
    await part.finishStep()
    expect((await first).states.rows).toBe(1)
  })

  it('rejects rows for which the KV memory has no room', async () => {
    const perPosition = 2 * 16 * 4
    const serving = testServing(scriptedPart(), { kv: { budgetBytes: 136 * perPosition, firstPositions: 8 } })
    const [a, b] = await openStreams(serving, 2)
    await prefill(a, 100)
    await expect(prefill(b!, 9)).rejects.toMatchObject({ code: 'OUT_OF_MEMORY', message: expect.stringContaining('9 positions') })
    await a.close()
    await expect(prefill(b!, 9)).resolves.toMatchObject({ states: { rows: 1 } })
  })
})

describe('the step loop over a pipeline of two stages', () => {
  it('has two steps under way at once, and the third waits for one of them', async () => {
    const part = scriptedPart({ manual: true })
    const serving = testServing(part, { step: { pipeline: 2, streams: 1 } })
    const appended = (await openStreams(serving, 3)).map((stream) => append(stream, 2))
    await expect.poll(() => part.steps.length).toBe(2)
    // No step has ended yet.
    expect(serving.metrics.steps).toBe(0)
    await part.finishStep()
    await appended[0]
    await expect.poll(() => part.steps.length).toBe(3)
    await part.finishStep()
    await part.finishStep()
    await Promise.all(appended)
    expect(new Set(part.steps.map(([item]) => item!.sequence)).size).toBe(3)
    expect(serving.metrics).toMatchObject({ steps: 3, items: 3, tokens: 6 })
  })

  it('begins a second step with rows that arrive while the first is under way', async () => {
    const part = scriptedPart({ manual: true })
    const [a, b] = await openStreams(testServing(part, { step: { pipeline: 2 } }), 2)
    const first = append(a, 1)
    await expect.poll(() => part.steps.length).toBe(1)
    const second = append(b!, 1)
    await expect.poll(() => part.steps.length).toBe(2)
    await part.finishStep()
    await part.finishStep()
    expect((await Promise.all([first, second])).map(({ states }) => states.rows)).toEqual([1, 1])
  })

  it('never has one stream in both steps, also where its prompt is in pieces', async () => {
    const part = scriptedPart({ manual: true })
    const underWay: Sequence[] = []
    let maxUnderWay = 0
    const watched = alteredPart(part, {
      before: (items) => {
        underWay.push(...items.map(({ sequence }) => sequence))
        expect(new Set(underWay).size).toBe(underWay.length)
        maxUnderWay = Math.max(maxUnderWay, underWay.length)
      },
      after: (items) => {
        for (const { sequence } of items) underWay.splice(underWay.indexOf(sequence), 1)
      },
    })
    const serving = testServing(watched, { step: { ...small, pipeline: 2 }, maxDecodeRows: 2 })
    const streams = await openStreams(serving, 3)
    const appendThrice = async (stream: Stream, i: number) => {
      const results = [await prefill(stream, 25), await append(stream, 1 + i), await append(stream, 30)]
      return results.map(({ states }) => states.rows)
    }
    const returned = await finishSteps(part, Promise.all(streams.map(appendThrice)))
    expect(returned).toEqual([
      [1, 1, 30],
      [1, 2, 30],
      [1, 3, 30],
    ])
    expect(streams.map(({ length }) => length)).toEqual([56, 57, 58])
    expect(maxUnderWay).toBe(2)
    expect(serving.metrics.failedItems).toBe(0)
  })

  it('fails only the stream that caused a failed step, while another step is under way', async () => {
    const part = scriptedPart({ manual: true })
    const serving = testServing(part, { step: { pipeline: 2, streams: 2 } })
    const [bad, ...others] = await openStreams(serving, 4)
    await finishSteps(part, append(bad, 1))
    part.failFor(part.steps[0]![0]!.sequence)
    const results = Promise.allSettled([others[0]!, bad, others[1]!, others[2]!].map((stream) => append(stream, 2)))
    await expect.poll(() => part.steps.length).toBe(3)
    expect((await finishSteps(part, results)).map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
    expect([bad, ...others].map(({ length }) => length)).toEqual([1, 2, 2, 2])
    expect(serving.metrics).toMatchObject({ splits: 1, failedItems: 1 })
  })

  it('measures a step from its beginning to its end, whether or not the other one is under way', async () => {
    const clock = fakeClock()
    const part = scriptedPart({ manual: true })
    const delays: number[] = []
    const serving = testServing(part, {
      clock,
      step: { pipeline: 2, streams: 1 },
      onStep: ({ computeMs }) => delays.push(computeMs),
    })
    const [a, b] = await openStreams(serving, 2)
    const first = append(a, 1)
    await expect.poll(() => part.steps.length).toBe(1)
    await clock.advance(10)
    const second = append(b!, 1)
    await expect.poll(() => part.steps.length).toBe(2)
    await clock.advance(20)
    await part.finishStep()
    expect(await first).toMatchObject({ queueMs: 0, computeMs: 30 })
    await clock.advance(10)
    await part.finishStep()
    expect(await second).toMatchObject({ queueMs: 0, computeMs: 30 })
    expect(delays).toEqual([30, 30])
  })

  it('closes after both steps, and rejects the rest of a prompt', async () => {
    const part = scriptedPart({ manual: true })
    const serving = testServing(part, { step: { ...small, pipeline: 2 }, maxDecodeRows: 2 })
    const [a, b] = await openStreams(serving, 2)
    const dropped = expect(prefill(a, 25)).rejects.toMatchObject({ code: 'CANCELED' })
    const decode = append(b!, 1)
    await expect.poll(() => part.steps.length).toBe(2)
    let isClosed = false
    const closing = serving.close().then(() => {
      isClosed = true
    })
    await part.finishStep()
    expect(isClosed).toBe(false)
    await part.finishStep()
    await closing
    await dropped
    expect((await decode).states.rows).toBe(1)
    expect(part.steps.length).toBe(2)
  })
})

describe('a policy', () => {
  const idle: ServingPolicy = {
    plan: () => ({ evict: [], preempt: [], resume: [], run: [], lookAgainAtMs: undefined }),
  }

  it('that defers a step is asked again at the time that it names', async () => {
    const clock = fakeClock()
    const part = scriptedPart()
    const running = decodeFirst({ promptRows: 32, minPromptRows: 8, maxStepsSkipped: 4, decodingMs: 500 })
    const deferring: ServingPolicy = {
      plan: (state, nowMs) => (nowMs < 50 ? { ...idle.plan(state, nowMs), lookAgainAtMs: 50 } : running.plan(state, nowMs)),
    }
    const stream = await openStream(testServing(part, { clock, policy: deferring }))
    const appended = append(stream, 1)
    await clock.advance(49)
    expect(part.steps.length).toBe(0)
    await clock.advance(1)
    expect(await appended).toMatchObject({ queueMs: 50, computeMs: 0 })
  })

  it('that runs no stream is asked again when rows arrive, and serving can be closed', async () => {
    let plans = 0
    const policy: ServingPolicy = {
      plan(state, nowMs) {
        plans += 1
        return idle.plan(state, nowMs)
      },
    }
    const serving = testServing(scriptedPart(), { policy })
    const [a, b] = await openStreams(serving, 2)
    const rejected: Promise<void>[] = []
    for (const [at, stream] of [a, b!].entries()) {
      rejected.push(expect(append(stream, 1)).rejects.toMatchObject({ code: 'CANCELED' }))
      await nextTurn()
      await nextTurn()
      expect(plans).toBe(at + 1)
    }
    await serving.close()
    await Promise.all(rejected)
  })
})
