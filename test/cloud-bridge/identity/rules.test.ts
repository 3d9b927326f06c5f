import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AccessTokens } from '../../../cloud-bridge/identity/access-tokens.ts'
import { judgeEnrolment, judgeGrant } from '../../../cloud-bridge/identity/rules.ts'
import type { DeviceIdentity, TokenRecord } from '../../../core/wire/protocol/http/admin.ts'
import { invitationText, readInvitation, signedBytes } from '../../../core/wire/protocol/identity.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const nowMs = Date.parse('2026-06-01T00:00:00Z')
const token: TokenRecord = {
  id: '01234567',
  group: 'lab',
  usesLeft: 1,
  approve: false,
  labels: {},
  createdAt: '2026-05-31T00:00:00Z',
  expiresAt: '2026-06-02T00:00:00Z',
  revokedAt: null,
}
const device: DeviceIdentity = {
  device: 'a',
  group: 'lab',
  status: 'approved',
  publicKey: 'key-a',
  tokenId: token.id,
  enrolledAt: '2026-05-31T00:00:00Z',
  keySince: null,
  keyExpiresAt: null,
  hardware: 'mac 1',
  clone: null,
}
const fresh = {
  device: 'a',
  publicKey: 'key-a',
  hardware: undefined,
  token,
  named: undefined,
  keyed: undefined,
  formerOf: undefined,
}

describe('an enrolment', () => {
  it.each([
    ['with a good token', {}, 'enrol', undefined],
    ['with an unknown token', { token: undefined }, 'refused', /does not know this token/],
    ['with a revoked token', { token: { ...token, revokedAt: 'x' } }, 'refused', /revoked/],
    ['with a used-up token', { token: { ...token, usesLeft: 0 } }, 'refused', /used up/],
    ['with an expired token', { token: { ...token, expiresAt: '2026-06-01T00:00:00Z' } }, 'refused', /expired/],
    ['under a name that another key has', { named: { ...device, publicKey: 'key-b' } }, 'refused', /another key/],
    ['under the name of a revoked device', { named: { ...device, publicKey: 'key-b', status: 'revoked' } }, 'enrol', undefined],
    ['with a revoked key', { named: { ...device, status: 'revoked' } }, 'refused', /revoked/],
    ["with another device's key", { keyed: { ...device, device: 'b' } }, 'refused', /"b": the image was cloned/],
    ['with its key on another machine', { named: device, keyed: device, hardware: 'mac 2' }, 'refused', /used on two machines/],
    [
      'again, though its token is used up',
      { named: device, keyed: device, hardware: 'mac 1', token: { ...token, usesLeft: 0 } },
      'repeat',
      undefined,
    ],
  ] as const)('%s', (_, change, kind, message) => {
    const verdict = judgeEnrolment({ ...fresh, ...change } as Parameters<typeof judgeEnrolment>[0], nowMs)
    expect(verdict.kind).toBe(kind)
    if (message) expect(verdict).toMatchObject({ message: expect.stringMatching(message) })
  })

  it('is never granted without a valid token', () => {
    const dead = fc.constantFrom(
      undefined,
      { ...token, revokedAt: 'x' },
      { ...token, usesLeft: 0 },
      { ...token, expiresAt: '2026-01-01T00:00:00Z' },
    )
    const others = fc.option(
      fc.record({ publicKey: fc.constantFrom('key-a', 'key-b'), status: fc.constantFrom('pending', 'approved', 'revoked') }),
      {
        nil: undefined,
      },
    )
    fc.assert(
      fc.property(dead, others, (given, other) => {
        const named = other && ({ ...device, ...other } as DeviceIdentity)
        expect(judgeEnrolment({ ...fresh, token: given, named }, nowMs).kind).not.toBe('enrol')
      }),
    )
  })
})

describe('a grant', () => {
  it('is given only to approved devices, on the first machine that used the key', () => {
    expect(judgeGrant('a', device, 'mac 1', nowMs)).toEqual({ kind: 'granted', bind: false })
    expect(judgeGrant('a', { ...device, hardware: null }, 'mac 2', nowMs)).toEqual({ kind: 'granted', bind: true })
    expect(judgeGrant('a', { ...device, hardware: null }, undefined, nowMs)).toEqual({ kind: 'granted', bind: false })
    expect(judgeGrant('a', device, undefined, nowMs)).toMatchObject({ code: 'DEVICE_CLONED' })
    expect(judgeGrant('a', undefined, 'mac 1', nowMs)).toMatchObject({ code: 'NOT_AUTHORIZED' })
    expect(judgeGrant('a', { ...device, status: 'pending' }, 'mac 1', nowMs)).toMatchObject({
      message: expect.stringContaining('waits'),
    })
    expect(judgeGrant('a', { ...device, status: 'revoked' }, 'mac 1', nowMs)).toMatchObject({ code: 'NOT_AUTHORIZED' })
    expect(judgeGrant('a', device, 'mac 2', nowMs)).toMatchObject({
      code: 'DEVICE_CLONED',
      message: expect.not.stringContaining('mac 1'),
    })
  })
})

describe('an access token', () => {
  it('proves its subject until it expires', async () => {
    const clock = fakeClock()
    const tokens = new AccessTokens(clock)
    const text = tokens.mint('device-a', 's1', 1_000)
    await clock.advance(999)
    expect(tokens.read(text)).toEqual({ subject: 'device-a', grant: 's1' })
    await clock.advance(1)
    expect(tokens.read(text)).toBeUndefined()
  })

  it('is rejected when a character was changed, and by another process', () => {
    const clock = fakeClock()
    const tokens = new AccessTokens(clock)
    const text = tokens.mint('device-a', 's1', 1_000)
    expect(new AccessTokens(clock).read(text)).toBeUndefined()
    fc.assert(
      fc.property(fc.nat(text.length - 1), fc.constantFrom('A', 'z', '_', '.', ' '), (at, other) => {
        fc.pre(text[at] !== other)
        expect(tokens.read(text.slice(0, at) + other + text.slice(at + 1))).toBeUndefined()
      }),
    )
    fc.assert(fc.property(fc.string(), (noise) => tokens.read(noise) === undefined))
  })
})

describe('signed bytes', () => {
  it('differ whenever a signed field differs', () => {
    const field = fc.stringMatching(/^[a-z", ]{0,6}$/)
    const signed = fc.record({
      purpose: fc.constantFrom('enroll', 'session'),
      nonce: field,
      bridge: field,
      fleet: field,
      device: field,
      hardware: field,
    })
    const text = (value: Parameters<typeof signedBytes>[0]) => Buffer.from(signedBytes(value)).toString()
    fc.assert(
      fc.property(signed, signed, (one, other) => {
        expect(text(one as never) === text(other as never)).toBe(
          JSON.stringify(Object.entries(one).sort()) === JSON.stringify(Object.entries(other).sort()),
        )
      }),
    )
  })
})

describe('the text of an enrolment token', () => {
  it('is read back, and an error never repeats a broken one', () => {
    const invitation = { url: 'http://127.0.0.1:7070', id: '01234567', secret: 'w'.repeat(43) }
    expect(readInvitation(invitationText(invitation))).toEqual(invitation)
    const broken = invitationText(invitation).slice(0, -9)
    let message = ''
    try {
      readInvitation(broken)
    } catch (error) {
      message = String(error)
    }
    expect(message).toMatch(/not an enrolment token/)
    expect(message).not.toContain(broken.slice(-20))
  })
})
