import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Clock } from '../../../core/kit/base/clock.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { Resumption, ServingPlan, ServingPolicy, ServingState, StreamState } from '../../../core/policy/serving/policy.ts'
import { someIds, workshop } from '../../core/model/engine/models.ts'
import { servedOf, testServing, watchedTier } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'

const bench = shared(workshop)
const model = shared(() => bench.open({ format: 'fp32', split: 1 }))

const request = (promptRows: number, maxTokens: number, seed = 1) => ({
  ...{ ids: someIds(model.manifest, promptRows, seed), answered: [], eos: [], sampling: greedy, maxTokens, tokensPerS: 1_000 },
})

describe('an answer that is resumed', () => {
  it.each<[Resumption, number]>([
    ['load', 6],
    ['recompute', 0],
  ])('by %s reads %i pages of the slow tier', async (by, pages) => {
    const ordinary = decodeFirst({ promptRows: 64, minPromptRows: 8, maxStepsSkipped: 4, decodingMs: 500 })
    let preempted = false
    const policy: ServingPolicy = {
      plan(state, nowMs) {
        const plan = ordinary.plan(state, nowMs)
        const [stream] = state.waiting
        if (!preempted && stream?.reader?.sent === 40 && stream.residency === 'resident') {
          preempted = true
          return { ...plan, preempt: [stream.id], run: [] }
        }
        return preempted ? { ...plan, resume: plan.resume.map((one) => ({ ...one, by })) } : plan
      },
    }
    let loads = 0
    const slow = watchedTier((kind) => {
      if (kind === 'load') loads += 1
    })
    const serving = testServing(servedOf(model), { policy, tiers: { slow, writeThrough: false } })
    const stream = serving.openTokens('client', request(50, 60))
    while (!(await stream.next()).end);
    expect([preempted, loads]).toEqual([true, pages])
    await serving.close()
  })
})

it('KV is written through in the time of a step of so many rows, and no longer', async () => {
  const whole = servedOf(model)
  let nowMs = 0
  const clock: Clock = { nowMs: () => nowMs, sleep: () => new Promise(() => {}) }
  /** Rows of each step, and pages that were saved while it ran. */
  const steps: { readonly rows: number; saves: number }[] = []
  const slow = watchedTier(() => {
    nowMs += 30
    steps.at(-1)!.saves += 1
  })
  const step: typeof whole.step = async (items) => {
    const startMs = nowMs
    const rows = items.reduce((sum, item) => sum + ('ids' in item ? item.ids.length : 0), 0)
    steps.push({ rows, saves: 0 })
    const results = await whole.step(items)
    // A page takes 30 ms, a row 1 ms.
    for (let turn = 0; turn < 60; turn++) await nextTurn()
    nowMs = startMs + rows
    return results
  }
  const policy = decodeFirst({ promptRows: 64, minPromptRows: 64, maxStepsSkipped: 4, decodingMs: 500 })
  const serving = testServing({ ...whole, step }, { policy, clock, tiers: { slow, writeThrough: true } })
  // Shows how long a page takes, and a step of one row.
  const short = serving.openTokens('client', request(12, 10, 2))
  while (!(await short.next()).end);
  await short.close()
  const before = steps.length
  const stream = serving.openTokens('client', request(192, 3))
  while (!(await stream.next()).end);
  // Of four pages that are due, and then six, two fit into 64 ms.
  expect(steps.slice(before, before + 3)).toEqual([
    { rows: 64, saves: 0 },
    { rows: 64, saves: 2 },
    { rows: 64, saves: 2 },
  ])
  await serving.close()
})

it('loads begin while evictions end, and what they will take is not offered to others', async () => {
  const bytesPerPosition = servedOf(model).tokens!.bytesPerPosition
  const events: ('save' | 'load')[] = []
  const slow = watchedTier(async (kind) => {
    if (isHandedOver) events.push(kind)
    // Plans are made meanwhile.
    await sleep(3)
  })
  let isHandedOver = false
  /** The long answer is preempted, then the short one, for which the long one is loaded again. */
  let stage: 'long' | 'short' | 'long again' = 'long'
  /** Memory in use, as plans see it, while the long one is loaded; and what that one takes in all. */
  const seen: { readonly usedBytes: number; readonly longBytes: number }[] = []
  const plan = (state: ServingState): ServingPlan => {
    const all = [...state.waiting, ...state.idle].sort((a, b) => a.id - b.id)
    const [long, short] = all
    const idle = { evict: [], preempt: [], resume: [], run: [], lookAgainAtMs: 0 }
    const proceed = (stream: StreamState | undefined): ServingPlan => {
      if (!stream || stream.waitingRows === 0 || stream.residency === 'in flight') return idle
      if (stream.residency === 'resident')
        return { ...idle, run: [{ stream: stream.id, rows: Math.min(64, stream.waitingRows) }] }
      const by = stream.resumptions.includes('load') && stream.contextLength > 0 ? 'load' : 'recompute'
      return { ...idle, resume: [{ stream: stream.id, by }] }
    }
    if (!long) return idle
    if (stage === 'long' && long.reader?.sent === 40 && long.residency === 'resident') {
      stage = 'short'
      return { ...idle, preempt: [long.id] }
    }
    if (stage === 'short' && long.residency === 'evicted' && short?.reader?.sent === 20 && short.residency === 'resident') {
      stage = 'long again'
      isHandedOver = true
      return { ...idle, preempt: [short.id], resume: [{ stream: long.id, by: 'load' }] }
    }
    if (stage === 'long again' && long.residency === 'in flight')
      seen.push({ usedBytes: state.memory.usedBytes, longBytes: 89 * bytesPerPosition })
    if (stage === 'short') return long.residency === 'evicted' ? proceed(short) : idle
    return proceed(long)
  }
  const serving = testServing(servedOf(model), {
    policy: { plan },
    kv: { budgetBytes: 170 * bytesPerPosition, ownerBytes: 170 * bytesPerPosition },
    tiers: { slow, writeThrough: false, overlap: true },
  })
  const long = serving.openTokens('client', request(50, 60))
  const short = serving.openTokens('client', request(20, 40))
  while (!(await long.next()).end);
  expect(events.indexOf('load')).toBeGreaterThanOrEqual(0)
  expect(events.indexOf('load')).toBeLessThan(events.lastIndexOf('save'))
  expect(seen.length).toBeGreaterThan(1)
  for (const { usedBytes, longBytes } of seen) expect(usedBytes).toBeGreaterThanOrEqual(longBytes)
  await long.close()
  await short.close()
  await serving.close()
})
