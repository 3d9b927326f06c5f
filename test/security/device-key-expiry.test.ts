import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { IdentitiesOptions } from '../../cloud-bridge/identity/identities.ts'
import { newTestKey, openIdentityWorld } from '../support/identity-world.ts'

const dayMs = 86_400_000
const keys = { validMs: 360 * dayMs }
/** Renewal is due at some time from day 240 to day 270. */
const [notDue, due] = [239 * dayMs, 271 * dayMs]
beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 0, 1) }))
afterEach(() => void vi.useRealTimers())
const pass = (ms: number) => void vi.setSystemTime(Date.now() + ms)

/** A world with device `orin`, whose key begins to be valid on the first day. */
async function openWorld(options: Partial<IdentitiesOptions> = {}, renewsKey = true) {
  const world = openIdentityWorld({ keys, ...options })
  const key = newTestKey()
  await world.enrol('orin', key, world.token())
  const login = (by = key) => world.grantAccess('orin', by, undefined, renewsKey)
  await login()
  return { world, key, login, expiresAt: () => world.store.device('orin')?.keyExpiresAt }
}

describe('a device key', () => {
  it('expires, with a hint; an approval admits the device, whose key is then due for renewal', async () => {
    const { world, login, expiresAt } = await openWorld()
    using _ = world
    expect(expiresAt()).toBe('2026-12-27T00:00:00.000Z')
    pass(keys.validMs - 1_000)
    expect(await login()).toMatchObject({ renewKeyInS: 0 })
    pass(1_000)
    await expect(login()).rejects.toMatchObject({
      code: 'NOT_AUTHORIZED',
      message: expect.stringMatching(/"orin" expired at 2026-12-27/),
      hint: expect.stringContaining('brim device approve orin'),
    })
    world.store.approve('operator:test', 'orin')
    expect(await login()).toMatchObject({ renewKeyInS: 0 })
    expect(expiresAt()).toBe('2027-12-22T00:00:00.000Z')
  })

  it.each([
    ['of an agent that does not renew it', {}, false],
    ['at a bridge without expiry', { keys: { validMs: 0 } }, true],
  ])('%s does not expire', async (_, options, renewsKey) => {
    const { world, key, login, expiresAt } = await openWorld(options, renewsKey)
    using __ = world
    pass(10 * keys.validMs)
    expect((await login()).renewKeyInS).toBeUndefined()
    expect(expiresAt()).toBeNull()
    if (renewsKey) await expect(world.renewKey('orin', key, newTestKey())).rejects.toThrow(/not due/)
  })

  it('expires although a thief no longer promises to renew it', async () => {
    const { world, key } = await openWorld()
    using _ = world
    pass(keys.validMs)
    await expect(world.grantAccess('orin', key)).rejects.toThrow(/expired/)
  })

  it('on another machine is reported as a clone, not as expired', async () => {
    const { world, key } = await openWorld()
    using _ = world
    await world.grantAccess('orin', key, 'dmi 1')
    pass(keys.validMs)
    await expect(world.grantAccess('orin', key, 'dmi 2')).rejects.toMatchObject({ code: 'DEVICE_CLONED' })
  })

  it('gets no dates from a clock that is not set', async () => {
    using world = openIdentityWorld({ keys })
    const key = newTestKey()
    await world.enrol('orin', key, world.token())
    vi.setSystemTime(0)
    expect((await world.grantAccess('orin', key, undefined, true)).renewKeyInS).toBeUndefined()
    vi.setSystemTime(Date.UTC(2026, 0, 1))
    await world.grantAccess('orin', key, undefined, true)
    expect(world.store.device('orin')?.keyExpiresAt).toBe('2026-12-27T00:00:00.000Z')
  })
})

describe('the renewal of a device key', () => {
  it('keeps the grant, and voids the old key for good', async () => {
    const ended: string[] = []
    const { world, key, login, expiresAt } = await openWorld({ onGrantEnd: (device) => void ended.push(device) })
    using _ = world
    pass(due)
    const { token } = await login()
    const next = newTestKey()
    expect((await world.renewKey('orin', key, next)).renewKeyInS).toBeGreaterThan(notDue / 1_000)
    expect(expiresAt()).toBe('2027-09-24T00:00:00.000Z')
    await world.clock.advance(5_000)
    expect(world.grants.subjectOf(token)).toBe('device-orin')
    await login(next)
    expect(ended).toEqual([])
    await expect(login(key)).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
    await expect(world.renewKey('orin', key, newTestKey())).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
    for (const device of ['orin', 'thief'])
      await expect(world.enrol(device, key, world.token())).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    const renewals = world.store.audit(100).filter(({ action }) => action === 'device.key.renew')
    expect(renewals).toMatchObject([{ actor: 'device:orin', subject: 'orin' }])
    world.store.revoke('operator:test', 'orin')
    world.store.approve('operator:test', 'orin')
    await expect(login(key)).rejects.toThrow(/has not proven/)
  })

  it('is refused before it is due: each one is stored for good', async () => {
    const { world, key, login } = await openWorld()
    using _ = world
    pass(notDue)
    await expect(world.renewKey('orin', key, newTestKey())).rejects.toThrow(/not due/)
    await login()
  })

  it('needs the signatures of both keys, of the new one too', async () => {
    const { world, key, login } = await openWorld({ failedProofsPerMinute: 4 })
    using _ = world
    pass(due)
    const [next, other] = [newTestKey(), newTestKey()]
    const signature = other.sign(new Uint8Array(1))
    const attempts = [{ signature }, { newSignature: signature }, { publicKey: other.publicKey }, { hardware: 'dmi 1' }]
    for (const fields of attempts)
      await expect(world.renewKey('orin', key, next, fields)).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
    await expect(world.renewKey('orin', key, next, { signature })).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' })
    await login()
    await world.renewKey('orin', key, next)
  })

  it('is refused with a key that another device has or had, or one of small order', async () => {
    const { world, key } = await openWorld()
    using _ = world
    const other = newTestKey()
    await world.enrol('nano', other, world.token())
    pass(due)
    await expect(world.renewKey('orin', key, other)).rejects.toThrow(/"nano"/)
    await expect(world.renewKey('orin', key, key)).rejects.toThrow(/"orin"/)
    const weak = { publicKey: Buffer.alloc(32).toString('base64url'), sign: () => Buffer.alloc(64).toString('base64url') }
    await expect(world.renewKey('orin', key, weak)).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
  })

  it.each(['revoke', 'clone'])('is refused to a device after a %s', async (what) => {
    const { world, key } = await openWorld()
    using _ = world
    pass(due)
    if (what === 'revoke') world.store.revoke('operator:test', 'orin')
    else await world.grantAccess('orin', key, 'dmi 1')
    const code = what === 'revoke' ? 'NOT_AUTHORIZED' : 'DEVICE_CLONED'
    await expect(world.renewKey('orin', key, newTestKey())).rejects.toMatchObject({ code })
  })
})
