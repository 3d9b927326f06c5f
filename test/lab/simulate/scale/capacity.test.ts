import { describe, expect, it } from 'vitest'
import { runScenario } from '../../../../lab/simulate/run/run-scenario.ts'
import { capacityOf, measuredBridge } from '../../../../lab/simulate/scale/capacity.ts'
import { scaleScenario } from '../../../../lab/simulate/scale/scale-scenario.ts'

const bridge = measuredBridge({
  conditions: { startedAt: '2026-01-01T00:00:00.000Z', commit: null },
  summary: { restCpuPercent: 50, rssMb: 500, mostDevices: 12_500 },
})

const level = { ttftMeanMs: 1_000, ttftP95Ms: 2_000, stalls: 0.01 }
const own = { rssMb: 1, tookS: 1, level, isSearched: true, keepsLevel: true, seconds: 4 }
const simulated = async (devices: number, gpus: number, seconds = 4) =>
  await runScenario(scaleScenario({ devices, gpus, seconds, countedFromS: seconds / 3 }))

describe('the capacity of a fleet', () => {
  it('takes bridges from measurements, and says where it extrapolates', async () => {
    const result = await simulated(100, 1, 1)
    const of = (devices: number) => capacityOf(devices, result, bridge, own)
    expect([100, 10_000, 12_501, 100_000].map((devices) => of(devices).bridges)).toEqual([1, 1, 2, 8])
    expect([of(10_000).isMeasured, of(20_000).isMeasured]).toEqual([true, false])
    expect([of(10_000).bridgeCpuPercent, of(20_000).bridgeCpuPercent]).toEqual([50, 50])
    expect([of(10_000).bridgeMb, of(25_000).bridgeMb]).toEqual([500, 625])
  })

  it('simulates links in proportion to the fleet, and how busy GPUs are', async () => {
    const [small, large, wide] = [await simulated(250, 2), await simulated(1_000, 8), await simulated(250, 8)]
    const crowded = await simulated(1_000, 1)
    const of = (result: typeof small) => capacityOf(1, result, bridge, own)
    expect([of(small).gpus, of(large).gpus]).toEqual([2, 8])
    expect(of(large).upBytesPerS / of(small).upBytesPerS).toBeGreaterThan(2)
    expect(of(large).gpuBusy).toBeGreaterThan(0.3)
    expect(of(wide).gpuBusy).toBeLessThan(of(small).gpuBusy)
    expect(of(large).ttftMs).toBeLessThan(of(crowded).ttftMs)
  })

  it('counts first tokens of answers that have not ended', async () => {
    const { all } = await simulated(250, 2)
    expect(all.open).toBeGreaterThan(0)
    expect(all.ttftMs.count).toBeGreaterThan(all.answered)
  })
})
