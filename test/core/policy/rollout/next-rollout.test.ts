import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextRollout } from '../../../../core/policy/rollout/next-rollout.ts'
import {
  type DeviceOutcome,
  deviceOutcomes,
  devicesUnderWay,
  endedDevices,
  newRollout,
  type RolloutEvent,
  type RolloutState,
  type RolloutTerms,
} from '../../../../core/policy/rollout/rollout.ts'
import { rateOf } from '../../../../core/policy/rollout/start-rate.ts'

const terms: RolloutTerms = {
  ratePerMinute: 10,
  growth: 1,
  first: 0,
  pauseAfterFirst: false,
  abortAbovePercent: 100,
  abortAfter: 1,
}

/** A rollout whose devices are as the bridge would store them. */
function simulate(given: Partial<RolloutTerms>, devices: number) {
  let rollout: RolloutState = newRollout({ ...terms, ...given }, devices)
  const states = Array.from({ length: devices }, () => 'waiting')
  /** Places of the devices that have succeeded and are watched. */
  let watched: number[] = []
  const starts: { atMs: number; place: number; rate: number }[] = []
  const world = {
    states,
    starts,
    get watched() {
      return watched
    },
    get rollout() {
      return rollout
    },
    set(from: string, to: string, place: number) {
      expect(states[place]).toBe(from)
      states[place] = to
    },
    on(event: RolloutEvent, nowMs = 0) {
      const before = rollout
      const { rollout: after, actions } = nextRollout(before, event, nowMs)
      rollout = after
      for (const action of actions) {
        if (action.kind === 'cancel') continue
        const places = action.kind === 'start' ? range(action.from, action.from + action.count) : range(action.from, devices)
        for (const place of places) {
          world.set('waiting', action.kind === 'start' ? 'started' : 'skipped', place)
          if (action.kind === 'start') starts.push({ atMs: nowMs, place, rate: rateOf(before.terms, before.outcomes.succeeded) })
        }
      }
      return actions
    },
    /** The device that started first, of those under way, ends; the watch over it is over at once. */
    end(outcome: DeviceOutcome, nth = 0) {
      const hasEnded = world.report(outcome, nth)
      if (hasEnded && outcome === 'succeeded') world.endWatch('soaked', watched.length - 1)
      return hasEnded
    },
    /** It ends; where it has succeeded, it is watched. */
    report(outcome: DeviceOutcome, nth = 0) {
      const places = states.flatMap((state, place) => (state === 'started' ? [place] : []))
      const place = places[nth % places.length]
      if (place === undefined) return false
      world.set('started', outcome, place)
      if (outcome === 'succeeded') watched.push(place)
      world.on({ kind: 'ended', outcome })
      return true
    },
    endWatch(kind: 'soaked' | 'lost', nth = 0) {
      const place = watched[nth % watched.length]
      if (place === undefined) return
      watched = watched.filter((other) => other !== place)
      if (kind === 'lost') world.set('succeeded', 'failed', place)
      world.on({ kind })
    },
  }
  return world
}
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at)

const anyTerms: fc.Arbitrary<RolloutTerms> = fc.record({
  ratePerMinute: fc.integer({ min: 1, max: 200 }),
  growth: fc.double({ min: 1, max: 4, noNaN: true }),
  first: fc.integer({ min: 0, max: 12 }),
  pauseAfterFirst: fc.boolean(),
  abortAbovePercent: fc.integer({ min: 0, max: 100 }),
  abortAfter: fc.integer({ min: 1, max: 20 }),
})
const anyMove = fc.oneof(
  { weight: 60, arbitrary: fc.record({ kind: fc.constant('tick' as const), afterMs: fc.integer({ min: 0, max: 20_000 }) }) },
  {
    weight: 80,
    arbitrary: fc.record({
      kind: fc.constant('ended' as const),
      outcome: fc.constantFrom('succeeded', 'succeeded', 'succeeded', 'failed', 'canceled', 'skipped'),
      nth: fc.nat(50),
    }),
  },
  {
    weight: 60,
    arbitrary: fc.record({ kind: fc.constantFrom('soaked' as const, 'soaked' as const, 'lost' as const), nth: fc.nat(50) }),
  },
  { weight: 10, arbitrary: fc.record({ kind: fc.constantFrom('pause' as const, 'resume' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('abort' as const) }) },
)

describe('any course of a rollout', () => {
  it('keeps to its rate, its first group and its limit, and ends each device once', () => {
    fc.assert(
      fc.property(anyTerms, fc.integer({ min: 1, max: 60 }), fc.array(anyMove, { maxLength: 120 }), (given, devices, moves) => {
        const world = simulate(given, devices)
        let nowMs = 1_000_000
        for (const move of moves) {
          const before = world.rollout
          if (move.kind === 'tick') {
            nowMs += move.afterMs
            world.on({ kind: 'tick' }, nowMs)
          } else if (move.kind === 'ended') world.report(move.outcome as DeviceOutcome, move.nth)
          else if (move.kind === 'soaked' || move.kind === 'lost') world.endWatch(move.kind, move.nth)
          else if (move.kind === 'resume') world.on({ kind: 'resume' })
          else world.on({ kind: move.kind, reason: 'by hand' })
          const { rollout, states } = world
          // What is counted is what the devices are.
          for (const outcome of deviceOutcomes)
            expect(rollout.outcomes[outcome]).toBe(states.filter((state) => state === outcome).length)
          expect(devicesUnderWay(rollout)).toBe(states.filter((state) => state === 'started').length)
          expect(rollout.soaking).toBe(world.watched.length)
          if (rollout.state === 'completed' || (!before.isFirstPassed && rollout.isFirstPassed)) expect(rollout.soaking).toBe(0)
          // A rollout that has ended stays so, and starts nothing.
          if (before.state === 'aborted' || before.state === 'completed') expect(rollout.state).toBe(before.state)
          if (rollout.state !== 'running') expect(rollout.recentStarts).toEqual(before.recentStarts)
          if (rollout.state === 'completed') expect(endedDevices(rollout)).toBe(devices)
          // Aborted by itself exactly where the share is above the limit.
          const { succeeded, failed } = rollout.outcomes
          const isAbove =
            succeeded + failed >= given.abortAfter && failed > (given.abortAbovePercent / 100) * (succeeded + failed)
          const wasOpen = before.state === 'running' || before.state === 'paused'
          if (wasOpen && (move.kind === 'ended' || move.kind === 'lost')) expect(rollout.state === 'aborted').toBe(isAbove)
        }
        for (const { atMs, rate } of world.starts) {
          const within = world.starts.filter((start) => start.atMs > atMs - 60_000 && start.atMs <= atMs)
          expect(within.length).toBeLessThanOrEqual(Math.floor(rate))
        }
        if (!world.rollout.isFirstPassed) expect(world.starts.every(({ place }) => place < given.first)).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  it('every device has ended once all have been given the time', () => {
    fc.assert(
      fc.property(anyTerms, fc.integer({ min: 1, max: 40 }), (given, devices) => {
        const world = simulate(given, devices)
        for (let minute = 0; world.rollout.state === 'running' || world.rollout.state === 'paused'; minute++) {
          expect(minute).toBeLessThan(3 * devices + 3)
          for (let tenth = 0; tenth < 10; tenth++) world.on({ kind: 'tick' }, minute * 60_000 + tenth * 6_000)
          while (world.end(minute % 3 === 0 ? 'failed' : 'succeeded'));
          world.on({ kind: 'resume' })
        }
        while (world.end('canceled'));
        expect(endedDevices(world.rollout)).toBe(devices)
        expect(world.states).not.toContain('waiting')
      }),
      { numRuns: 100 },
    )
  })
})

describe('the first group', () => {
  it('holds the others back until all of it have ended', () => {
    const world = simulate({ first: 2, ratePerMinute: 600 }, 20)
    world.on({ kind: 'tick' }, 1_000)
    world.end('succeeded')
    world.on({ kind: 'tick' }, 30_000)
    expect(world.rollout.next).toBe(2)
    world.end('succeeded')
    world.on({ kind: 'tick' }, 60_000)
    expect(world.rollout.next).toBe(20)
  })

  it('holds them back until it has stayed healthy after its success, and pauses the rollout where a device of it is lost', () => {
    const world = simulate({ first: 2, ratePerMinute: 600 }, 20)
    world.on({ kind: 'tick' }, 1_000)
    world.report('succeeded')
    world.report('succeeded')
    world.endWatch('soaked')
    world.on({ kind: 'tick' }, 30_000)
    expect(world.rollout).toMatchObject({ state: 'running', next: 2, soaking: 1 })
    world.endWatch('soaked')
    world.on({ kind: 'tick' }, 60_000)
    expect(world.rollout.next).toBe(20)

    const lost = simulate({ first: 2 }, 20)
    lost.on({ kind: 'tick' }, 1_000)
    lost.on({ kind: 'tick' }, 30_000)
    for (let device = 0; device < 2; device++) lost.report('succeeded')
    lost.endWatch('lost')
    lost.endWatch('soaked')
    expect(lost.rollout).toMatchObject({ state: 'paused', reason: '1 of 2 devices of the first group did not succeed' })
  })

  it('goes on where its watch ended while the bridge was off', () => {
    const world = simulate({ first: 1 }, 3)
    world.on({ kind: 'tick' }, 1_000)
    world.report('succeeded')
    const { rollout } = nextRollout({ ...world.rollout, soaking: 0 }, { kind: 'tick' }, 60_000)
    expect(rollout).toMatchObject({ isFirstPassed: true, next: 2 })
    const ended = { ...rollout, state: 'paused' as const, next: 3, outcomes: { ...rollout.outcomes, succeeded: 3 } }
    expect(nextRollout(ended, { kind: 'tick' }, 90_000).rollout.state).toBe('completed')
  })

  it('pauses the rollout where that was asked for, and where one of it fails', () => {
    const gated = simulate({ first: 1, pauseAfterFirst: true }, 3)
    gated.on({ kind: 'tick' }, 1_000)
    gated.end('succeeded')
    expect(gated.rollout).toMatchObject({ state: 'paused', reason: 'the first group has ended' })
    gated.on({ kind: 'resume' })
    gated.on({ kind: 'tick' }, 60_000)
    expect(gated.rollout).toMatchObject({ state: 'running', next: 2 })

    for (const outcome of ['failed', 'canceled', 'skipped'] as const) {
      const failed = simulate({ first: 1 }, 3)
      failed.on({ kind: 'tick' }, 1_000)
      failed.end(outcome)
      expect(failed.rollout).toMatchObject({ state: 'paused', reason: '1 of 1 devices of the first group did not succeed' })
    }
  })

  it('an operator who pauses before it has ended still has to resume after it', () => {
    const world = simulate({ first: 2, pauseAfterFirst: true, ratePerMinute: 60 }, 4)
    world.on({ kind: 'tick' }, 1_000)
    world.end('succeeded')
    world.on({ kind: 'pause', reason: 'lunch' })
    world.on({ kind: 'resume' })
    expect(world.rollout.isFirstPassed).toBe(false)
    world.end('succeeded')
    expect(world.rollout.state).toBe('paused')
  })
})

it('grows once as many devices have succeeded as start in a minute', () => {
  const rate = (succeeded: number) => rateOf({ ratePerMinute: 10, growth: 2 }, succeeded)
  expect([0, 9, 10, 29, 30, 70].map(rate)).toEqual([10, 10, 20, 20, 40, 80])
  expect(rateOf({ ratePerMinute: 5, growth: 1 }, 10_000)).toBe(5)
  expect(rateOf({ ratePerMinute: 5_000, growth: 10 }, 100_000)).toBe(10_000)
})

it('goes on after the clock was set back', () => {
  const world = simulate({ ratePerMinute: 1 }, 3)
  world.on({ kind: 'tick' }, 3_600_000)
  world.on({ kind: 'tick' }, 1_000)
  expect(world.rollout.next).toBe(2)
})

it('aborts exactly above the share, once enough devices have ended', () => {
  const world = simulate({ abortAbovePercent: 25, abortAfter: 4, ratePerMinute: 600 }, 40)
  world.on({ kind: 'tick' }, 1_000)
  for (const outcome of ['failed', 'succeeded', 'succeeded', 'succeeded'] as const) world.end(outcome)
  expect(world.rollout.state).toBe('running')
  world.end('failed')
  expect(world.rollout).toMatchObject({ state: 'aborted', reason: '2 of 5 devices failed, more than 25 %' })
  world.end('succeeded')
  expect(world.rollout).toMatchObject({ state: 'aborted', outcomes: { succeeded: 4, failed: 2, skipped: 0 } })
})

it('is completed once the last device has stayed healthy, and aborted by devices that were lost after their success', () => {
  const world = simulate({ abortAbovePercent: 25, abortAfter: 2, ratePerMinute: 600 }, 4)
  world.on({ kind: 'tick' }, 1_000)
  for (let device = 0; device < 4; device++) world.report('succeeded')
  expect(world.rollout).toMatchObject({ state: 'running', soaking: 4 })
  world.endWatch('lost')
  expect(world.rollout).toMatchObject({ state: 'running', outcomes: { succeeded: 3, failed: 1 } })
  world.endWatch('lost')
  expect(world.rollout).toMatchObject({ state: 'aborted', reason: '2 of 4 devices failed, more than 25 %' })
})

it('counts no outcome of a device that has not started', () => {
  const world = simulate({}, 3)
  world.on({ kind: 'ended', outcome: 'failed' })
  expect(world.rollout).toEqual(newRollout(terms, 3))
})
