import { expect, it } from 'vitest'
import { AccessTokens } from '../../../cloud-bridge/identity/access-tokens.ts'
import { Grants } from '../../../cloud-bridge/identity/grants.ts'
import { SealKeys } from '../../../cloud-bridge/identity/seal-keys.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const dayMs = 24 * 3_600_000

it('what a key has sealed is good until the second replacement of the key', async () => {
  const clock = fakeClock()
  const keys = new SealKeys(clock)
  const [first, same] = [keys.seal('a'), keys.seal('a')]
  expect(same).toEqual(first)
  await clock.advance(dayMs)
  const second = keys.seal('a')
  expect(second).not.toEqual(first)
  expect([first, second, keys.seal('b')].map((seal) => keys.isGood('a', seal))).toEqual([true, true, false])
  await clock.advance(dayMs)
  keys.seal('a')
  expect([first, second].map((seal) => keys.isGood('a', seal))).toEqual([false, true])
})

it('a token outlives the replacement of its key, and the password of the bridge outlives all', async () => {
  const clock = fakeClock()
  const tokens = new AccessTokens(clock)
  await clock.advance(dayMs - 60_000)
  const token = tokens.mint('device-1', 'grant', 15 * 60_000)
  await clock.advance(120_000)
  tokens.mint('device-2', 'grant', 15 * 60_000)
  expect(tokens.read(token)).toEqual({ subject: 'device-1', grant: 'grant' })
  await clock.advance(14 * 60_000)
  expect(tokens.read(token)).toBeUndefined()

  const store = {
    device: () => undefined,
    approvedKeys: () => new Map<string, string>(),
    version: () => '',
    keyOf: () => undefined,
  }
  const grants = new Grants({ store, bridge: 'bridge-1', authRequired: true, clock })
  await clock.advance(9 * dayMs)
  expect(grants.subjectOf(grants.ownToken)).toBe('bridge-bridge-1')
  expect(grants.subjectOf(`${grants.ownToken}x`)).toBeUndefined()
})
