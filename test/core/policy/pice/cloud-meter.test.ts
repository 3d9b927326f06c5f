import { expect, it } from 'vitest'
import { CloudMeter } from '../../../../core/policy/pice/cloud-meter.ts'

/** Answers one after the other: a second to the first tokens, then so many tokens every `count` tenths of a second. */
function metered(count: number, answers = 20) {
  const meter = new CloudMeter()
  let nowMs = 0
  for (let at = 0; at < answers; at += 1) {
    const answer = meter.begin(nowMs)
    nowMs += 1_000
    answer.tokens(count, nowMs)
    for (let tokens = count; tokens < 40; tokens += count) {
      nowMs += 100 * count
      answer.tokens(count, nowMs)
    }
    answer.ended()
  }
  return meter
}

it('measures the same speed whether tokens come one by one or several at once', () => {
  for (const count of [1, 2, 8]) {
    const { speed } = metered(count)
    expect([speed!.waitS, speed!.slots]).toEqual([0, 1])
    expect(speed!.ttftS).toBeCloseTo(1, 6)
    expect(speed!.tpotS).toBeCloseTo(0.1, 6)
  }
})

it('knows nothing before the second token, and of no time in which the reader was the slower one', () => {
  const meter = new CloudMeter()
  const answer = meter.begin(0)
  answer.tokens(1, 1_000)
  expect(meter.speed).toBeUndefined()
  // Asked for 9 s after the first, and there at once.
  answer.asked(10_000)
  answer.tokens(1, 10_010)
  expect(meter.speed).toBeUndefined()
  answer.tokens(1, 10_110)
  answer.ended()
  expect(meter.speed!.tpotS).toBeCloseTo(0.1, 6)
})

it('says how long the next answer would wait behind others', () => {
  const meter = metered(1)
  const [first, ...waiting] = [0, 0, 0].map(() => meter.begin(100_000))
  first!.tokens(1, 101_000)
  const before = meter.speed!.waitS
  waiting[0]!.tokens(1, 103_000)
  // Two seconds between two first tokens; one waits, and the next one behind it.
  expect(meter.speed!.waitS).toBeCloseTo(4, 6)
  expect(before).toBe(0)
  waiting[1]!.ended()
  expect(meter.speed!.waitS).toBe(0)
})

it('counts as places the answers beyond which it writes hardly more', () => {
  // Up to four are written as fast as one; more share the time of four.
  const tpotMs = (running: number) => 20 * Math.max(1, running / 4)
  for (const most of [1, 4, 32]) {
    const meter = new CloudMeter()
    let nowMs = 0
    for (let running = 1; running <= most; running += 1) {
      const answers = Array.from({ length: running }, () => meter.begin(nowMs))
      for (const each of answers) each.tokens(1, nowMs)
      for (let step = 0; step < 5; step += 1) {
        nowMs += tpotMs(running)
        for (const each of answers) each.tokens(1, nowMs)
      }
      for (const each of answers) each.ended()
    }
    expect(meter.speed!.slots).toBe(Math.min(4, most))
  }
})
