import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { openDeviceKey } from '../../cloud-bridge/identity/device-key.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { identityTables } from '../../cloud-bridge/identity/tables.ts'
import { newTestKey, openIdentityWorld, type TestKey } from '../support/identity-world.ts'
import { tempDir } from '../support/temp-dir.ts'

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
/** The same 32 bytes in base64url, with other unused bits in the last character. */
const respelled = (text: string, unusedBits = 1) => text.slice(0, -1) + alphabet[alphabet.indexOf(text.at(-1)!) + unusedBits]!
const actor = 'operator:test'

describe('a revoked key', () => {
  it('does not enrol again under another spelling of base64url', async () => {
    using world = openIdentityWorld()
    const key = newTestKey()
    await world.enrol('orin', key, world.token())
    world.store.revoke(actor, 'orin')
    await expect(world.enrol('orin', key, world.token())).rejects.toMatchObject({ code: 'ENROLL_REFUSED' })
    for (const unusedBits of [1, 2, 3])
      for (const device of ['orin', 'other'])
        await expect(
          world.enrol(device, { ...key, publicKey: respelled(key.publicKey, unusedBits) }, world.token()),
        ).rejects.toThrow()
    expect(world.store.devices().map(({ device, status }) => [device, status])).toEqual([['orin', 'revoked']])
  })

  it('stays revoked after another key has taken its name', async () => {
    using world = openIdentityWorld()
    const [stolen, next] = [newTestKey(), newTestKey()]
    await world.enrol('orin', stolen, world.token())
    world.store.revoke(actor, 'orin')
    await world.enrol('orin', next, world.token())
    await expect(world.enrol('thief', stolen, world.token())).rejects.toMatchObject({
      code: 'ENROLL_REFUSED',
      hint: expect.stringContaining('reset-identity'),
    })
  })
})

/** Little-endian y coordinates of the points whose order divides 8; either sign bit. */
const smallOrder = [
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
]
/** The same points with y + p in place of y, where it fits into 255 bits. */
const notReduced = [
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]
const withSignBit = (hex: string) => hex.slice(0, -2) + (Number.parseInt(hex.slice(-2), 16) | 0x80).toString(16)

describe('a public key of small order', () => {
  it('does not enrol, though one signature fits every message', async () => {
    using world = openIdentityWorld()
    const identity = Buffer.from(smallOrder[1]!, 'hex')
    // R is the neutral element and S is 0.
    const signature = Buffer.concat([identity, Buffer.alloc(32)]).toString('base64url')
    const weak: TestKey = { publicKey: identity.toString('base64url'), sign: () => signature }
    await expect(world.enrol('weak', weak, world.token())).rejects.toMatchObject({ code: 'NOT_AUTHORIZED' })
    expect(world.store.devices()).toEqual([])
  })

  it.each([...smallOrder, ...notReduced].flatMap((hex) => [hex, withSignBit(hex)]))('%s is no key', (hex) => {
    expect(openDeviceKey(Buffer.from(hex, 'hex').toString('base64url'))).toBeUndefined()
  })

  it('differs from a good key, whose signatures have one spelling', () => {
    const key = newTestKey()
    const [message, opened] = [Buffer.from('message'), openDeviceKey(key.publicKey)!]
    const signature = key.sign(message)
    expect(opened.hasSigned(message, signature)).toBe(true)
    expect(opened.hasSigned(Buffer.from('another'), signature)).toBe(false)
    expect(opened.hasSigned(message, respelled(signature))).toBe(false)
    expect(opened.hasSigned(message, `${signature}==`)).toBe(false)
    expect(openDeviceKey(respelled(key.publicKey))).toBeUndefined()
  })
})

describe('keys stored by an earlier release', () => {
  it('have one spelling: another waits for approval, and that of a known key is revoked', () => {
    using dir = tempDir()
    const [canonical, ...rest] = Array.from({ length: 3 }, () => newTestKey().publicKey)
    const rows = [
      ['good', 'approved', canonical!],
      ['evasive', 'approved', respelled(canonical!)],
      ['odd', 'approved', respelled(rest[0]!, 3)],
      ['gone', 'revoked', respelled(rest[1]!, 2)],
    ]
    const database = new Database(join(dir.path, 'identity.sqlite'))
    for (const sql of identityTables.slice(0, 4)) database.exec(sql)
    database.pragma('user_version = 4')
    const insert = database.prepare(
      `INSERT INTO identities (device, status, public_key, device_group, token_id, enrolled_at)
       VALUES (?, ?, ?, 'default', '01234567', '2026-01-01T00:00:00.000Z')`,
    )
    for (const row of rows) insert.run(...row)
    database.close()
    const store = openIdentityStore(dir.path)
    const byName = Object.fromEntries(store.devices().map(({ device, ...rest }) => [device, rest]))
    store.close()
    expect(byName).toMatchObject({
      good: { status: 'approved', publicKey: canonical },
      evasive: { status: 'revoked' },
      odd: { status: 'pending', publicKey: rest[0] },
      gone: { status: 'revoked', publicKey: rest[1] },
    })
  })
})
