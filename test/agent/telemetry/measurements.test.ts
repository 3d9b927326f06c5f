import { expect, it } from 'vitest'
import { measurementsOf } from '../../../agent/telemetry/measurements.ts'
import { LinkRates } from '../../../core/policy/estimate/link-rates.ts'

it('a report has the rates of the link and the speed of the device, in bytes per second and milliseconds', () => {
  const rates = new LinkRates()
  rates.recordRoundTrip(0.02)
  rates.recordProbe({ bytesUp: 100_000, bytesDown: 0, sentS: 1, answeredS: 2.02 })
  rates.recordProbe({ bytesUp: 0, bytesDown: 50_000, sentS: 3, answeredS: 4.02 })
  const measured = measurementsOf({ bridge: 'bridge-1', rates }, { prefillTokensPerS: 910.123, draftStepS: 0.004 }, undefined)
  expect(measured).toEqual({
    link: { bridge: 'bridge-1', upBytesPerS: expect.any(Number), downBytesPerS: expect.any(Number), rttMs: 20 },
    speed: { prefillTokensPerS: 910.1, draftStepMs: 4 },
  })
  expect(measured.link!.upBytesPerS! / 100_000).toBeCloseTo(1, 1)
  expect(measured.link!.downBytesPerS! / 50_000).toBeCloseTo(1, 1)
})

it('a report without a link has none, and unknown figures are null', () => {
  expect(measurementsOf(undefined, { prefillTokensPerS: undefined, draftStepS: undefined }, undefined)).toEqual({
    link: null,
    speed: { prefillTokensPerS: null, draftStepMs: null },
  })
})
