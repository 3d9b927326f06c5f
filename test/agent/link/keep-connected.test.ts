import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { keepConnected } from '../../../agent/link/keep-connected.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { fullJitterMs, reconnectLimits } from '../../../core/policy/link/back-off.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

const turn = () => new Promise((done) => setImmediate(done))

/** Connections that a test makes, breaks and refuses. */
function persistentUnderTest(random = { next: () => 0.5 }) {
  const clock = fakeClock()
  const attemptsAtMs: number[] = []
  const breaks: (() => void)[] = []
  const world = { reachable: false, reason: 'refused' }
  const { logger, lines } = recordingLogger('warn')
  const persistent = keepConnected({
    name: 'test',
    clock,
    random,
    logger,
    async connect() {
      attemptsAtMs.push(clock.nowMs())
      if (!world.reachable) throw new Error(world.reason)
      return { gone: new Promise<void>((resolve) => breaks.push(resolve)) }
    },
  })
  persistent.start()
  return { clock, attemptsAtMs, world, persistent, lines, breakConnection: () => breaks.pop()?.() }
}

describe('waiting before connecting again', () => {
  it('lies between nothing and a bound that doubles from 1 s to 5 min', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.integer(), (failures, seed) => {
        const ms = fullJitterMs(failures, reconnectLimits, seededRandom(seed))
        expect(ms).toBeGreaterThanOrEqual(0)
        expect(ms).toBeLessThan(Math.min(300_000, 1_000 * 2 ** (failures - 1)))
      }),
    )
  })

  it('spreads over all of that', () => {
    const random = seededRandom(1)
    const waits = Array.from({ length: 1_000 }, () => fullJitterMs(4, reconnectLimits, random))
    expect(Math.min(...waits)).toBeLessThan(100)
    expect(Math.max(...waits)).toBeGreaterThan(7_900)
  })
})

describe('a connection that is kept up', () => {
  it('is tried again after longer and longer waits while nobody answers', async () => {
    const { clock, attemptsAtMs, persistent } = persistentUnderTest()
    await turn()
    await clock.advance(20_000)
    expect(attemptsAtMs).toEqual([0, 500, 1_500, 3_500, 7_500, 15_500])
    await persistent.stop()
  })

  it('is made at once when somebody needs it, whatever the wait', async () => {
    const { clock, attemptsAtMs, world, persistent, breakConnection } = persistentUnderTest({ next: () => 0.999 })
    await turn()
    await clock.advance(100_000)
    const before = attemptsAtMs.length
    world.reachable = true
    await persistent.retryNow()
    expect(attemptsAtMs.length).toBe(before + 1)
    expect(attemptsAtMs.at(-1)).toBe(100_000)
    const stopped = persistent.stop()
    breakConnection()
    await stopped
  })

  it('starts from the shortest wait again after a connection that lasted', async () => {
    const { clock, attemptsAtMs, world, persistent, breakConnection } = persistentUnderTest()
    await turn()
    await clock.advance(8_000)
    world.reachable = true
    await clock.advance(60_000)
    world.reachable = false
    const upSinceMs = attemptsAtMs.at(-1)!
    breakConnection()
    await turn()
    await clock.advance(500)
    expect(clock.nowMs() - upSinceMs).toBeGreaterThan(30_000)
    expect(attemptsAtMs.at(-1)).toBe(68_500)
    await persistent.stop()
  })

  it('waits longer each time when it breaks as soon as it is made', async () => {
    const { clock, attemptsAtMs, world, persistent, breakConnection } = persistentUnderTest()
    world.reachable = true
    await turn()
    for (let i = 0; i < 4; i++) {
      breakConnection()
      await turn()
      await clock.advance(500 * 2 ** i)
    }
    expect(attemptsAtMs.slice(1).map((at, i) => at - attemptsAtMs[i]!)).not.toContain(0)
    expect(attemptsAtMs.at(-1)! - attemptsAtMs.at(-2)!).toBeGreaterThanOrEqual(1_000)
    const stopped = persistent.stop()
    breakConnection()
    await stopped
  })

  it('is made anew at once for whoever hears of its end first', async () => {
    const { clock, attemptsAtMs, world, persistent, breakConnection } = persistentUnderTest()
    world.reachable = true
    await turn()
    await clock.advance(10_000)
    breakConnection()
    void persistent.retryNow()
    await turn()
    expect(attemptsAtMs).toEqual([0, 500, 10_000])
    const stopped = persistent.stop()
    breakConnection()
    await stopped
  })

  it('warns once that it is away, and why, however long that lasts', async () => {
    const { clock, lines, attemptsAtMs, world, persistent, breakConnection } = persistentUnderTest()
    const said = () => lines.map(({ msg, err }) => [msg, (err as { message: string } | undefined)?.message])
    await turn()
    await clock.advance(60_000)
    const unreachable = 'test unreachable, retrying'
    expect(attemptsAtMs.length).toBeGreaterThan(5)
    expect(said()).toEqual([[unreachable, 'refused']])
    world.reason = 'of another release'
    await clock.advance(600_000)
    expect(said().slice(1)).toEqual([[unreachable, 'of another release']])
    world.reachable = true
    await clock.advance(600_000)
    world.reachable = false
    breakConnection()
    await turn()
    await clock.advance(60_000)
    expect(said().slice(2)).toEqual([
      ['test connection lost', undefined],
      [unreachable, 'of another release'],
    ])
    await persistent.stop()
  })

  it('stops in the middle of a wait', async () => {
    const { clock, attemptsAtMs, persistent } = persistentUnderTest()
    await turn()
    await persistent.stop()
    await clock.advance(1_000_000)
    expect(attemptsAtMs).toEqual([0])
  })
})
