import { describe, expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { capacityOf, measuredBridge } from '../../../../lab/simulate/scale/capacity.ts'
import { scaleScenario } from '../../../../lab/simulate/scale/scale-scenario.ts'

const bridge = measuredBridge({
  conditions: { startedAt: '2026-01-01T00:00:00.000Z', commit: null },
  summary: { restCpuPercent: 50, rssMb: 500, mostDevices: 12_500 },
})

describe('the capacity of a fleet', () => {
  it('takes bridges from measurements, and says where it extrapolates', async () => {
    const result = await runScenario(scaleScenario(100, 1))
    const of = (devices: number) => capacityOf(devices, result, bridge, { rssMb: 1, tookS: 1 })
    expect([100, 10_000, 12_501, 100_000].map((devices) => of(devices).bridges)).toEqual([1, 1, 2, 8])
    expect([of(10_000).isMeasured, of(20_000).isMeasured]).toEqual([true, false])
    expect([of(10_000).bridgeCpuPercent, of(20_000).bridgeCpuPercent]).toEqual([50, 50])
    expect([of(10_000).bridgeMb, of(25_000).bridgeMb]).toEqual([500, 625])
  })

  it('simulates GPUs and links in proportion to the fleet', async () => {
    const [small, large] = [await runScenario(scaleScenario(250, 4)), await runScenario(scaleScenario(1_000, 4))]
    const of = (result: typeof small) => capacityOf(1, result, bridge, { rssMb: 1, tookS: 1 })
    expect([of(small).gpus, of(large).gpus]).toEqual([2, 8])
    expect(of(large).requestsPerS / of(small).requestsPerS).toBeCloseTo(4, -1)
    expect(of(large).upBytesPerS / of(small).upBytesPerS).toBeGreaterThan(2)
    expect(of(large).gpuBusy).toBeGreaterThan(0.3)
  })
})
