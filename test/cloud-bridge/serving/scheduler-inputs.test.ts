import { expect, it } from 'vitest'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy, ServingState, StreamState } from '../../../core/policy/serving/policy.ts'
import { someIds, workshop } from '../../core/model/engine/models.ts'
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts'
import { servedOf, testServing, watchedTier } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'

const bench = shared(workshop)
const model = shared(() => bench.open({ format: 'fp32', split: 1 }))

const stepMs = 20
const tokensPerS = 20
const maxTokens = 60
const budgetBytes = 2 ** 24

/** As it is now: streams change after the plan. */
const copyOf = (stream: StreamState): StreamState => ({
  id: stream.id,
  client: stream.client,
  source: stream.source,
  waitingRows: stream.waitingRows,
  phase: stream.phase,
  arrivedMs: stream.arrivedMs,
  stepsSkipped: stream.stepsSkipped,
  contextLength: stream.contextLength,
  kvBytes: stream.kvBytes,
  growthBytes: stream.growthBytes,
  fullBytes: stream.fullBytes,
  residency: stream.residency,
  resumptions: stream.resumptions,
  writtenRows: stream.writtenRows,
  reader: stream.reader,
})

/** Saving a page takes 4 ms, loading one 2 ms. */
const timed = (clock: FakeClock) => watchedTier((kind) => clock.advance(kind === 'save' ? 4 : 2))

it('a policy sees what each stream and the bridge have done so far', async () => {
  const clock = fakeClock(1_000)
  const whole = servedOf(model)
  const ordinary = decodeFirst({ promptRows: 64, minPromptRows: 8, maxStepsSkipped: 4, decodingMs: 500 })
  const states: ServingState[] = []
  const seen: StreamState[] = []
  let preempted = false
  const policy: ServingPolicy = {
    plan(state, nowMs) {
      states.push(state)
      seen.push(...state.waiting.map(copyOf))
      const plan = ordinary.plan(state, nowMs)
      const [stream] = state.waiting
      if (preempted || stream?.reader?.sent !== 40 || stream.residency !== 'resident') return plan
      preempted = true
      return { ...plan, preempt: [stream.id], run: [] }
    },
  }
  const serving = testServing(
    { ...whole, step: (items: Parameters<typeof whole.step>[0]) => clock.advance(stepMs).then(() => whole.step(items)) },
    { policy, clock, tiers: { slow: timed(clock), writeThrough: false } },
  )
  const ids = someIds(model.manifest, 50, 1)
  const stream = serving.openTokens('client', { ids, answered: [], eos: [], sampling: greedy, maxTokens, tokensPerS })
  while (!(await stream.next()).end);

  const perPosition = whole.tokens!.bytesPerPosition
  const pageBytes = 16 * perPosition
  expect(seen[0]).toMatchObject({
    ...{ residency: 'evicted', contextLength: 0, waitingRows: 50, writtenRows: 0, resumptions: ['recompute'] },
    ...{ kvBytes: 64 * perPosition, fullBytes: 128 * perPosition },
    reader: { requestedMs: 1_000, tokensPerS, maxTokens },
  })
  // Row 64 is the last in the first buffers.
  const growing = seen.filter(({ residency, growthBytes }) => residency === 'resident' && growthBytes > 0)
  expect(growing).toMatchObject([{ contextLength: 64, growthBytes: 64 * perPosition, kvBytes: 64 * perPosition }])
  const away = seen.filter(({ residency, contextLength }) => residency === 'evicted' && contextLength > 0)
  expect(away).toMatchObject([{ contextLength: 89, writtenRows: 89, resumptions: ['load', 'recompute'] }])

  // Before the last token, nothing waits.
  const { reader } = seen.at(-1)!
  expect(reader).toMatchObject({ sent: maxTokens - 1, firstTokenMs: 1_000 + stepMs })
  expect(reader!.drainedMs).toBeCloseTo(1_000 + stepMs + ((maxTokens - 1) * 1_000) / tokensPerS, 6)
  const { slow, speeds, memory } = states.at(-1)!
  expect(slow).toMatchObject({ budgetBytes })
  expect(memory.budgetBytes).toBe(2 ** 30)
  expect(speeds.tokensPerS).toBeCloseTo(1_000 / stepMs, 6)
  expect(speeds.prefillSPerRow).toBeCloseTo(stepMs / 1_000 / 50, 6)
  expect(speeds.stepSOf(1)).toBeCloseTo(stepMs / 1_000, 4)
  expect(speeds.loadBytesPerS).toBeCloseTo((pageBytes * 1_000) / 2, 3)
  expect(speeds.evictBytesPerS).toBeGreaterThan(0)
  expect(speeds.evictBytesPerS).toBeLessThanOrEqual((pageBytes * 1_000) / 4)
  await serving.close()
})
