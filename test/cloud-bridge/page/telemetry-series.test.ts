import { describe, expect, it } from 'vitest'
import { parseMetrics, totalOf } from '../../../cloud-bridge/page/metrics.ts'
import { type ChartedSample, chartsOf, withLatest } from '../../../cloud-bridge/page/telemetry-series.ts'

const sampleAt = (second: number, railsW: Record<string, number> = {}): ChartedSample =>
  ({ at: new Date(second * 1_000).toISOString(), power: { railsW, totalW: 5 } }) as unknown as ChartedSample

describe('the charts of a device', () => {
  it('have a line for each figure that is known at some time, with gaps where it is not', () => {
    const charts = chartsOf([sampleAt(1), sampleAt(2, { VDD_IN: 4 })])
    expect(charts).toEqual([
      {
        title: 'Power',
        unit: 'W',
        times: [1, 2],
        lines: [
          { label: 'total', values: [5, 5] },
          { label: 'VDD_IN', values: [null, 4] },
        ],
      },
    ])
  })

  it('go on with what arrives, each sample once, and drop the oldest', () => {
    const two = [sampleAt(1), sampleAt(2)]
    expect(withLatest(two, sampleAt(2), 9)).toBe(two)
    expect(withLatest(two, sampleAt(3), 2).map(({ at }) => at)).toEqual([sampleAt(2).at, sampleAt(3).at])
  })
})

it('metrics are read by name and labels, without the buckets of histograms', () => {
  const reading = parseMetrics(`# HELP brim_jobs Jobs.
# TYPE brim_jobs gauge
brim_jobs{state="queued"} 2
brim_jobs{state="dead"} 1
brim_hat_sessions 3
brim_step_rows_bucket{le="1"} 9
process_cpu_seconds_total 1
`)
  expect([...reading]).toEqual([
    ['brim_jobs{state="queued"}', 2],
    ['brim_jobs{state="dead"}', 1],
    ['brim_hat_sessions', 3],
  ])
  expect([totalOf(reading, 'brim_jobs'), totalOf(reading, 'brim_jobs{state="dead"}'), totalOf(reading, 'brim_none')]).toEqual([
    3, 1, 0,
  ])
})
