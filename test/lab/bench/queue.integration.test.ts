import { describe, expect, it } from 'vitest'
import { benchDispatch } from '../../../lab/bench/queue/dispatch.ts'
import { benchEnqueue, benchFinished, summariseStore } from '../../../lab/bench/queue/store.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

const ignoreProgress = () => {}

describe('the figures of bench queue', () => {
  it('compare each round with bare SQLite in the same round, and take the median', () => {
    const round = (what: 'enqueue' | 'enqueueBatched', oursMs: number) => ({ what, jobs: 100, oursMs, rawMs: 10 })
    const rounds = [round('enqueue', 20), round('enqueue', 12.5), round('enqueue', 10), round('enqueueBatched', 40)]
    const lives = [{ what: 'life' as const, jobs: 100, emptyMs: 50, fullMs: 55 }]
    const summary = summariseStore(rounds, lives)
    expect(summary).toMatchObject({ enqueueOverRaw: 0.8, enqueuePerS: 8_000, rawPerS: 10_000, enqueueBatchedOverRaw: 0.25 })
    expect(summary.slowdownAt100k).toBeCloseTo(1.1)
  })

  it('come from jobs that a job store stored and finished', () => {
    using dir = tempDir()
    const rounds = benchEnqueue(dir.path, { rounds: 2, jobs: 100 }, ignoreProgress)
    const lives = benchFinished(dir.path, { rounds: 2, jobs: 100, finished: 1_000 }, ignoreProgress)
    for (const value of Object.values(summariseStore(rounds, lives))) expect(value).toBeGreaterThan(0)
  })

  it('include the dispatch latency that a bridge process measures', { timeout: 60_000 }, async () => {
    using dir = tempDir()
    const { io } = captureIo({ env: { PATH: '' } })
    const limits = { bundle: await buildTextBundle(dir.path), dir: dir.path, devices: 5, jobs: 40, perS: 200 }
    const { p50Ms, p99Ms } = await benchDispatch(limits, io, ignoreProgress)
    expect(p50Ms).toBeGreaterThan(0)
    expect(p99Ms).toBeGreaterThanOrEqual(p50Ms)
  })
})
