import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type DeadBands, type Measurements, shouldReport } from '../../../../core/policy/telemetry/dead-bands.ts'

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
const unknownDevice = {
  kind: 'jetson',
  model: null,
  module: null,
  soc: null,
  l4t: null,
  jetpack: null,
  os: null,
  kernel: null,
  cores: 6,
  agent: '1',
  modelId: null,
}

describe('a report', () => {
  it('is sent if there was none, and again after the interval', () => {
    fc.assert(
      fc.property(anyMeasurements, fc.nat({ max: 20_000 }), (now, ms) => {
        expect(shouldReport(undefined, { atMs: ms, measured: now }, 10_000)).toBe(true)
        expect(shouldReport({ atMs: 0, measured: now }, { atMs: ms, measured: now }, 10_000)).toBe(ms >= 10_000)
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
  ])('before the end of the interval, if %s: sent or not', (_, now, expected) => {
    expect(shouldReport({ atMs: 0, measured }, { atMs: 1_000, measured: now }, 10_000)).toBe(expected)
  })
})

describe('whether a change within the interval is reported', () => {
  const condition = {
    ...measured,
    device: { ...unknownDevice, uptimeS: 100, powerMode: '15W' },
    load: { cpuPercent: 10, gpuPercent: 0, emcPercent: null, cpuMHz: 1000, gpuMHz: 300, emcMHz: null },
    memory: { totalBytes: 8e9, freeBytes: 4e9, swapTotalBytes: 0, swapFreeBytes: 0, gpuUsedBytes: null },
    temperatures: { hottestC: 50, zonesC: { cpu: 50, 'pmic-w': 40 } },
    throttling: { isThrottled: false, causes: [] },
    power: { railsW: { VDD_IN: 10, VDD_SOC: 1 }, totalW: 10, scope: 'module', jPerToken: 2 },
    battery: { levelPercent: 80, state: 'charging', powerW: 10, tempC: 30, isPlugged: true },
    fan: { dutyPercent: 50, rpm: 2000 },
    disk: { totalBytes: 1e11, freeBytes: 5e10 },
    network: { eth0: { kind: 'ethernet', isUp: true, linkMbitPerS: 1000, rxBytesPerS: 10, txBytesPerS: 10 } },
    errors: [{ code: 'LINK_LOST', at: '2026-01-02T03:04:05.678Z', count: 1 }],
    answers: { underWay: 0, decodeTokensPerS: { tiny: 40 } },
  } satisfies Measurements
  const { load, memory, temperatures, power, battery, fan, network, errors } = condition

  it.each<[string, Partial<Measurements>, boolean]>([
    ['a tenth of a degree', { temperatures: { hottestC: 50.1, zonesC: { cpu: 50.1, 'pmic-w': 40 } } }, false],
    ['six degrees', { temperatures: { ...temperatures, hottestC: 56 } }, true],
    ['six degrees of one zone, whatever its name', { temperatures: { hottestC: 50, zonesC: { cpu: 50, 'pmic-w': 46 } } }, true],
    ['a zone that is new', { temperatures: { ...temperatures, zonesC: { ...temperatures.zonesC, gpu: 30 } } }, true],
    ['the GPU at 20 %', { load: { ...load, gpuPercent: 20 } }, false],
    ['the GPU at 90 %', { load: { ...load, gpuPercent: 90 } }, true],
    ['the GPU unreadable', { load: { ...load, gpuPercent: null } }, true],
    ['other clocks', { load: { ...load, cpuMHz: 2200, gpuMHz: 900 } }, false],
    ['some of the memory', { memory: { ...memory, freeBytes: 3.9e9 } }, false],
    ['a model in memory', { memory: { ...memory, freeBytes: 2e9 } }, true],
    [
      '1.5 W on a rail whose name ends like a temperature',
      { power: { ...power, railsW: { VDD_IN: 11.5, VDD_SOC: 2.5 } } },
      false,
    ],
    ['power that has risen by half', { power: { ...power, totalW: 15 } }, true],
    ['the power mode', { device: { ...condition.device, powerMode: '7W' } }, true],
    ['time', { device: { ...condition.device, uptimeS: 5_000 } }, false],
    ['a clock held down', { throttling: { isThrottled: true, causes: ['cooling cpufreq-cpu0'] } }, true],
    ['a percent of the battery', { battery: { ...battery, levelPercent: 79 } }, false],
    ['three percent of the battery', { battery: { ...battery, levelPercent: 77 } }, true],
    ['a charger that was unplugged', { battery: { ...battery, isPlugged: false } }, true],
    ['a battery that was removed', { battery: null }, true],
    ['the fan', { fan: { ...fan, dutyPercent: 100, rpm: 5000 } }, false],
    ['the traffic of an interface', { network: { eth0: { ...network.eth0, rxBytesPerS: 1e8, txBytesPerS: 0 } } }, false],
    ['an interface that is down', { network: { eth0: { ...network.eth0, isUp: false } } }, true],
    ['the same failure again', { errors: [{ ...errors[0]!, at: '2026-01-02T03:05:05.678Z', count: 9 }] }, false],
    ['another failure', { errors: [{ code: 'OUT_OF_MEMORY', at: '2026-01-02T03:05:05.678Z', count: 1 }, ...errors] }, true],
    ['answers in progress', { answers: { ...condition.answers, underWay: 3 } }, false],
    ['a model half as fast', { answers: { underWay: 0, decodeTokensPerS: { tiny: 20 } } }, true],
    ['a section that an older agent does not send', { fan: undefined }, true],
  ])('%s', (_, change, expected) => {
    expect(shouldReport({ atMs: 0, measured: condition }, { atMs: 1_000, measured: { ...condition, ...change } }, 10_000)).toBe(
      expected,
    )
  })
})

describe('a dead band from the configuration', () => {
  const at = (hottestC: number, cpu: number): Measurements => ({ ...measured, temperatures: { hottestC, zonesC: { cpu } } })
  const moved = (now: Measurements, overrides: DeadBands) =>
    shouldReport({ atMs: 0, measured: at(50, 50) }, { atMs: 1_000, measured: now }, 10_000, overrides)

  it.each<[string, Measurements, DeadBands, boolean]>([
    ['for a figure replaces the default of its unit', at(52, 50), { hottestC: { part: 0, amount: 1 } }, true],
    ['for a figure does not affect other figures', at(50, 52), { hottestC: { part: 0, amount: 1 } }, false],
    ['for a unit applies to all its figures', at(50, 52), { C: { part: 0, amount: 1 } }, true],
    ['can be wider than the default', at(59, 59), { C: { part: 0, amount: 10 } }, false],
    ['can be a part of the last value', at(54, 50), { hottestC: { part: 0.05, amount: 0 } }, true],
  ])('%s', (_, now, overrides, expected) => {
    expect(moved(now, overrides)).toBe(expected)
  })
})
