import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Measurements, shallReport } from '../../core/policy/telemetry.ts'

const figure = fc.option(fc.double({ min: 1, max: 1e9, noNaN: true }))
const anyMeasurements: fc.Arbitrary<Measurements> = fc.record({
  link: fc.option(
    fc.record({ upBytesPerS: figure, downBytesPerS: figure, rttMs: figure, bridge: fc.constantFrom('one', 'two') }),
  ),
  speed: fc.record({ prefillTokensPerS: figure, draftStepMs: figure }),
})
const measured: Measurements = {
  link: { upBytesPerS: 1000, downBytesPerS: null, rttMs: 10, bridge: 'one' },
  speed: { prefillTokensPerS: 50, draftStepMs: null },
}
const { link, speed } = measured

describe('telemetry', () => {
  it('is reported where nothing has been, and again when its time has come', () => {
    fc.assert(
      fc.property(anyMeasurements, fc.nat({ max: 20_000 }), (now, ms) => {
        expect(shallReport(undefined, now, ms, 10_000)).toBe(true)
        expect(shallReport({ atMs: 0, measured: now }, now, ms, 10_000)).toBe(ms >= 10_000)
      }),
    )
  })

  it.each<[string, Measurements, boolean]>([
    ['a rate rises by more than a fifth', { link: { ...link!, upBytesPerS: 1201 }, speed }, true],
    ['a rate falls by more than a fifth', { link: { ...link!, upBytesPerS: 799 }, speed }, true],
    ['rates move by less', { link: { ...link!, upBytesPerS: 1199, rttMs: 9 }, speed }, false],
    ['a rate becomes known', { link: { ...link!, downBytesPerS: 1 }, speed }, true],
    ['a rate becomes unknown', { link: { ...link!, upBytesPerS: null }, speed }, true],
    ['the link ends', { link: null, speed }, true],
    ['the bridge is another', { link: { ...link!, bridge: 'two' }, speed }, true],
    ['drafting has been measured', { link, speed: { ...speed, draftStepMs: 2 } }, true],
  ])('before its time, if %s', (_, now, expected) => {
    expect(shallReport({ atMs: 0, measured }, now, 1_000, 10_000)).toBe(expected)
  })
})
