import { describe, expect, it } from 'vitest'
import { Reader } from '../../../core/policy/serving/reader.ts'
import { firstCome } from '../../../lab/baselines/first-come.ts'
import { stateOf, answerState as streamState } from '../../support/serving-state.ts'

const fresh = (id: number, fullBytes = 300) =>
  streamState(id, {
    waitingRows: 64,
    phase: 'prefill',
    contextLength: 0,
    kvBytes: 64,
    fullBytes,
    residency: 'evicted',
    resumptions: ['recompute'],
  })
const memory = (usedBytes: number) => ({ memory: { budgetBytes: 1_000, usedBytes } })

describe('first come, first served', () => {
  it('admits as many requests as the memory holds in full, in the order of arrival', () => {
    const plan = firstCome().plan(stateOf([fresh(2), fresh(1), fresh(4), fresh(3)], memory(0)), 0)
    expect(plan.resume.map(({ stream }) => stream)).toEqual([1, 2, 3])
    expect(plan.preempt).toEqual([])
    expect(plan.run.map(({ stream }) => stream)).toEqual([1, 2, 3])
  })

  it('leaves room for what the resident streams will need', () => {
    const growing = streamState(1, { kvBytes: 100, growthBytes: 100, fullBytes: 500 })
    const free = firstCome().plan(stateOf([growing, fresh(2), fresh(3)], memory(100)), 0)
    expect(free.resume.map(({ stream }) => stream)).toEqual([2])
    const full = firstCome().plan(stateOf([{ ...growing, fullBytes: 800 }, fresh(2)], memory(100)), 0)
    expect(full.resume).toEqual([])
    expect(full.run).toEqual([{ stream: 1, rows: 1 }])
  })

  it('admits no later request in place of one that does not fit', () => {
    const plan = firstCome().plan(
      stateOf([streamState(1, { kvBytes: 500, fullBytes: 500 }), fresh(2, 600), fresh(3, 64)], memory(500)),
      0,
    )
    expect(plan.resume).toEqual([])
  })

  it('admits a request that never fits in full if it is alone', () => {
    expect(firstCome().plan(stateOf([fresh(1, 5_000), fresh(2)], memory(0)), 0).resume).toEqual([{ stream: 1, by: 'recompute' }])
  })

  it('computes prompts before all else, or in chunks beside the streams that decode', () => {
    const decoding = streamState(1)
    const prompt = streamState(2, { phase: 'prefill', waitingRows: 300, growthBytes: 0 })
    expect(firstCome().plan(stateOf([decoding, prompt]), 0).run).toEqual([{ stream: 2, rows: 300 }])
    expect(firstCome({ chunkRows: 128 }).plan(stateOf([decoding, prompt]), 0).run).toEqual([
      { stream: 2, rows: 128 },
      { stream: 1, rows: 1 },
    ])
  })

  describe('with SGLang’s share of the memory that running answers may come to need', () => {
    const policy = () => firstCome({ reserves: 'share' })
    const resident = (fullBytes: number) => streamState(1, { kvBytes: 100, fullBytes })
    const admits = (one: ReturnType<typeof firstCome>, fullBytes: number) =>
      one.plan(stateOf([resident(fullBytes), fresh(2)], memory(100)), 0).resume.length

    it('reserves 70 % at first', () => {
      // 0.7 × 857 = 600 and 300 for the other one.
      expect([957, 958].map((fullBytes) => admits(policy(), fullBytes))).toEqual([1, 0])
    })

    it('reserves less with each step that decodes', () => {
      const decoding = policy()
      for (let step = 0; step < 600; step += 1) decoding.plan(stateOf([resident(100)]), 0)
      // 0.098 × 6,120 = 600
      expect([6_220, 6_230].map((fullBytes) => admits(decoding, fullBytes))).toEqual([1, 0])
    })

    it('reserves after a preemption what the answers have come to need', () => {
      const preempting = policy()
      const sent = new Reader(5, 100, 0)
      sent.deliver(30, 0)
      const full = [1, 2].map((id) => streamState(id, { kvBytes: 500, growthBytes: 500, reader: sent }))
      expect(preempting.plan(stateOf(full, memory(1_000)), 0).preempt).toEqual([2])
      // (30 + 20) of 100 tokens
      expect([1_300, 1_302].map((fullBytes) => admits(preempting, fullBytes))).toEqual([1, 0])
    })
  })
})
