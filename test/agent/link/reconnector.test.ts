import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Reconnector } from '../../../agent/link/reconnector.ts'
import { Progress } from '../../../core/kit/base/progress.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { backoffLimits, fullJitterMs } from '../../../core/policy/link/back-off.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'

const turn = () => new Promise((done) => setImmediate(done))

/** A reconnector whose connections the test accepts, refuses and closes. */
function startReconnector(random = { next: () => 0.5 }, fleetSize?: number) {
  const clock = fakeClock()
  const attemptsAtMs: number[] = []
  const breaks: (() => void)[] = []
  const world = { reachable: false, reason: 'refused' }
  const { logger, lines } = recordingLogger('warn')
  const reconnector = new Reconnector({
    name: 'test',
    reconnectMaxS: 30,
    fleetSize: () => fleetSize,
    clock,
    random,
    logger,
    async connect() {
      attemptsAtMs.push(clock.nowMs())
      if (!world.reachable) throw new Error(world.reason)
      return { closed: new Promise<void>((resolve) => breaks.push(resolve)) }
    },
  })
  reconnector.start()
  return { clock, attemptsAtMs, world, reconnector, lines, breakConnection: () => breaks.pop()?.() }
}

it('makes progress while it is connected or waits, and none in an attempt that does not end', async () => {
  const clock = fakeClock()
  const progress = new Progress(clock)
  let connect: () => Promise<{ closed: Promise<unknown> }> = async () => Promise.reject(new Error('refused'))
  const { logger } = recordingLogger('error')
  const options = { name: 'data plane', reconnectMaxS: 3_600, clock, random: { next: () => 0.99 }, logger, progress }
  const reconnector = new Reconnector({ ...options, connect: () => connect() })
  reconnector.start()
  // Hours without a network.
  for (let minute = 0; minute < 180; minute++) {
    await clock.advance(60_000)
    await turn()
    expect(progress.stalled).toEqual([])
  }
  let close = () => {}
  connect = async () => ({
    closed: new Promise<void>((resolve) => {
      close = resolve
    }),
  })
  await clock.advance(3_600_000)
  await turn()
  await clock.advance(7_200_000)
  expect(progress.stalled).toEqual([])
  connect = () => new Promise(() => {})
  close()
  await turn()
  await clock.advance(3_600_000)
  await turn()
  await clock.advance(600_000)
  expect(progress.stalled).toEqual(['data plane'])
})

describe('the wait before the next attempt to connect', () => {
  it('is between 0 and a bound that doubles from 1 s to the longest wait', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.integer(), (failures, seed) => {
        const ms = fullJitterMs(failures, backoffLimits(undefined, 30_000), seededRandom(seed).next())
        expect(ms).toBeGreaterThanOrEqual(0)
        expect(ms).toBeLessThan(Math.min(30_000, 1_000 * 2 ** (failures - 1)))
      }),
    )
  })

  it('is spread over that whole range', () => {
    const random = seededRandom(1)
    const waits = Array.from({ length: 1_000 }, () => fullJitterMs(4, backoffLimits(undefined, 30_000), random.next()))
    expect(Math.min(...waits)).toBeLessThan(100)
    expect(Math.max(...waits)).toBeGreaterThan(7_900)
  })

  it('is at first only as wide as the bridge needs for its fleet', () => {
    const firstBoundS = (fleetSize: number) => fullJitterMs(1, backoffLimits(fleetSize, 30_000), 1) / 1_000
    expect([0, 1, 25, 100, 1_000, 10_000].map(firstBoundS)).toEqual([0.25, 0.25, 0.25, 0.4, 4, 40])
    // No announcement makes a device wait for hours.
    expect(firstBoundS(1e9)).toBe(300)
    // A fleet that needs longer than the longest wait keeps its spread.
    expect(fullJitterMs(9, backoffLimits(10_000, 30_000), 1)).toBe(40_000)
    expect(fullJitterMs(9, backoffLimits(1, 30_000), 1)).toBe(30_000)
  })
})

describe('a reconnector', () => {
  it('waits longer after each failed attempt', async () => {
    const { clock, attemptsAtMs, reconnector } = startReconnector()
    await turn()
    await clock.advance(20_000)
    expect(attemptsAtMs).toEqual([0, 500, 1_500, 3_500, 7_500, 15_500])
    await reconnector.stop()
  })

  it('connects at once when asked to retry, whatever the wait', async () => {
    const { clock, attemptsAtMs, world, reconnector, breakConnection } = startReconnector({ next: () => 0.999 })
    await turn()
    await clock.advance(100_000)
    const before = attemptsAtMs.length
    world.reachable = true
    await reconnector.retryNow()
    expect(attemptsAtMs.length).toBe(before + 1)
    expect(attemptsAtMs.at(-1)).toBe(100_000)
    const stopped = reconnector.stop()
    breakConnection()
    await stopped
  })

  it('does not wait longer because of attempts that applications requested', async () => {
    const { clock, attemptsAtMs, reconnector } = startReconnector()
    await turn()
    await clock.advance(16_000)
    // Its own attempts: 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s.
    const own = attemptsAtMs.length
    for (let i = 0; i < 10; i++) {
      await clock.advance(1_000)
      await reconnector.retryNow()
      await turn()
    }
    expect(attemptsAtMs.length).toBe(own + 10)
    await clock.advance(15_000)
    // A failed request counted as a failure would have begun a longer wait.
    expect(attemptsAtMs.slice(own + 10)).toEqual([30_500])
    await reconnector.stop()
  })

  it('attempts at most twice a second however often applications request it', async () => {
    const { clock, attemptsAtMs, reconnector } = startReconnector()
    await turn()
    await clock.advance(16_000)
    const before = attemptsAtMs.length
    for (let i = 0; i < 200; i++) {
      void reconnector.retryNow()
      await clock.advance(50)
      await turn()
    }
    expect(attemptsAtMs.length - before).toBeGreaterThanOrEqual(18)
    expect(attemptsAtMs.length - before).toBeLessThanOrEqual(22)
    await reconnector.stop()
  })

  it('returns faster to the bridge of a small fleet', async () => {
    const { clock, attemptsAtMs, reconnector } = startReconnector({ next: () => 0.999 }, 3)
    await turn()
    await clock.advance(4_000)
    expect(attemptsAtMs.map((at) => Math.round(at / 10) * 10)).toEqual([0, 250, 750, 1_750, 3_750])
    await reconnector.stop()
  })

  it('starts from the shortest wait after a connection that lasted', async () => {
    const { clock, attemptsAtMs, world, reconnector, breakConnection } = startReconnector()
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
    await reconnector.stop()
  })

  it('waits longer each time when connections close as soon as they are made', async () => {
    const { clock, attemptsAtMs, world, reconnector, breakConnection } = startReconnector()
    world.reachable = true
    await turn()
    for (let i = 0; i < 4; i++) {
      breakConnection()
      await turn()
      await clock.advance(500 * 2 ** i)
    }
    expect(attemptsAtMs.slice(1).map((at, i) => at - attemptsAtMs[i]!)).not.toContain(0)
    expect(attemptsAtMs.at(-1)! - attemptsAtMs.at(-2)!).toBeGreaterThanOrEqual(1_000)
    const stopped = reconnector.stop()
    breakConnection()
    await stopped
  })

  it('reconnects at once for a caller that learns of the end of the connection first', async () => {
    const { clock, attemptsAtMs, world, reconnector, breakConnection } = startReconnector()
    world.reachable = true
    await turn()
    await clock.advance(10_000)
    breakConnection()
    void reconnector.retryNow()
    await turn()
    expect(attemptsAtMs).toEqual([0, 500, 10_000])
    const stopped = reconnector.stop()
    breakConnection()
    await stopped
  })

  it('warns once for each reason that the other side is unreachable', async () => {
    const { clock, lines, attemptsAtMs, world, reconnector, breakConnection } = startReconnector()
    const warnings = () => lines.map(({ msg, err }) => [msg, (err as { message: string } | undefined)?.message])
    await turn()
    await clock.advance(60_000)
    const unreachable = 'test unreachable, retrying'
    expect(attemptsAtMs.length).toBeGreaterThan(5)
    expect(warnings()).toEqual([[unreachable, 'refused']])
    world.reason = 'of another release'
    await clock.advance(600_000)
    expect(warnings().slice(1)).toEqual([[unreachable, 'of another release']])
    world.reachable = true
    await clock.advance(600_000)
    world.reachable = false
    breakConnection()
    await turn()
    await clock.advance(60_000)
    expect(warnings().slice(2)).toEqual([
      ['test connection lost', undefined],
      [unreachable, 'of another release'],
    ])
    await reconnector.stop()
  })

  it('stops during a wait', async () => {
    const { clock, attemptsAtMs, reconnector } = startReconnector()
    await turn()
    await reconnector.stop()
    await clock.advance(1_000_000)
    expect(attemptsAtMs).toEqual([0])
  })
})
