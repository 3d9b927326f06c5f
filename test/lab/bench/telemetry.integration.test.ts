import { describe, expect, it } from 'vitest'
import { costOf, telemetryBench } from '../../../lab/bench/telemetry.ts'

const io = { env: process.env, signal: new AbortController().signal }

describe('the CPU cost of telemetry', () => {
  it.each(['this machine', 'agx-orin-jp6', 'unknown-release'])('is measured for %s in a separate process', async (device) => {
    const { cpuMs, percentOfCore, samples } = await costOf(device, 5, io)
    expect(samples).toBe(5)
    expect(cpuMs).toBeGreaterThan(0)
    expect(percentOfCore).toBeCloseTo(cpuMs / 100, 3)
  })

  it('is judged by the most expensive device', () => {
    const cost = (device: string, cpuMs: number) => ({ device, samples: 9, cpuMs, percentOfCore: cpuMs / 100 })
    const runs = [cost('this machine', 2), cost('a', 7), cost('other', 1)]
    expect(telemetryBench.resultOf({ conditions: {}, runs }).summary).toEqual({
      mostCpuMs: 7,
      mostPercentOfCore: 0.07,
      thisMachinePercentOfCore: 0.02,
      otherPercentOfCore: 0.01,
    })
  })
})
