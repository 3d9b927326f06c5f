import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeFirst } from '../../../../core/policy/serving/decode-first.ts'
import type { Phase, Residency, ServingPlan, StreamState } from '../../../../core/policy/serving/policy.ts'
import { Reader } from '../../../../core/policy/serving/reader.ts'
import { stateOf, stepOf16 as step, streamState as stream } from '../../../support/serving-state.ts'

const limits = { promptRows: 128, minPromptRows: 16, maxStepsSkipped: 4, decodingMs: 500 }
const policy = decodeFirst(limits)
const nowMs = 10_000

const prompt = (id: number, waitingRows: number, stepsSkipped = 0) => stream(id, { waitingRows, phase: 'prefill', stepsSkipped })
const draft = (id: number, waitingRows: number) => stream(id, { waitingRows, phase: waitingRows === 1 ? 'decode' : 'verify' })
const runOf = (streams: readonly StreamState[], lastDecodeMs?: number) =>
  policy.plan(stateOf(streams, { lastDecodeMs }), nowMs).run

const anyRows: fc.Arbitrary<{ waitingRows: number; phase: Phase }> = fc.oneof(
  fc.integer({ min: 1, max: 600 }).map((waitingRows) => ({ waitingRows, phase: 'prefill' as const })),
  fc.integer({ min: 2, max: 16 }).map((waitingRows) => ({ waitingRows, phase: 'verify' as const })),
  fc.constant({ waitingRows: 1, phase: 'decode' as const }),
)
const anyResidency = fc.constantFrom<Residency>('resident', 'resident', 'evicted', 'in flight')
const streamsOf = (residency: fc.Arbitrary<Residency>) =>
  fc
    .array(fc.tuple(anyRows, fc.nat({ max: 6 }), residency), { maxLength: 40 })
    .map((all) => all.map(([rows, stepsSkipped, where], id) => stream(id, { ...rows, stepsSkipped, residency: where })))
const resident = streamsOf(fc.constant<Residency>('resident'))
const anyLastDecode = fc.option(fc.integer({ min: nowMs - 1_000, max: nowMs }), { nil: undefined })

const sumOf = (run: ServingPlan['run']) => run.reduce((sum, { rows }) => sum + rows, 0)
const isPrompt = ({ phase }: StreamState) => phase === 'prefill'

describe('a step', () => {
  it('stays within its limits of rows and streams, and takes no more rows of a stream than wait', () => {
    fc.assert(
      fc.property(resident, anyLastDecode, (streams, lastDecodeMs) => {
        const run = runOf(streams, lastDecodeMs)
        expect(run.length).toBeLessThanOrEqual(step.streams)
        expect(new Set(run.map((entry) => entry.stream)).size).toBe(run.length)
        expect(sumOf(run)).toBeLessThanOrEqual(step.rows)
        for (const entry of run) {
          expect(entry.rows).toBeGreaterThan(0)
          expect(entry.rows).toBeLessThanOrEqual(streams[entry.stream]!.waitingRows)
        }
      }),
    )
  })

  it('holds no more rows of prompts than the limit while a stream decodes', () => {
    fc.assert(
      fc.property(resident, anyLastDecode, (streams, lastDecodeMs) => {
        const run = runOf(streams, lastDecodeMs)
        const decodes = lastDecodeMs !== undefined && nowMs - lastDecodeMs < limits.decodingMs
        if (!decodes && streams.every(isPrompt)) return
        expect(sumOf(run.filter((entry) => isPrompt(streams[entry.stream]!)))).toBeLessThanOrEqual(limits.promptRows)
      }),
    )
  })

  it.each([
    [limits.decodingMs - 1, 128],
    [limits.decodingMs, 400],
  ])('%i ms after the last decode step takes %i rows of a prompt', (sinceMs, rows) => {
    expect(runOf([prompt(1, 400)], nowMs - sinceMs)).toEqual([{ stream: 1, rows }])
  })

  it('never splits a decode or a draft', () => {
    fc.assert(
      fc.property(resident, anyLastDecode, (streams, lastDecodeMs) => {
        for (const { stream: id, rows } of runOf(streams, lastDecodeMs))
          if (!isPrompt(streams[id]!)) expect(rows).toBe(streams[id]!.waitingRows)
      }),
    )
  })

  it('is empty only if no resident stream waits', () => {
    fc.assert(
      fc.property(resident, (streams) => {
        expect(runOf(streams).length > 0).toBe(streams.length > 0)
        expect(runOf(streams.map((one) => ({ ...one, waitingRows: 0 })))).toEqual([])
      }),
    )
  })

  it('omits a decode only if the step is full', () => {
    fc.assert(
      fc.property(resident, (streams) => {
        const run = runOf(streams)
        const chosen = new Set(run.map((entry) => entry.stream))
        const left = streams.filter((one) => !chosen.has(one.id) && !isPrompt(one))
        const isLatePrompt = (id: number) => isPrompt(streams[id]!) && streams[id]!.stepsSkipped < limits.maxStepsSkipped
        const [late, before] = [
          run.filter((entry) => isLatePrompt(entry.stream)),
          run.filter((entry) => !isLatePrompt(entry.stream)),
        ]
        // A prompt may run while a decode is omitted only if that decode did not fit.
        if (late.length > 0) for (const one of left) expect(sumOf(before) + one.waitingRows).toBeGreaterThan(step.rows)
      }),
    )
  })

  it.each<[string, StreamState[], [number, number][]]>([
    [
      'decodes beside the first rows of the prompt that came before them',
      [prompt(0, 400), draft(1, 1), draft(2, 4)],
      [
        [0, 128],
        [1, 1],
        [2, 4],
      ],
    ],
    ['the whole of a prompt where no stream decodes', [prompt(0, 400)], [[0, 400]]],
    [
      'two prompts, the second in part',
      [prompt(0, 300), prompt(1, 300)],
      [
        [0, 300],
        [1, 212],
      ],
    ],
    [
      'no piece of a third prompt that is too small',
      [prompt(0, 300), prompt(1, 200), prompt(2, 100)],
      [
        [0, 300],
        [1, 200],
      ],
    ],
    [
      'the prompt that was skipped too often before one that came first',
      [prompt(0, 512), prompt(1, 512, 4), draft(2, 1)],
      [
        [1, 128],
        [2, 1],
      ],
    ],
  ])('holds %s', (_, streams, expected) => {
    expect(runOf(streams).toSorted((a, b) => a.stream - b.stream)).toEqual(expected.map(([id, rows]) => ({ stream: id, rows })))
  })

  it('takes the rows of every stream within a bounded number of steps, whatever else arrives', () => {
    const arrivals = fc.array(fc.array(fc.integer({ min: 1, max: 512 }), { maxLength: 12 }), { minLength: 80, maxLength: 80 })
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 512 }), (rounds, rows) => {
        let ids = 0
        const arrive = (size: number) => ({ ...(size > 16 ? prompt(++ids, size) : draft(++ids, size)) })
        const ours = arrive(rows)
        let waiting = [...rounds[0]!.map(arrive), ours]
        for (const sizes of rounds.slice(1)) {
          waiting.push(...sizes.map(arrive))
          const run = new Map(runOf(waiting, nowMs).map((entry) => [entry.stream, entry.rows]))
          waiting = waiting
            .map((one) => {
              const taken = run.get(one.id)
              return taken === undefined
                ? { ...one, stepsSkipped: one.stepsSkipped + 1 }
                : { ...one, waitingRows: one.waitingRows - taken }
            })
            .filter((one) => one.waitingRows > 0)
          if (!waiting.some((one) => one.id === ours.id)) return
        }
        throw new Error('the rows were never served')
      }),
    )
  })
})

describe('the memory of a plan', () => {
  it('runs no stream without KV in memory, resumes those that wait and fit, and preempts only for an earlier session', () => {
    const cachedOf = fc.array(fc.nat({ max: 200 }), { maxLength: 5 })
    fc.assert(
      fc.property(streamsOf(anyResidency), cachedOf, fc.nat({ max: 2_000 }), (streams, cachedBytes, freeBytes) => {
        const cached = cachedBytes.map((kvBytes, i) => ({ handle: `${i}`, owner: 'jetson-01', kvBytes }))
        const usedBytes = cachedBytes.reduce((sum, bytes) => sum + bytes, 0)
        const memory = { usedBytes, budgetBytes: usedBytes + freeBytes }
        const { run, resume: resumed, evict, preempt } = policy.plan(stateOf(streams, { cached, memory }), nowMs)
        const resume = resumed.map((entry) => entry.stream)
        const short = streams.filter(({ id, waitingRows }) => waitingRows > 0 && !resume.includes(id))
        for (const id of preempt) expect(short.some((one) => one.residency === 'evicted' && one.id < id)).toBe(true)
        for (const id of resume) expect(streams[id]!.residency).toBe('evicted')
        for (const entry of run)
          expect(streams[entry.stream]!.residency === 'resident' || resume.includes(entry.stream)).toBe(true)
        const freedBytes = evict.reduce((sum, handle) => sum + cachedBytes[Number(handle)]!, 0)
        const resumedBytes = resume.reduce((sum, id) => sum + streams[id]!.kvBytes, 0)
        expect(resumedBytes).toBeLessThanOrEqual(freeBytes + freedBytes)
        if (streams.every(({ residency }) => residency !== 'evicted')) expect(evict).toEqual([])
      }),
    )
  })

  it('evicts the oldest prefixes for a stream that is resumed, and runs it in the same step', () => {
    const streams = [stream(0, { residency: 'evicted', kvBytes: 100 }), stream(1, { residency: 'evicted', waitingRows: 0 })]
    const cached = ['a', 'b', 'c'].map((handle) => ({ handle, owner: 'jetson-01', kvBytes: 60 }))
    const memory = { budgetBytes: 200, usedBytes: 190 }
    expect(policy.plan(stateOf(streams, { cached, memory }), nowMs)).toEqual({
      evict: ['a', 'b'],
      preempt: [],
      resume: [{ stream: 0, by: 'load' }],
      run: [{ stream: 0, rows: 1 }],
      lookAgainAtMs: undefined,
    })
  })

  it('keeps evicted a stream that does not fit, and those after it, so that a large stream is not starved', () => {
    const streams = [stream(0, { residency: 'evicted', kvBytes: 300 }), stream(1, { residency: 'evicted', kvBytes: 10 })]
    const memory = { budgetBytes: 200, usedBytes: 0 }
    expect(policy.plan(stateOf(streams, { memory }), nowMs)).toMatchObject({ resume: [], run: [] })
  })

  const ofAnswer = { source: 'answer', reader: new Reader(5, 100, 0) } as const

  it('preempts the latest streams for an earlier one that grows, and resumes none meanwhile', () => {
    const streams = [
      stream(0, { kvBytes: 100, growthBytes: 100, ...ofAnswer }),
      stream(1, { kvBytes: 100, ...ofAnswer }),
      stream(2, { kvBytes: 60, ...ofAnswer }),
      stream(3, { kvBytes: 10, ...ofAnswer, residency: 'evicted' }),
    ]
    const memory = { budgetBytes: 270, usedBytes: 260 }
    expect(policy.plan(stateOf(streams, { memory }), nowMs)).toMatchObject({
      preempt: [2, 1],
      resume: [],
      run: [{ stream: 0, rows: 1 }],
    })
  })

  it('preempts a growing stream itself if all others came before it, and never one of a device', () => {
    const device = stream(0, { kvBytes: 200 })
    const growing = stream(1, { kvBytes: 100, growthBytes: 100, ...ofAnswer })
    const memory = { budgetBytes: 300, usedBytes: 300 }
    for (const streams of [
      [device, growing],
      [growing, device],
    ])
      expect(policy.plan(stateOf(streams, { memory }), nowMs)).toMatchObject({ preempt: [1], run: [{ stream: 0, rows: 1 }] })
  })
})
