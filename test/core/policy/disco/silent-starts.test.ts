import { expect, it } from 'vitest'
import { createTtft } from '../../../../core/policy/disco/estimates.ts'
import { SilentStarts } from '../../../../core/policy/disco/silent-starts.ts'
import { remoteEstimate } from '../../../../core/policy/disco/start-estimates.ts'

it('takes a server for failed after three late starts in a row, until it has a first token', () => {
  const ttftMs = createTtft()
  for (let ms = 1; ms <= 100; ms++) ttftMs.record(10 * ms)
  const silence = new SilentStarts()
  const givenUp = (ms: number) => {
    silence.givenUp(ms, ttftMs)
    return silence.isFailed
  }
  // Given up early, which says nothing, or late.
  expect([2_000, 500, 2_000, 800, 2_000].map(givenUp)).toEqual([false, false, false, false, true])
  silence.firstToken()
  expect([silence.isFailed, givenUp(2_000)]).toEqual([false, false])
})

it('compares each late start with those before the first of them, however few there were', () => {
  const own = createTtft()
  for (let at = 0; at < 5; at++) own.record(20)
  const silence = new SilentStarts()
  for (let at = 0; at < 3; at++) {
    expect(silence.isFailed).toBe(false)
    remoteEstimate({ starts: own, silence }).canceled(500, 10)
  }
  expect(silence.isFailed).toBe(true)
})
