import { describe, expect, it } from 'vitest'
import { newTestKey, openIdentityWorld } from '../support/identity-world.ts'

const attacker = '192.0.2.7'

describe('guesses at enrolment tokens', () => {
  it('are refused for a minute, while a device behind the same address enrols with a real one', async () => {
    using world = openIdentityWorld({ failedProofsPerMinute: 5 })
    const guess = (from: string) => world.enrol('thief', newTestKey(), 'guess', {}, from)
    for (let n = 0; n < 5; n++) await expect(guess(attacker)).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    await expect(guess(attacker)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED', retryAfterMs: 60_000 })
    const device = newTestKey()
    await expect(world.enrol('orin', device, world.token(), {}, attacker)).resolves.toMatchObject({ status: 'approved' })
    await expect(guess('192.0.2.8')).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    await world.clock.advance(60_000)
    await expect(guess(attacker)).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
  })

  it('are counted by network: an IPv6 client has more addresses than it can use', async () => {
    using world = openIdentityWorld({ failedProofsPerMinute: 5 })
    const guess = (n: number) => world.enrol('thief', newTestKey(), 'guess', {}, `2001:db8::${n}`)
    for (let n = 0; n < 5; n++) await expect(guess(n)).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    await expect(guess(9)).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' })
  })

  it('with one token, such as guesses at names, do not lock out another token', async () => {
    using world = openIdentityWorld({ failedProofsPerMinute: 5 })
    const [own, other] = [world.token(), world.token()]
    await world.enrol('orin', newTestKey(), other)
    const probe = () => world.enrol('orin', newTestKey(), own, {}, attacker)
    for (let n = 0; n < 5; n++) await expect(probe()).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    await expect(probe()).rejects.toMatchObject({ code: 'QUOTA_EXCEEDED' })
    await expect(world.enrol('nano', newTestKey(), other, {}, attacker)).resolves.toBeDefined()
  })
})

describe('the clone check', () => {
  it.each([
    ['names no machine', undefined, /names no machine/],
    ['names its machine by another source', 'mac 02:00:00:00:00:01', /two machines/],
  ])('is not skipped by a device that %s once it is bound', async (_, hardware, message) => {
    using world = openIdentityWorld()
    const key = newTestKey()
    await world.enrol('orin', key, world.token())
    await world.grantAccess('orin', key)
    await world.grantAccess('orin', key, 'device-tree 1421')
    await expect(world.grantAccess('orin', key, hardware)).rejects.toMatchObject({
      code: 'DEVICE_CLONED',
      message: expect.stringMatching(message),
      hint: expect.stringContaining('brim device approve orin'),
    })
    await world.grantAccess('orin', key, 'device-tree 1421')
    world.store.approve('operator:test', 'orin')
    await world.grantAccess('orin', key, hardware)
  })

  it('names one other machine, however many a copied key claims', async () => {
    using world = openIdentityWorld()
    const key = newTestKey()
    await world.enrol('orin', key, world.token())
    await world.grantAccess('orin', key, 'dmi 0')
    for (let n = 1; n < 20; n++) await expect(world.grantAccess('orin', key, `dmi ${n}`)).rejects.toThrow()
    expect(world.store.devices()).toMatchObject([{ hardware: 'dmi 0', clone: 'dmi 1' }])
    expect(world.store.audit(100).filter(({ action }) => action === 'device.cloned')).toHaveLength(1)
  })
})
