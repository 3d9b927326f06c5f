import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { batteryOf, parseTermuxBattery } from '../../../agent/device/parse/battery.ts'
import { jetpackOf, moduleOf, parsePowerMode, parseTegraRelease } from '../../../agent/device/parse/jetson-release.ts'
import { cpuPercent, parseCpuTimes, parseMeminfo } from '../../../agent/device/parse/proc.ts'
import { parseTegrastats } from '../../../agent/device/parse/tegrastats.ts'
import { readFixture } from '../../support/device-fixture.ts'

const lines = readFixture<{ board: string; line: string }[]>('tegrastats')
const lineOf = (board: string) => lines.find((form) => form.board === board)!.line

describe('a line of tegrastats', () => {
  it.each(lines)('of $board is parsed completely', ({ line }) => {
    expect(parseTegrastats(line).unknown).toEqual([])
  })

  it.each([
    [
      'Nano, JetPack 4',
      { cpuPercent: 4.5, cpuMHz: 102, emcPercent: 0, gpuPercent: 0 },
      { hottestC: 36, zonesC: { pll: 28, cpu: 31.5, gpu: 30.5, ao: 36, thermal: 31.3 } },
      { totalW: 1.388, scope: 'module', railsW: { POM_5V_IN: 1.388, POM_5V_GPU: 0.122, POM_5V_CPU: 0.163 } },
    ],
    [
      'Xavier NX',
      { cpuPercent: 2.8, cpuMHz: 1907, emcPercent: 0, emcMHz: 1600, gpuPercent: 0, gpuMHz: 510 },
      { hottestC: 39.5, zonesC: { aux: 39, cpu: 39.5, ao: 37.5, gpu: 37.5 } },
      { totalW: 5.079, scope: 'module', railsW: { VDD_IN: 5.079, VDD_CPU_GPU_CV: 0.696, VDD_SOC: 1.104 } },
    ],
    [
      'AGX Orin, JetPack 5 and 6',
      { cpuPercent: 9, cpuMHz: 729, emcPercent: 1, emcMHz: 2133, gpuPercent: 14, gpuMHz: 407 },
      { hottestC: 77.3, zonesC: { cv0: 73.6, cpu: 77.3, tboard: 62, tj: 77.3 } },
      {
        totalW: 23.521,
        scope: 'rails',
        railsW: { VDD_GPU_SOC: 3.15, VDD_CPU_CV: 14.312, VIN_SYS_5V0: 4.968, VDDQ_VDD2_1V8AO: 1.091 },
      },
    ],
    [
      'AGX Orin, JetPack 7',
      { cpuPercent: 0.5, cpuMHz: 1190, emcPercent: 2, emcMHz: 3199, gpuPercent: 12, gpuMHz: 1300 },
      { hottestC: 53, zonesC: { cpu: 53, gpu: 49.5 } },
      { totalW: 10.872, scope: 'rails', railsW: { VDD_GPU_SOC: 5.139, VDD_CPU_CV: 1.188, VIN_SYS_5V0: 4.545 } },
    ],
    [
      'AGX Xavier, JetPack 5',
      { cpuPercent: 10, cpuMHz: 2265, emcPercent: 3, emcMHz: 1331, gpuPercent: 50, gpuMHz: 675 },
      { hottestC: 45, zonesC: { aux: 43.5, cpu: 45, thermal: 44.4, ao: 43, gpu: 44.5 } },
      { totalW: 11.5, scope: 'rails', railsW: { GPU: 1.9, CPU: 3.8, SOC: 2.85, CV: 0.19, VDDRQ: 0.76, SYS5V: 2 } },
    ],
    [
      'Orin NX and Nano, JetPack 5 and 6',
      { cpuPercent: 2, cpuMHz: 1510, emcPercent: 2, emcMHz: 2133, gpuPercent: 0, gpuMHz: 305 },
      { hottestC: 48.5, zonesC: { cpu: 48.5, soc2: 47.3, soc0: 47.5, gpu: 47.9, tj: 48.5, soc1: 48.3 } },
      { totalW: 4.854, scope: 'module', railsW: { VDD_IN: 4.854, VDD_CPU_GPU_CV: 0.606, VDD_SOC: 1.264 } },
    ],
    [
      'Orin NX and Nano, JetPack 7',
      { cpuPercent: 2, cpuMHz: 1510, emcPercent: 2, emcMHz: 2133, gpuPercent: 30, gpuMHz: 612 },
      { hottestC: 48.5, zonesC: { cpu: 48.5, gpu: 47.9, tj: 48.5 } },
      { totalW: 6.12, scope: 'module', railsW: { VDD_IN: 6.12, VDD_CPU_GPU_CV: 1.01, VDD_SOC: 1.52 } },
    ],
    // This line has no load of the GPU.
    [
      'Thor, JetPack 7',
      { cpuPercent: 2, cpuMHz: 2601, emcMHz: 4266, gpuMHz: 1000 },
      { hottestC: 40.1, zonesC: { cpu: 40.1 } },
      {},
    ],
  ])('of %s gives load, temperatures and power', (board, load, temperatures, power) => {
    expect(parseTegrastats(lineOf(board)).part).toEqual({ load, temperatures, power })
  })

  it('is parsed around unknown words', () => {
    const { part, unknown } = parseTegrastats('CPU [2%@1000] QUANTUM@[3] GR3D_FREQ 5% FLUX 7%?3 cpu@40C nonsense')
    expect(part).toMatchObject({ load: { cpuPercent: 2, gpuPercent: 5 }, temperatures: { zonesC: { cpu: 40 } } })
    expect(unknown).toEqual(['QUANTUM', 'FLUX', '7%?3', 'nonsense'])
  })

  it('may be any text', () => {
    const words = fc.constantFrom('RAM', 'CPU', '[', ']', '@', '%', 'C', 'mW', '/', ' ', 'GR3D_FREQ', 'off', '1', '-', '.', '\n')
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(words, { maxLength: 60 }).map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(text, (line) => {
        const { load = {} } = parseTegrastats(line).part
        for (const percent of [load.cpuPercent, load.gpuPercent, load.emcPercent].filter((value) => value != null)) {
          expect(percent).toBeGreaterThanOrEqual(0)
          expect(percent).toBeLessThanOrEqual(100)
        }
      }),
    )
  })
})

describe('the release of a Jetson', () => {
  it.each([
    ['# R32 (release), REVISION: 7.1, GCID: 29818004, BOARD: t186ref', '32.7.1', '4.6'],
    ['# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref', '35.4.1', '5'],
    ['# R36 (release), REVISION: 3.0, GCID: 36106755, BOARD: generic', '36.3.0', '6.0'],
    ['# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic', '36.4.0', '6.1'],
    ['# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic', '36.4.3', '6.2'],
    ['# R36 (release), REVISION: 4.7, GCID: 42132812, BOARD: generic', '36.4.7', '6.2.1'],
    ['# R36 (release), REVISION: 5.0, GCID: 43688277, BOARD: generic', '36.5.0', '6.2.2'],
    ['# R38 (release), REVISION: 2.0, GCID: 41844464, BOARD: generic', '38.2.0', '7.0'],
    ['# R38 (release), REVISION: 4.0, GCID: 43443517, BOARD: generic', '38.4.0', '7.1'],
    ['# R39 (release), REVISION: 2.0, GCID: 1, BOARD: generic', '39.2.0', '7.2'],
    ['# R41 (release), REVISION: 1.0', '41.1.0', undefined],
    // A revision between two known ones has no known JetPack.
    ['# R36 (release), REVISION: 4.30', '36.4.30', undefined],
  ])('%s', (line, l4t, jetpack) => {
    expect(parseTegraRelease(line)).toBe(l4t)
    expect(jetpackOf(l4t)).toBe(jetpack)
  })

  it('is not found in other text', () => {
    for (const text of ['', 'R36', '# R (release), REVISION: 4', 'Ubuntu 22.04']) expect(parseTegraRelease(text)).toBeUndefined()
  })

  it('does not match a module by part of a longer number', () => {
    expect(moduleOf('nvidia,p13701-0000', '')).toBeUndefined()
    expect(moduleOf('3767:0003', 'some carrier board')).toBe('Orin NX/Nano')
  })

  it('and its power mode are found on any line', () => {
    expect(parsePowerMode('NV Fan Mode:quiet\nNV Power Mode: MODE_15W_6CORE\n2\n')).toBe('MODE_15W_6CORE')
    expect(parsePowerMode('NV Power Mode:\n')).toBeUndefined()
  })
})

describe('/proc', () => {
  it('yields the load between two samples', () => {
    const then = parseCpuTimes('cpu  100 0 100 700 100 0 0 0 50 0\ncpu0 1\ncpu1 1\n')!
    expect(then).toEqual({ busy: 200, total: 1000, cores: 2 })
    expect(cpuPercent(then, { busy: 225, total: 1100, cores: 2 })).toBe(25)
    expect(cpuPercent(then, then)).toBeUndefined()
    expect(cpuPercent(then, { busy: 190, total: 1100, cores: 2 })).toBe(0)
  })

  it.each(['', 'cpu', 'cpu a b c d', 'intr 5'])('may contain other text: %j', (text) => {
    expect(parseCpuTimes(text)).toBeUndefined()
  })

  it('yields free memory on kernels without MemAvailable', () => {
    expect(parseMeminfo('MemTotal:  100 kB\nMemFree:  40 kB\n')).toEqual({
      totalBytes: 102_400,
      freeBytes: 40_960,
      swapTotalBytes: null,
      swapFreeBytes: null,
      gpuUsedBytes: null,
    })
  })
})

describe('a battery', () => {
  it('of a mouse does not count, nor does a power supply', () => {
    expect(
      batteryOf([
        { type: 'Mains', online: 1 },
        { type: 'Battery', scope: 'Device', capacity: 5 },
      ]),
    ).toBeUndefined()
  })

  it.each([
    ['energy', { powerNow: 6_500_000 }, 6.5],
    ['charge', { currentNow: 1_000_000, voltageNow: 12_000_000 }, 12],
    ['charge, by a driver with the opposite sign', { currentNow: -1_000_000, voltageNow: 12_000_000 }, 12],
    ['charge without a voltage', { currentNow: -1_000_000 }, null],
  ])('by its %s', (_, power, powerW) => {
    expect(
      batteryOf([
        { type: 'Battery', status: 'Charging', capacity: 50, temp: 305, ...power },
        { type: 'USB', online: 1 },
      ]),
    ).toEqual({ levelPercent: 50, state: 'charging', powerW, tempC: 30.5, isPlugged: true })
  })

  it('of a phone has no power: the unit of its current is unknown', () => {
    const status = { plugged: 'PLUGGED_USB', status: 'NOT_CHARGING', temperature: 28.5, current: -218_000, percentage: 81 }
    expect(parseTermuxBattery(JSON.stringify(status))).toEqual({
      levelPercent: 81,
      state: 'idle',
      powerW: null,
      tempC: 28.5,
      isPlugged: true,
    })
    expect(parseTermuxBattery(JSON.stringify({ ...status, present: false }))).toBeNull()
    for (const text of ['', '{', '[]', '{"percentage":"81"}']) expect(parseTermuxBattery(text)).toBeUndefined()
  })
})
