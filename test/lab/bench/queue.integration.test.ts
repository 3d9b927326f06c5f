import { describe, expect, it } from 'vitest'
import { measureQueue, queueBench } from '../../../lab/bench/queue/bench.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { expectFigures } from '../../support/bench-result.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

describe('the figures of bench queue', () => {
  it('compare each round with bare SQLite in the same round, and take the median', () => {
    const round = (what: 'enqueue' | 'enqueueBatched', oursMs: number) => ({ what, jobs: 100, oursMs, rawMs: 10 })
    const rounds = [round('enqueue', 20), round('enqueue', 12.5), round('enqueue', 10), round('enqueueBatched', 40)]
    const lives = [{ what: 'life' as const, jobs: 100, emptyMs: 50, fullMs: 55 }]
    const { summary } = queueBench.resultOf({ conditions: {}, runs: [...rounds, ...lives] })
    expect(summary).toMatchObject({ enqueueOverRaw: 0.8, enqueuePerS: 8_000, rawPerS: 10_000, enqueueBatchedOverRaw: 0.25 })
    expect(summary.slowdownAt100k).toBeCloseTo(1.1)
  })

  it('come from jobs that a job store stored and finished, and from the dispatch that a bridge process measures', {
    timeout: 60_000,
  }, async () => {
    using dir = tempDir()
    const { io } = captureIo({ env: { PATH: '' } })
    const effort = { rounds: 2, jobs: 100, finished: 1_000, devices: 5, perS: 200 }
    const measured = await measureQueue(effort, await buildTextBundle(dir.path), { quick: true, io, progress: io.err })
    const result = queueBench.resultOf(measured)
    expectFigures(queueBench, result)
    for (const value of Object.values(result.summary)) expect(value).toBeGreaterThan(0)
    const { dispatchP50Ms, dispatchP99Ms, dispatchDeviceCommitP50Ms } = result.summary
    expect(dispatchP99Ms).toBeGreaterThanOrEqual(dispatchP50Ms!)
    expect(dispatchP50Ms).toBeGreaterThan(dispatchDeviceCommitP50Ms!)
  })
})
