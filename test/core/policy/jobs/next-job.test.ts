import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { holderOf, isTerminal, type Job, type JobInput, type JobReport, type JobTerms } from '../../../../core/policy/jobs/job.ts'
import { nextJob } from '../../../../core/policy/jobs/next-job.ts'
import { type AttemptFailure, attemptFailures } from '../../../../core/policy/jobs/retry.ts'

const terms: JobTerms = {
  attempts: 10,
  acceptMs: 10_000,
  startMs: 600_000,
  stepMs: 60_000,
  runMs: 900_000,
  lostAfterMs: 30_000,
  replace: true,
  keep: 'any',
}
const random = { next: () => 0.5 }

function queuedJob(terms: JobTerms, endsByMs: number): Job {
  const times = { dueMs: endsByMs, notBeforeMs: null, runByMs: null, lostAtMs: null }
  return { state: 'QUEUED', attempt: 0, devices: [], failures: {}, terms, endsByMs, ...times, error: null }
}

const report = (device: string, attempt: number, type: Exclude<JobReport['type'], 'failed'>): JobInput => ({
  kind: 'report',
  device,
  attempt,
  report: { type },
})
const failure = (device: string, attempt: number, kind: AttemptFailure): JobInput => ({
  kind: 'report',
  device,
  attempt,
  report: { type: 'failed', failure: kind, error: { code: 'RUNTIME_FAILED', message: 'it broke' } },
})

/** Applies the inputs to a new job, each at its time. */
function play(inputs: readonly (readonly [number, JobInput])[], own: Partial<JobTerms> = {}) {
  let job = queuedJob({ ...terms, ...own }, 3_600_000)
  const effects: unknown[] = []
  for (const [atMs, input] of inputs) {
    const next = nextJob(job, input, atMs, random)
    job = next.job
    effects.push(...next.effects)
  }
  return { job, effects }
}

const dispatch = (device: string): JobInput => ({ kind: 'dispatch', device })
const tick: JobInput = { kind: 'tick' }

describe('a job', () => {
  it('goes from QUEUED through SENT, ACCEPTED and RUNNING to SUCCEEDED', () => {
    const states: string[] = []
    let job = queuedJob(terms, 3_600_000)
    for (const input of [
      dispatch('a'),
      report('a', 1, 'accepted'),
      report('a', 1, 'running'),
      report('a', 1, 'progress'),
      report('a', 1, 'succeeded'),
    ]) {
      states.push(job.state)
      job = nextJob(job, input, 0, random).job
    }
    expect([...states, job.state]).toEqual(['QUEUED', 'SENT', 'ACCEPTED', 'RUNNING', 'RUNNING', 'SUCCEEDED'])
  })

  it('is sent again to a device that returns before it accepted the job', () => {
    const { job, effects } = play([
      [0, dispatch('a')],
      [5, { kind: 'absent', device: 'a' }],
      [9, { kind: 'present', device: 'a' }],
    ])
    expect(job).toMatchObject({ state: 'SENT', attempt: 1, lostAtMs: null })
    expect(effects).toEqual([
      { kind: 'send', device: 'a', attempt: 1 },
      { kind: 'send', device: 'a', attempt: 1 },
    ])
  })

  it('waits lostAfterMs for an absent device, not stepMs, and then goes to another', () => {
    const waiting = play([
      [0, dispatch('a')],
      [1, report('a', 1, 'accepted')],
      [2, report('a', 1, 'running')],
      [10, { kind: 'absent', device: 'a' }],
      [30_009, tick],
    ])
    expect(waiting.job).toMatchObject({ state: 'RUNNING', dueMs: 30_010 })
    const lost = nextJob(waiting.job, tick, 30_010, random).job
    expect(lost).toMatchObject({ state: 'QUEUED', failures: { lost: 1 }, notBeforeMs: 30_010 + 125 })
    const queued = nextJob(lost, tick, 30_135, random).job
    expect(queued).toMatchObject({ state: 'QUEUED', notBeforeMs: null, dueMs: 3_600_000 })
    expect(nextJob(queued, dispatch('b'), 30_136, random).job).toMatchObject({ state: 'SENT', attempt: 2, devices: ['a', 'b'] })
  })

  const replaced = [
    [0, dispatch('a')],
    [1, report('a', 1, 'accepted')],
    [2, { kind: 'absent', device: 'a' }],
    [30_002, tick],
    [31_000, tick],
    [31_001, dispatch('b')],
    [31_002, report('b', 2, 'running')],
  ] as const

  it('takes the first result of any attempt, and cancels the other attempt', () => {
    const { job, effects } = play([...replaced, [31_003, report('a', 1, 'succeeded')], [31_004, report('b', 2, 'succeeded')]])
    expect(job.state).toBe('SUCCEEDED')
    expect(effects.slice(2)).toEqual([{ kind: 'cancelAttempt', device: 'b', attempt: 2 }, { kind: 'storeResult' }])
  })

  it("takes only the replacement's result under keep: replacement, and cancels the first attempt", () => {
    const { job, effects } = play([...replaced, [31_003, report('a', 1, 'succeeded')]], { keep: 'replacement' })
    expect(job.state).toBe('RUNNING')
    expect(effects).toContainEqual({ kind: 'cancelAttempt', device: 'a', attempt: 1 })
    expect(nextJob(job, report('b', 2, 'succeeded'), 31_004, random).effects).toEqual([{ kind: 'storeResult' }])
  })

  it('ignores reports from a device that does not have the attempt', () => {
    const { job } = play(replaced)
    for (const input of [report('b', 1, 'succeeded'), report('a', 2, 'succeeded'), report('c', 3, 'succeeded')])
      expect(nextJob(job, input, 31_003, random)).toEqual({ job, effects: [] })
  })

  it('does not fail with an attempt that was replaced', () => {
    const { job } = play(replaced)
    expect(nextJob(job, failure('a', 1, 'refused'), 31_003, random)).toEqual({ job, effects: [] })
  })

  it('ends as REJECTED after a refusal, FAILED after the last attempt, TIMED_OUT after silence or at its deadline', () => {
    const begun = [[0, dispatch('a')]] as const
    expect(play([...begun, [1, failure('a', 1, 'refused')]]).job).toMatchObject({
      state: 'REJECTED',
      error: { message: 'it broke' },
    })
    expect(play([...begun, [1, failure('a', 1, 'failed')]], { attempts: 1 }).job.state).toBe('FAILED')
    const silent = play([...begun, [1, report('a', 1, 'running')], [60_001, tick]], { attempts: 1 })
    expect(silent.job.state).toBe('TIMED_OUT')
    expect(silent.effects.at(-1)).toEqual({ kind: 'cancelAttempt', device: 'a', attempt: 1 })
    expect(play([[3_600_000, tick]]).job).toMatchObject({ state: 'TIMED_OUT', attempt: 0 })
  })

  it('ends its attempt after runMs, whatever its progress', () => {
    const inputs = [
      [0, dispatch('a')],
      [1, report('a', 1, 'running')],
    ] as [number, JobInput][]
    for (let at = 50_000; at < 900_000; at += 50_000) inputs.push([at, report('a', 1, 'progress')])
    const { job } = play(inputs)
    expect(job).toMatchObject({ state: 'RUNNING', dueMs: 900_001 })
    expect(nextJob(job, tick, 900_001, random).job).toMatchObject({ state: 'QUEUED', failures: { timeout: 1 } })
  })

  it('is requeued for an idle device without counting a failure, and the first result still wins', () => {
    const moved = play(
      [
        [0, dispatch('a')],
        [1, report('a', 1, 'accepted')],
        [2, { kind: 'requeue' }],
        [2, dispatch('b')],
      ],
      { attempts: 1 },
    )
    expect(moved.job).toMatchObject({ state: 'SENT', attempt: 2, devices: ['a', 'b'], failures: {} })
    expect(moved.effects).toContainEqual({ kind: 'cancelAttempt', device: 'a', attempt: 1 })
    expect(nextJob(moved.job, report('a', 1, 'succeeded'), 3, random).job.state).toBe('SUCCEEDED')
    expect(nextJob(moved.job, report('a', 1, 'canceled'), 3, random).job).toBe(moved.job)
    expect(nextJob(moved.job, failure('b', 2, 'failed'), 3, random).job).toMatchObject({
      state: 'FAILED',
      failures: { failed: 1 },
    })
  })

  it('is requeued only in the state ACCEPTED', () => {
    const sent = play([[0, dispatch('a')]]).job
    const running = play([
      [0, dispatch('a')],
      [1, report('a', 1, 'running')],
    ]).job
    for (const job of [queuedJob(terms, 3_600_000), sent, running])
      expect(nextJob(job, { kind: 'requeue' }, 2, random)).toEqual({ job, effects: [] })
  })

  it('is requeued without counting a failure if its device does not start it within startMs', () => {
    const inputs: [number, JobInput][] = []
    for (let round = 0; round < 5; round++) {
      const at = round * 600_002
      inputs.push([at, dispatch('a')], [at + 1, report('a', round + 1, 'accepted')], [at + 600_001, tick])
    }
    const { job, effects } = play(inputs, { attempts: 2 })
    expect(job).toMatchObject({ state: 'QUEUED', attempt: 5, failures: {}, notBeforeMs: null, dueMs: 3_600_000 })
    expect(effects.filter((effect) => (effect as { kind: string }).kind === 'cancelAttempt')).toHaveLength(5)
    expect(nextJob(job, tick, 3_600_000, random).job).toMatchObject({
      state: 'TIMED_OUT',
      error: { message: 'a did not start the job in time' },
    })
  })

  it('cancels the current attempt when a client cancels the job', () => {
    const { job, effects } = play([
      [0, dispatch('a')],
      [1, report('a', 1, 'running')],
      [2, { kind: 'cancel' }],
    ])
    expect(job).toMatchObject({ state: 'CANCELED', dueMs: null })
    expect(effects.at(-1)).toEqual({ kind: 'cancelAttempt', device: 'a', attempt: 1 })
  })
})

describe('any sequence of inputs', () => {
  const device = fc.constantFrom('a', 'b')
  const anyReport = fc.oneof(
    fc.record({ type: fc.constantFrom('accepted', 'running', 'progress', 'succeeded', 'canceled') }),
    fc.record({
      type: fc.constant('failed'),
      failure: fc.constantFrom(...attemptFailures),
      error: fc.constant({ code: 'RUNTIME_FAILED', message: 'it broke' }),
    }),
  ) as fc.Arbitrary<JobReport>
  const input = fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('dispatch'), device }) },
    {
      weight: 6,
      arbitrary: fc.record({ kind: fc.constant('report'), device, attempt: fc.integer({ min: 1, max: 4 }), report: anyReport }),
    },
    { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('present', 'absent'), device }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('tick') }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('cancel', 'requeue') }) },
  ) as fc.Arbitrary<JobInput>
  const anyInputs = fc.array(fc.tuple(fc.integer({ min: 0, max: 70_000 }), input), { maxLength: 40 })
  const anyTerms = fc.record({
    attempts: fc.integer({ min: 1, max: 4 }),
    keep: fc.constantFrom('any' as const, 'replacement' as const),
  })

  it('keeps terminal states final, stores one result at most, gives every open state a deadline, and fences attempts', () => {
    const reached = new Set<string>()
    let replacements = 0
    fc.assert(
      fc.property(anyInputs, anyTerms, fc.integer(), (inputs, own, seed) => {
        let job: Job = queuedJob({ ...terms, ...own }, 900_000)
        const jitter = seededRandom(seed)
        let nowMs = 0
        let results = 0
        for (const [passedMs, next] of inputs) {
          nowMs += passedMs
          const before = job
          const step = nextJob(before, next, nowMs, jitter)
          job = step.job
          reached.add(job.state)
          results += step.effects.filter(({ kind }) => kind === 'storeResult').length
          expect(results).toBe(job.state === 'SUCCEEDED' ? 1 : 0)
          if (isTerminal(before.state)) expect(job).toBe(before)
          expect(job.dueMs === null).toBe(isTerminal(job.state))
          expect(job.dueMs ?? 0).toBeLessThanOrEqual(job.endsByMs)
          expect(job.attempt).toBe(job.devices.length)
          const failed = Object.values(job.failures).reduce((sum, count) => sum + count, 0)
          expect(failed).toBeLessThanOrEqual(own.attempts)
          if (next.kind === 'report' && before.devices[next.attempt - 1] !== next.device) expect(job).toBe(before)
          if (next.kind === 'report' && next.attempt < before.attempt && job.state !== 'SUCCEEDED') expect(job).toBe(before)
          for (const effect of step.effects)
            if (effect.kind === 'send') expect(effect).toMatchObject({ device: holderOf(job), attempt: job.attempt })
        }
        if (job.attempt > 1) replacements += 1
        // Ticks alone end every job.
        for (let ticks = 0; !isTerminal(job.state); ticks++) {
          expect(ticks).toBeLessThan(50)
          const before = job
          nowMs = Math.max(nowMs, job.dueMs ?? 0)
          job = nextJob(job, tick, nowMs, jitter).job
          expect(job).not.toBe(before)
        }
      }),
      { seed: 1, numRuns: 3_000 },
    )
    expect([...reached].sort()).toEqual(
      ['ACCEPTED', 'CANCELED', 'FAILED', 'QUEUED', 'REJECTED', 'RUNNING', 'SENT', 'SUCCEEDED', 'TIMED_OUT'].sort(),
    )
    expect(replacements).toBeGreaterThan(50)
  })
})
