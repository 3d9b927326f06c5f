import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { datesAtLogin, hasExpired, renewKeyInMs } from '../../../../core/policy/identity/key-validity.ts'

const dayMs = 86_400_000
const year = { validMs: 365 * dayMs }
const none = { sinceMs: null, expiresMs: null }

describe('the validity of a device key', () => {
  it('begins with the first login of an agent that renews keys, and goes on without that promise', () => {
    expect(datesAtLogin(none, false, year, 5)).toEqual(none)
    const begun = datesAtLogin(none, true, year, 5)
    expect(begun).toEqual({ sinceMs: 5, expiresMs: 5 + year.validMs })
    for (const renewsKey of [true, false]) expect(datesAtLogin(begun, renewsKey, year, 99)).toEqual(begun)
  })

  it('ends where keys do not expire, and after an approval begins anew with a key that is due', () => {
    const begun = datesAtLogin(none, true, year, 5)
    expect(datesAtLogin(begun, true, { validMs: 0 }, 99)).toEqual({ sinceMs: 5, expiresMs: null })
    const approved = datesAtLogin({ ...begun, expiresMs: null }, true, year, 2 * year.validMs)
    expect(approved).toEqual({ sinceMs: 5, expiresMs: 3 * year.validMs })
    expect(renewKeyInMs(approved, year, 0.5, 2 * year.validMs)).toBe(0)
  })

  it('is over at its end', () => {
    const dates = { sinceMs: 0, expiresMs: 10 }
    expect([hasExpired(dates, 9), hasExpired(dates, 10), hasExpired(none, 10)]).toEqual([false, true, false])
  })
})

describe('the renewal of a device key', () => {
  it('is due from two thirds of the validity to three quarters of it, at one time for one key', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3_660 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (days, uniform) => {
          const keys = { validMs: days * dayMs }
          const dates = datesAtLogin(none, true, keys, 0)
          const inMs = renewKeyInMs(dates, keys, uniform, 0)!
          expect(inMs).toBeGreaterThanOrEqual((keys.validMs * 2) / 3)
          expect(inMs).toBeLessThanOrEqual((keys.validMs * 3) / 4)
          expect(renewKeyInMs(dates, keys, uniform, inMs)).toBe(0)
          expect(renewKeyInMs(dates, keys, uniform, inMs / 2)).toBeCloseTo(inMs / 2, 3)
        },
      ),
    )
  })

  it('is due earlier where the validity was shortened, later where it was prolonged for the next key only', () => {
    const dates = datesAtLogin(none, true, { validMs: 90 }, 0)
    expect(renewKeyInMs(dates, { validMs: 30 }, 0, 10)).toBe(10)
    expect(renewKeyInMs(dates, { validMs: 900 }, 0, 10)).toBe(50)
  })

  it('is never due for a key that does not expire', () => {
    expect(renewKeyInMs(none, year, 0, 5)).toBeUndefined()
    expect(renewKeyInMs({ sinceMs: 0, expiresMs: 10 }, { validMs: 0 }, 0, 5)).toBeUndefined()
  })
})
