import { expect, it } from 'vitest'
import { DrainRate } from '../../../../core/policy/serving/drain-rate.ts'

it('is unknown as long as the client takes tokens as soon as they are made', () => {
  const drain = new DrainRate()
  for (let at = 0; at < 1_000; at += 100) drain.take(1, at % 3, at)
  expect(drain.tokensPerS).toBeUndefined()
})

it('follows from how long the client was busy with its last tokens', () => {
  const drain = new DrainRate()
  drain.take(4, 0, 0)
  drain.take(20, 20, 1_000)
  expect(drain.tokensPerS).toBeCloseTo(4)
  // It waited for tokens in between, which tells nothing.
  drain.take(8, 0, 60_000)
  drain.take(9, 9, 62_000)
  expect(drain.tokensPerS).toBeCloseTo(4)
})

it('stays unknown where no time has passed', () => {
  const drain = new DrainRate()
  drain.take(9, 9, 5)
  drain.take(9, 9, 5)
  expect(drain.tokensPerS).toBeUndefined()
})
