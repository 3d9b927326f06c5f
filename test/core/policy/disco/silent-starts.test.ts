import { expect, it } from 'vitest'
import { createTtft } from '../../../../core/policy/disco/estimates.ts'
import { SilentStarts } from '../../../../core/policy/disco/silent-starts.ts'

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
