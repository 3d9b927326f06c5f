import { expect, it } from 'vitest'
import type { DeadBands, Measurements } from '../../../../core/policy/telemetry/dead-bands.ts'
import { settled } from '../../../../core/policy/telemetry/resolution.ts'

const settle = (now: object, base?: object, bands?: DeadBands) =>
  settled(now as unknown as Measurements, base as unknown as Measurements, bands)

it('rounds figures to what their sensors resolve, and leaves counts, words and lists alone', () => {
  const now = {
    load: { cpuPercent: 3.4, cpuMHz: 1_728 },
    memory: { freeBytes: 5_324_800_000 },
    temperatures: { hottestC: 48.468, zonesC: { cpu: -0.1 } },
    power: { totalW: 4.854, jPerToken: 0.123456 },
    network: { eth0: { rxBytesPerS: 234, linkMbitPerS: 1_000 } },
    jobs: { waiting: 12_345 },
    errors: [{ code: 'X', count: 12_345 }],
    device: { uptimeS: 86_401 },
  }
  expect(settle(now)).toEqual({
    load: { cpuPercent: 3, cpuMHz: 1_728 },
    memory: { freeBytes: 5_320_000_000 },
    temperatures: { hottestC: 48.5, zonesC: { cpu: 0 } },
    power: { totalW: 4.85, jPerToken: 0.123 },
    network: { eth0: { rxBytesPerS: 0, linkMbitPerS: 1_000 } },
    jobs: { waiting: 12_345 },
    errors: [{ code: 'X', count: 12_345 }],
    device: { uptimeS: 86_401 },
  })
})

it('takes noise for no change', () => {
  const base = { temperatures: { hottestC: 48.5, zonesC: { cpu: 48.5 } }, power: { totalW: 4.85 }, load: { cpuMHz: 1_000 } }
  const noisy = { temperatures: { hottestC: 48.9, zonesC: { cpu: 48.1 } }, power: { totalW: 4.88 }, load: { cpuMHz: 1_040 } }
  const moved = { temperatures: { hottestC: 49.1, zonesC: { cpu: 47.9 } }, power: { totalW: 4.91 }, load: { cpuMHz: 1_100 } }
  expect(settle(noisy, base)).toEqual(base)
  expect(settle(moved, base)).toEqual({
    temperatures: { hottestC: 49, zonesC: { cpu: 48 } },
    power: { totalW: 4.9 },
    load: { cpuMHz: 1_100 },
  })
})

it('resolves a figure as finely as the dead band of an operator', () => {
  const base = { temperatures: { hottestC: 48.5 }, power: { totalW: 4.85 } }
  const now = { temperatures: { hottestC: 48.7 }, power: { totalW: 4.88 } }
  expect(settle(now, base, { hottestC: { part: 0, amount: 0.1 } })).toEqual({
    temperatures: { hottestC: 48.7 },
    power: { totalW: 4.85 },
  })
})
