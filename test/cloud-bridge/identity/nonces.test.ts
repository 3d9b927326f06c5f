import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { Nonces } from '../../../cloud-bridge/identity/nonces.ts'
import { fakeClock } from '../../support/fake-clock.ts'

it('a nonce is valid for a minute and until it is spent, however many others are issued', async () => {
  const clock = fakeClock(123_456.7)
  const nonces = new Nonces(clock)
  const [first, second] = [nonces.issue(), nonces.issue()]
  for (let i = 0; i < 20_000; i++) nonces.issue()
  expect([first, second].map((nonce) => nonces.isGood(nonce))).toEqual([true, true])
  nonces.spend(first)
  expect([first, second].map((nonce) => nonces.isGood(nonce))).toEqual([false, true])
  await clock.advance(30_000)
  const third = nonces.issue()
  nonces.spend(third)
  await clock.advance(30_000)
  nonces.spend(nonces.issue())
  expect([first, second, third].map((nonce) => nonces.isGood(nonce))).toEqual([false, false, false])
})

it('a nonce is valid only at the bridge that has issued it', () => {
  const [clock, strange] = [fakeClock(), new Nonces(fakeClock()).issue()]
  const nonces = new Nonces(clock)
  const own = nonces.issue()
  const later = Buffer.from(own, 'base64url')
  later[5] = 99
  for (const nonce of ['', strange, randomBytes(32).toString('base64url'), later.toString('base64url'), own.slice(0, 22)])
    expect(nonces.isGood(nonce)).toBe(false)
  expect(nonces.isGood(own)).toBe(true)
})
