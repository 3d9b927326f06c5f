import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  believedOffMs,
  type ClockReading,
  confirmMs,
  type SteadyTime,
  SteadyWallClock,
  steadyTimeAfter,
  toleranceMs,
} from '../../../../core/kit/base/steady-wall-clock.ts'

const startMs = Date.UTC(2026, 5, 1)
const hourMs = 3_600_000

/** A machine whose clock is off by what the test says. @param restarts whether the time is stored and read between two readings */
function machine(restarts = false) {
  let passedMs = 0
  let boot = 'first'
  let bootedMs = 0
  let time: SteadyTime | undefined
  return {
    /** @returns the steady time's error */
    after(ms: number, clockErrorMs = 0): number {
      passedMs += ms
      const stored = time && restarts ? (JSON.parse(JSON.stringify(time)) as SteadyTime) : time
      time = steadyTimeAfter(stored, { wallMs: startMs + passedMs + clockErrorMs, upMs: passedMs - bootedMs, boot })
      return time.ms - startMs - passedMs
    },
    reboot(id: string) {
      boot = id
      bootedMs = passedMs
    },
  }
}

const jumps = fc.array(
  fc.record({
    passedMs: fc.integer({ min: 0, max: hourMs }),
    errorMs: fc.integer({ min: -20 * 365 * 24 * hourMs, max: 20 * 365 * 24 * hourMs }),
    forMs: fc.integer({ min: 0, max: confirmMs - 1 }),
  }),
  { maxLength: 20 },
)

describe.each([{ restarts: false }, { restarts: true }])('with restarts of the process: $restarts', ({ restarts }) => {
  it('passes as real time does while the clock jumps ahead and back again, however far and often', () => {
    fc.assert(
      fc.property(jumps, (list) => {
        const clock = machine(restarts)
        clock.after(0)
        for (const { passedMs, errorMs, forMs } of list) {
          const errors = [clock.after(passedMs), clock.after(0, errorMs), clock.after(forMs, errorMs), clock.after(0)]
          expect(errors.every((ms) => Math.abs(ms) <= toleranceMs)).toBe(true)
        }
      }),
      {
        examples: [
          [[{ passedMs: 1_000, errorMs: hourMs, forMs: 3_000 }]],
          [[{ passedMs: 1_000, errorMs: -hourMs, forMs: 3_000 }]],
        ],
      },
    )
  })
})

it('believes a clock that has stayed where it jumped to', () => {
  for (const jumpMs of [hourMs, -hourMs]) {
    const clock = machine()
    clock.after(0)
    expect(clock.after(1_000, jumpMs)).toBe(0)
    expect(clock.after(confirmMs - 1, jumpMs)).toBe(0)
    expect(clock.after(1, jumpMs)).toBe(jumpMs)
    expect(clock.after(hourMs, jumpMs)).toBe(jumpMs)
  }
})

it('is not taken ahead by many small steps', () => {
  const clock = machine()
  clock.after(0)
  const errors = Array.from({ length: 1_000 }, (_, i) => clock.after(100, i * (toleranceMs / 2)))
  expect(Math.max(...errors)).toBeLessThanOrEqual(toleranceMs)
})

it('never goes back while no clock that was set back has stood', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(10_000), fc.integer({ min: -5_000, max: 5_000 })), { maxLength: 50 }), (steps) => {
      const clock = machine()
      let passedMs = 0
      let beforeMs = Number.NEGATIVE_INFINITY
      for (const [ms, errorMs] of steps) {
        passedMs += ms
        const nowMs = passedMs + clock.after(ms, errorMs)
        expect(nowMs).toBeGreaterThanOrEqual(beforeMs)
        beforeMs = nowMs
      }
    }),
  )
})

describe('after a restart of the machine', () => {
  it('counts the time that it was off for', () => {
    const clock = machine()
    clock.after(0)
    clock.reboot('second')
    expect(clock.after(8 * hourMs)).toBe(0)
  })

  it('doubts a clock that is further ahead than a machine is plausibly off, until it has stood', () => {
    const clock = machine()
    clock.after(0)
    clock.reboot('second')
    const aheadMs = believedOffMs + hourMs
    expect(clock.after(1_000, aheadMs)).toBe(-1_000)
    expect(clock.after(3_000, 0)).toBe(0)
    expect(clock.after(1_000, aheadMs)).toBe(-1_000)
    expect(clock.after(confirmMs, aheadMs)).toBe(aheadMs)
  })

  it('continues from the stored time where the clock was lost, until it is set', () => {
    const clock = machine()
    clock.after(0)
    clock.reboot('second')
    const lostMs = -startMs
    expect(clock.after(1_000, lostMs)).toBe(-1_000)
    expect(clock.after(2 * confirmMs, lostMs)).toBe(-1_000)
    expect(clock.after(0)).toBe(0)
  })
})

it("passes where a container starts again: its uptime begins anew, and the id of the start is the host's", () => {
  for (const restarts of [false, true]) {
    const clock = machine(restarts)
    clock.after(0)
    clock.reboot('first')
    clock.after(90 * 24 * hourMs)
    clock.after(1_000, believedOffMs + hourMs)
    clock.after(confirmMs, believedOffMs + hourMs)
    expect(clock.after(hourMs)).toBe(believedOffMs + hourMs)
    clock.reboot('first')
    expect(clock.after(hourMs, believedOffMs + hourMs)).toBe(believedOffMs + hourMs)
    expect(clock.after(hourMs, believedOffMs + hourMs)).toBe(believedOffMs + hourMs)
  }
})

it('passes where a container starts again at a higher uptime than its service did before', () => {
  const clock = machine()
  clock.after(10_000)
  clock.after(20 * 24 * hourMs)
  clock.reboot('first')
  expect(clock.after(11_000)).toBe(0)
  expect(clock.after(hourMs)).toBe(0)
})

it('follows a clock that is set for the first time', () => {
  const clock = machine()
  expect(clock.after(0, -startMs)).toBe(-startMs)
  expect(clock.after(1_000)).toBe(0)
})

describe('the events of a clock', () => {
  const at = (upMs: number, errorMs = 0, boot = 'first'): ClockReading => ({ wallMs: startMs + upMs + errorMs, upMs, boot })

  function watched(stored?: SteadyTime) {
    let reading = at(0)
    const events: unknown[] = []
    const open = (first: ClockReading) => {
      reading = first
      const options = { read: () => reading, stored, onDoubt: (gapMs: number) => events.push(gapMs) }
      return new SteadyWallClock({ ...options, onBelieved: (jump) => events.push(jump) })
    }
    return {
      events,
      open,
      nowMs(clock: SteadyWallClock, then: ClockReading) {
        reading = then
        return clock.nowMs() - startMs
      },
    }
  }

  it('tell when a doubt begins, and that the clock is back', () => {
    const { events, open, nowMs } = watched()
    const clock = open(at(0))
    expect([at(1_000), at(2_000, hourMs), at(5_000, hourMs), at(6_000)].map((then) => nowMs(clock, then))).toEqual([
      1_000, 2_000, 5_000, 6_000,
    ])
    expect(events).toEqual([hourMs, 0])
  })

  it('tell that a jump is believed, and that all stored times are on the old scale', () => {
    const { events, open, nowMs } = watched()
    const clock = open(at(0))
    nowMs(clock, at(1_000, hourMs))
    expect(nowMs(clock, at(1_000 + confirmMs, hourMs))).toBe(1_000 + confirmMs + hourMs)
    expect(events).toEqual([hourMs, { gapMs: hourMs, sinceMs: Number.NEGATIVE_INFINITY }])
  })

  it('tell, after a restart of the machine, that only later times are on the old scale', () => {
    const yearMs = 365 * 24 * hourMs
    const { events, open, nowMs } = watched(steadyTimeAfter(undefined, at(0)))
    const jumped = at(1_000, yearMs, 'second')
    const clock = open(jumped)
    expect(nowMs(clock, jumped)).toBe(0)
    expect(nowMs(clock, at(1_000 + confirmMs, yearMs, 'second'))).toBe(1_000 + confirmMs + yearMs)
    expect(events).toEqual([yearMs + 1_000, { gapMs: yearMs + 1_000, sinceMs: startMs }])
  })
})
