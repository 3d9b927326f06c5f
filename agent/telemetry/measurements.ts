import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { Measurements } from '../../core/policy/telemetry/dead-bands.ts'
import type { DeviceCondition } from '../../core/wire/protocol/device-condition.ts'

/** The data plane as a report shows it. */
export interface LinkFigures {
  readonly bridge: string
  readonly rates: LinkRates
}

/**
 * @param link absent while there is no data-plane connection
 * @param condition of the device; absent before its first sample
 */
export function measurementsOf(
  link: LinkFigures | undefined,
  { prefillTokensPerS, draftStepS }: Pick<DeviceSpeed, 'prefillTokensPerS' | 'draftStepS'>,
  condition: DeviceCondition | undefined,
): Measurements {
  return {
    link: link ? { ...ratesOf(link.rates), bridge: link.bridge } : null,
    speed: {
      prefillTokensPerS: rounded(prefillTokensPerS),
      draftStepMs: rounded(draftStepS === undefined ? undefined : draftStepS * 1_000),
    },
    ...condition,
  }
}

const ratesOf = ({ upBytesPerS, downBytesPerS, rttS }: LinkRates) => ({
  upBytesPerS: rounded(upBytesPerS),
  downBytesPerS: rounded(downBytesPerS),
  rttMs: rttS === 0 ? null : rounded(rttS * 1_000),
})

/** To four digits, which exceeds the precision of any of these measurements. */
export const rounded = (value: number | undefined): number | null => (value === undefined ? null : Number(value.toPrecision(4)))
