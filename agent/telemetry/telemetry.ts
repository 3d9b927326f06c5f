import type { Clock } from '../../core/base/clock.ts'
import type { LinkRates } from '../../core/policy/estimate/link-rates.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { type DeadBands, type Measurements, shouldReport } from '../../core/policy/telemetry/dead-bands.ts'
import type { DeviceCondition } from '../../core/protocol/device-condition.ts'

/** What is measured is looked at so often, and so at most reported. */
const lookEveryMs = 1_000

export interface TelemetryOptions {
  /** At least so often. */
  readonly everyMs: number
  /** In place of the usual ones. */
  readonly deadBands: DeadBands
  readonly clock: Clock
  readonly measure: () => Measurements
  /** @returns whether there was anybody to report to */
  readonly report: (measured: Measurements) => boolean
}

/** Reports what the device measures: regularly, and at once where something has moved. */
export function startTelemetry({ everyMs, deadBands, clock, measure, report }: TelemetryOptions): { stop(): void } {
  const stopping = new AbortController()
  const { signal } = stopping

  async function run(): Promise<void> {
    let told: { atMs: number; measured: Measurements } | undefined
    for (;;) {
      await clock.sleep(lookEveryMs, signal)
      const measured = measure()
      const nowMs = clock.nowMs()
      if (!shouldReport(told, measured, nowMs, everyMs, deadBands)) continue
      // Who was not there to be told is told as soon as there.
      told = report(measured) ? { atMs: nowMs, measured } : undefined
    }
  }

  run().catch((error) => {
    if (!signal.aborted) throw error
  })
  return { stop: () => stopping.abort() }
}

/** @param rates of the connection that stands, where one does @param condition of the device, once it has been looked at */
export function measuredOf(
  rates: LinkRates | undefined,
  bridge: string | undefined,
  speed: DeviceSpeed,
  condition: DeviceCondition | undefined,
): Measurements {
  const { prefillTokensPerS, draftStepS } = speed
  const link = rates && bridge !== undefined ? { ...ratesOf(rates), bridge } : null
  return {
    link,
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

/** Four digits are more than any of it is known by. */
const rounded = (value: number | undefined): number | null => (value === undefined ? null : Number(value.toPrecision(4)))
