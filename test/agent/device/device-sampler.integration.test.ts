import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { openHost, runDeviceTool } from '../../../agent/device/host.ts'
import type { Sample } from '../../../agent/device/sample.ts'
import { createSampler } from '../../../agent/device/sampler.ts'
import { systemInformation } from '../../../agent/device/sources/system-information.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { DeviceTelemetry } from '../../../core/wire/protocol/messages.ts'
import { type FixtureHost, fixtureHost } from '../../support/device-fixture.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const folder = tempDir()
afterAll(() => folder[Symbol.dispose]())
const opened: Disposable[] = []
afterEach(() => {
  for (const one of opened.splice(0)) one[Symbol.dispose]()
})
const never = new AbortController().signal

function open(name: string, clock = fakeClock()) {
  const device = fixtureHost(name)
  opened.push(device)
  const { logger, lines } = recordingLogger('warn')
  const sampler = createSampler({ host: device.host, clock, logger, stateDir: folder.path })
  return { ...device, clock, lines, sample: () => sampler.sample(never) }
}

/** Adds ticks of work and of idleness to the counters of the CPU. */
function addCpuTicks(device: Pick<FixtureHost, 'set'>, busy: number, idle: number): void {
  device.set({ '/proc/stat': `cpu  ${4000 + busy} 0 1000 ${14000 + idle} 1000 0 0 0 0 0\ncpu0 1\ncpu1 1\n` })
}

const mib = 2 ** 20

describe('a Jetson', () => {
  it.each<[string, { [Section in keyof Sample]?: Partial<Sample[Section]> | null }]>([
    [
      'agx-orin-jp6',
      {
        device: {
          kind: 'jetson',
          model: 'NVIDIA Jetson AGX Orin Developer Kit',
          module: 'AGX Orin',
          soc: 'tegra234',
          l4t: '36.4.3',
          jetpack: '6.2',
          os: 'Ubuntu 22.04.5 LTS',
          kernel: '5.15.148-tegra',
          powerMode: 'MAXN',
          cores: 12,
          uptimeS: 86_401,
        },
        load: { cpuPercent: null, gpuPercent: 14, emcPercent: null, cpuMHz: 1728, gpuMHz: 407, emcMHz: null },
        memory: { totalBytes: 64_349_180 * 1024, freeBytes: 45_000_000 * 1024, gpuUsedBytes: 2048 * mib },
        temperatures: { hottestC: 77.3, zonesC: { cpu: 77.3, gpu: 70.5, soc0: 72.1, tj: 77.3, tboard: 62 } },
        throttling: { isThrottled: false, causes: [] },
        power: {
          railsW: { VDD_GPU_SOC: 3.181, VDD_CPU_CV: 14.314, VIN_SYS_5V0: 4.97, VDDQ_VDD2_1V8AO: 1.093 },
          totalW: 23.558,
          scope: 'rails',
        },
        battery: null,
        fan: { dutyPercent: 50, rpm: 1850 },
      },
    ],
    [
      'agx-orin-jp7',
      {
        device: { module: 'AGX Orin', l4t: '39.2.0', jetpack: '7.2', powerMode: '50W' },
        load: { gpuPercent: 12, gpuMHz: 1300 },
        throttling: { isThrottled: true, causes: ['cooling cpufreq-cpu0', 'over-current VIN_SYS_5V0'] },
        fan: null,
      },
    ],
    [
      'orin-nx-jp5',
      {
        device: { module: 'Orin NX', l4t: '35.4.1', jetpack: '5', powerMode: '25W' },
        load: { gpuPercent: 99.6, emcPercent: 40, emcMHz: 3199 },
        temperatures: { hottestC: 61.8, zonesC: { cpu: 61.8, gpu: 60.5, soc0: 58, tj: 61.8 } },
        power: { totalW: 12.173, scope: 'module' },
        fan: { dutyPercent: 30, rpm: 2210 },
      },
    ],
    [
      'orin-nano-jp6',
      {
        device: { module: 'Orin Nano', l4t: '36.4.7', jetpack: '6.2.1', powerMode: '15W' },
        load: { gpuPercent: 0 },
        power: { totalW: 4.854, scope: 'module' },
        fan: { dutyPercent: 0, rpm: 0 },
      },
    ],
    [
      'agx-xavier-jp5',
      {
        device: { module: 'AGX Xavier', soc: 'tegra194', l4t: '35.2.1', jetpack: '5', powerMode: null },
        load: { gpuPercent: 50, gpuMHz: 675 },
        temperatures: { hottestC: 45, zonesC: { cpu: 45, gpu: 44.5, aux: 43.5 } },
        power: { totalW: 11.5, scope: 'rails' },
        fan: { dutyPercent: 100, rpm: 3100 },
      },
    ],
    [
      'xavier-nx-jp4',
      {
        device: { module: 'Xavier NX', l4t: '32.7.1', jetpack: '4.6', powerMode: 'MODE_15W_6CORE' },
        power: { railsW: { VDD_IN: 5.08, VDD_CPU_GPU_CV: 0.695, VDD_SOC: 1.105 }, totalW: 5.08, scope: 'module' },
        throttling: { isThrottled: null, causes: [] },
      },
    ],
    [
      'nano-jp4',
      {
        device: { module: 'Nano', soc: 'tegra210', l4t: '32.7.6', jetpack: '4.6', powerMode: 'MAXN' },
        load: { gpuPercent: 0, gpuMHz: 77 },
        power: { railsW: { POM_5V_IN: 1.385, POM_5V_GPU: 0.12, POM_5V_CPU: 0.16 }, totalW: 1.385, scope: 'module' },
        fan: { dutyPercent: 0, rpm: null },
      },
    ],
    [
      'agx-orin-jp5',
      {
        device: { module: 'AGX Orin', l4t: '35.4.1', jetpack: '5', powerMode: 'MODE_30W' },
        load: { gpuPercent: 42, gpuMHz: 816 },
        temperatures: { hottestC: 77.3, zonesC: { cpu: 77.3, gpu: 70.5, soc0: 72.1, tj: 77.3, tboard: 62 } },
        throttling: { isThrottled: false, causes: [] },
        power: { totalW: 23.558, scope: 'rails' },
        fan: { dutyPercent: 50, rpm: 1720 },
      },
    ],
    [
      'orin-nx-jp6',
      {
        device: { module: 'Orin NX', l4t: '36.4.0', jetpack: '6.1', powerMode: '25W' },
        load: { gpuPercent: 87.3, gpuMHz: 714 },
        temperatures: { hottestC: 93.5 },
        throttling: { isThrottled: true, causes: ['cooling cpufreq-cpu0'] },
        power: { totalW: 20.73, scope: 'module' },
        fan: { dutyPercent: 100, rpm: 5400 },
      },
    ],
    [
      'orin-nano-jp7',
      {
        device: { module: 'Orin Nano', l4t: '39.2.0', jetpack: '7.2', powerMode: 'MAXN_SUPER' },
        load: { gpuPercent: 30.5, gpuMHz: 612, emcPercent: null, emcMHz: 2133 },
        power: { totalW: 4.854, scope: 'module' },
      },
    ],
    [
      'xavier-nx-jp5',
      {
        device: { module: 'Xavier NX', soc: 'tegra194', l4t: '35.6.1', jetpack: '5', powerMode: 'MODE_20W_6CORE' },
        load: { gpuPercent: 64.2 },
        power: { railsW: { VDD_IN: 10.08, VDD_CPU_GPU_CV: 4.536, VDD_SOC: 1.512 }, totalW: 10.08, scope: 'module' },
        fan: { dutyPercent: 47, rpm: 3050 },
      },
    ],
  ])('%s reports its identity and condition', async (name, expected) => {
    const device = open(name)
    expect(await device.sample()).toMatchObject(expected)
    expect(device.lines).toEqual([])
    expect(device.ran.filter((line) => line.startsWith('tegrastats'))).toEqual([])
  })

  it('whose files have moved is measured by tegrastats, and an unknown name is logged once', async () => {
    const device = open('unknown-release')
    for (let second = 0; second < 60; second += 10) {
      expect(await device.sample()).toMatchObject({
        device: { l4t: '41.1.0', jetpack: null, powerMode: null },
        load: { gpuPercent: 14, gpuMHz: 407, emcPercent: 1, emcMHz: 2133 },
        // Files take precedence.
        temperatures: { zonesC: { cpu: 50 } },
        power: { totalW: 17.462, scope: 'rails' },
      })
      await device.clock.advance(10_000)
    }
    expect(device.ran.sort()).toEqual(['nvpmodel -q', 'tegrastats --interval 500', 'tegrastats --interval 500'])
    expect(device.lines.map(({ source, unknown }) => `${source}: ${unknown}`).sort()).toEqual([
      'jetson: nvpmodel',
      'tegrastats: 7%?3',
      'tegrastats: QUANTUM_FLUX',
    ])
  })

  it('whose GPU load neither files nor tegrastats report has none', async () => {
    const device = open('agx-thor-jp7')
    for (let second = 0; second < 30; second += 10) {
      expect(await device.sample()).toMatchObject({
        device: { module: 'Thor', soc: 'tegra264', l4t: '38.2.0', jetpack: '7.0', powerMode: '120W' },
        load: { gpuPercent: null, gpuMHz: 1000, emcPercent: null, emcMHz: 4266 },
        temperatures: { hottestC: 53 },
        power: { railsW: {}, totalW: null, scope: null },
        fan: { dutyPercent: 25, rpm: 1480 },
      })
      await device.clock.advance(10_000)
    }
    expect(device.ran.filter((line) => line.startsWith('tegrastats'))).toHaveLength(1)
    expect(device.lines).toEqual([])
  })

  it('whose GPU is not readable reports no GPU figures', async () => {
    const device = open('agx-orin-jp6')
    device.set({ '/sys/class/devfreq/17000000.gpu/device/load': 'busy\n' })
    expect(await device.sample()).toMatchObject({ load: { gpuPercent: null, gpuMHz: 407 } })
  })

  it('never reports a negative power', async () => {
    const device = open('orin-nano-jp6')
    device.set({ '/sys/bus/i2c/devices/1-0040/hwmon/hwmon1/curr1_input': '-8\n' })
    expect(await device.sample()).toMatchObject({ power: { totalW: 0, railsW: { VDD_IN: -0.04 } } })
  })

  it('runs nvpmodel once in five minutes', async () => {
    const device = open('orin-nano-jp6')
    const asked = async (advanceMs: number) => {
      await device.clock.advance(advanceMs)
      await device.sample()
      return device.ran.filter((line) => line === 'nvpmodel -q').length
    }
    expect([await asked(0), await asked(290_000), await asked(10_000)]).toEqual([1, 1, 2])
  })
})

describe('other devices', () => {
  it('a laptop: two batteries as one, without the mouse; its power; its throttling', async () => {
    const device = open('laptop')
    expect(await device.sample()).toMatchObject({
      device: { kind: 'linux', model: 'LENOVO 20W0CTO1WW', module: null, l4t: null, powerMode: 'balanced' },
      load: { gpuPercent: 37, cpuMHz: 2800 },
      battery: { levelPercent: 60, state: 'discharging', powerW: 6.5, tempC: 31.2, isPlugged: false },
      power: { railsW: {}, totalW: 6.5, scope: 'battery' },
      temperatures: { hottestC: 55, zonesC: { acpitz: 47, x86_pkg_temp: 55, iwlwifi_1: 41, 'acpitz-2': 39 } },
      throttling: { isThrottled: true, causes: ['cooling Processor'] },
      fan: { dutyPercent: null, rpm: 2600 },
    })
    expect(device.ran).toEqual([])
  })

  it('a laptop on its charger: unknown power', async () => {
    const device = open('laptop')
    device.set({
      '/sys/class/power_supply/AC/online': '1\n',
      '/sys/class/power_supply/BAT0/status': 'Charging\n',
    })
    expect(await device.sample()).toMatchObject({
      battery: { state: 'charging', isPlugged: true },
      power: { totalW: null, scope: null },
    })
  })

  it('a server: figures without a sensor are unknown, not zero', async () => {
    const { disk, device, memory, network, ...rest } = await open('server').sample()
    expect(rest).toEqual({
      load: { cpuPercent: null, gpuPercent: null, emcPercent: null, cpuMHz: null, gpuMHz: null, emcMHz: null },
      temperatures: { hottestC: null, zonesC: {} },
      throttling: { isThrottled: null, causes: [] },
      power: { railsW: {}, totalW: null, scope: null, jPerToken: null },
      battery: null,
      fan: null,
    })
    expect(device).toMatchObject({ kind: 'linux', cores: 2, powerMode: null })
    expect(memory.freeBytes).toBe(23_050_264 * 1024)
    expect(network).toEqual({
      eth0: { kind: 'ethernet', isUp: true, linkMbitPerS: null, rxBytesPerS: null, txBytesPerS: null },
    })
    expect(disk.totalBytes).toBeGreaterThan(disk.freeBytes!)
  })

  it('a phone: the battery from its program, once a minute', async () => {
    const device = open('termux')
    for (let second = 0; second < 60; second += 10) {
      expect(await device.sample()).toMatchObject({
        device: { kind: 'termux', cores: null, uptimeS: null },
        load: { cpuPercent: null },
        memory: { freeBytes: 3_100_000 * 1024 },
        battery: { levelPercent: 81, state: 'discharging', powerW: null, tempC: 28.7, isPlugged: false },
      })
      await device.clock.advance(10_000)
    }
    await device.sample()
    expect(device.ran).toEqual(['termux-battery-status', 'termux-battery-status'])
  })

  it('counters become loads and rates between two samples', async () => {
    const device = open('laptop')
    await device.sample()
    await device.clock.advance(10_000)
    addCpuTicks(device, 300, 900)
    device.set({ '/sys/class/net/wlp0s20f3/statistics/rx_bytes': '27000\n' })
    expect(await device.sample()).toMatchObject({
      load: { cpuPercent: 25 },
      network: {
        wlp0s20f3: { kind: 'wifi', isUp: true, rxBytesPerS: 2000, txBytesPerS: 0 },
        enp0s31f6: { kind: 'ethernet', isUp: false },
        wwan0: { kind: 'cellular', isUp: null },
      },
    })
    expect(Object.keys((await device.sample()).network).sort()).toEqual(['enp0s31f6', 'wlp0s20f3', 'wwan0'])
  })

  it('a system without /proc: figures from systeminformation, once a minute, and from Node', async () => {
    const device = fixtureHost('server')
    opened.push(device)
    const host = { ...device.host, text: async () => undefined }
    const { logger, lines } = recordingLogger('warn')
    const clock = fakeClock()
    const sampler = createSampler({ host, clock, logger, stateDir: folder.path })
    expect(await sampler.sample(never)).toMatchObject({
      device: { kind: 'other', os: expect.any(String), cores: expect.any(Number), uptimeS: expect.any(Number) },
      memory: { totalBytes: expect.any(Number), freeBytes: expect.any(Number), swapTotalBytes: expect.any(Number) },
      disk: { totalBytes: expect.any(Number) },
    })
    expect(lines).toEqual([])
  })

  describe('a Mac', () => {
    const information = {
      system: { manufacturer: 'Apple Inc.', model: 'MacBookPro18,3' },
      osInfo: { distro: 'macOS', release: '14.5' },
      battery: { hasBattery: true, percent: 81, isCharging: false, acConnected: false },
      cpuTemperature: { main: null },
      mem: { total: 16e9, available: 9e9, free: 1e8, swaptotal: 2e9, swapfree: 1e9 },
    }
    const source = (more: object = {}) => {
      const clock = fakeClock()
      let asked = 0
      const answers = Object.entries({ ...information, ...more }).map(([what, answer]) => [what, async () => answer])
      const mac = systemInformation(clock, async () => {
        asked++
        return Object.fromEntries(answers)
      })
      return { clock, read: () => mac.read(never, () => {}), asked: () => asked }
    }

    it('reports its model, battery and memory', async () => {
      expect(await source().read()).toEqual({
        device: { model: 'Apple Inc. MacBookPro18,3', os: 'macOS 14.5' },
        battery: { levelPercent: 81, state: 'discharging', powerW: null, tempC: null, isPlugged: false },
        temperatures: {},
        memory: { totalBytes: 16e9, freeBytes: 9e9, swapTotalBytes: 2e9, swapFreeBytes: 1e9 },
      })
    })

    it.each([
      ['charging', { hasBattery: true, percent: 81, isCharging: true, acConnected: true }],
      ['full', { hasBattery: true, percent: 100, isCharging: false, acConnected: true }],
      ['idle', { hasBattery: true, percent: 80, isCharging: false, acConnected: true }],
    ])('is %s', async (state, battery) => {
      expect(await source({ battery }).read()).toMatchObject({ battery: { state, isPlugged: true } })
    })

    it('without a battery reports none rather than an empty one, and no temperature that is unknown', async () => {
      const battery = { hasBattery: false, percent: 0, isCharging: false, acConnected: true }
      expect(await source({ battery, cpuTemperature: { main: -1 } }).read()).toMatchObject({ battery: null, temperatures: {} })
      expect(await source({ cpuTemperature: { main: 51.5 } }).read()).toMatchObject({ temperatures: { hottestC: 51.5 } })
    })

    it('is queried once a minute', async () => {
      const mac = source()
      for (let second = 0; second < 120; second += 10) {
        await mac.read()
        await mac.clock.advance(10_000)
      }
      expect(mac.asked()).toBe(2)
    })
  })

  it('this machine: a valid sample', async () => {
    const { logger, lines } = recordingLogger('warn')
    const sampler = createSampler({ host: openHost(), clock: systemClock, logger, stateDir: folder.path })
    const sample = await sampler.sample(never)
    expect(sample.memory.totalBytes).toBeGreaterThan(0)
    expect(sample.memory.freeBytes).toBeLessThanOrEqual(sample.memory.totalBytes!)
    expect(lines).toEqual([])
  })
})

it('every fixture yields telemetry that a bridge reads without loss', async () => {
  const names = readdirSync(fileURLToPath(new URL('../../../jetson/fixtures', import.meta.url)))
  const devices = names.filter((name) => name.endsWith('.json') && name !== 'tegrastats.json')
  expect(devices.length).toBeGreaterThan(14)
  for (const name of devices) {
    const sample = await open(name.replace('.json', '')).sample()
    const telemetry = {
      v: 1,
      at: '2026-01-02T03:04:05.678Z',
      birth: 1,
      link: null,
      speed: { prefillTokensPerS: null, draftStepMs: null },
    }
    // Readers add what the sampler does not measure, as null.
    const power = { idleW: null, busyW: null, ...sample.power }
    const read = DeviceTelemetry.parse(JSON.parse(JSON.stringify({ ...telemetry, ...sample })))
    expect(read).toEqual({ ...telemetry, ...sample, power })
  }
})

describe('a failing source', () => {
  it('that hangs is skipped, logged once, and read again when it has finished', async () => {
    const clock = fakeClock()
    const device = fixtureHost('orin-nano-jp6')
    opened.push(device)
    const { logger, lines } = recordingLogger('warn')
    let answer: (text: string) => void = () => {}
    let asked = 0
    const host = {
      ...device.host,
      run: () => {
        asked++
        return new Promise<string>((resolve) => {
          answer = resolve
        })
      },
    }
    const sampler = createSampler({ host, clock, logger, stateDir: folder.path })
    let done = false
    const first = sampler.sample(never).finally(() => {
      done = true
    })
    await expect.poll(() => asked).toBe(1)
    await expect
      .poll(async () => {
        await clock.advance(1_000)
        return done
      })
      .toBe(true)
    expect(await first).toMatchObject({ device: { kind: 'jetson', l4t: null } })
    // The other sources are read, and the hanging one is not started a second time.
    await expect
      .poll(() => sampler.sample(never))
      .toMatchObject({ device: { l4t: null, model: expect.stringContaining('Orin Nano') }, power: { totalW: 4.854 } })
    expect(asked).toBe(1)
    answer('NV Power Mode: 7W\n')
    await expect.poll(async () => (await sampler.sample(never)).device.powerMode).toBe('7W')
    expect(lines.filter(({ source }) => source === 'jetson')).toMatchObject([{ unknown: 'timeout' }])
  })

  it('that throws loses only its own figures', async () => {
    const device = open('laptop')
    const { logger, lines } = recordingLogger('warn')
    const sampler = createSampler({ host: device.host, clock: fakeClock(), logger, stateDir: `${folder.path}/gone` })
    for (let time = 0; time < 3; time++)
      expect(await sampler.sample(never)).toMatchObject({ disk: { totalBytes: null }, battery: { levelPercent: 60 } })
    expect(lines).toMatchObject([{ source: 'disk', msg: 'source failed, skipped' }])
  })
})

describe('a program', () => {
  const limits = { timeoutMs: 30_000, signal: never }

  it('returns its output', async () => {
    expect(await runDeviceTool('printf', ['a\\nb\\n'], limits)).toBe('a\nb\n')
  })

  it('that never ends is stopped after its first line', async () => {
    expect(await runDeviceTool('yes', ['RAM 1/2MB'], { ...limits, firstLine: true })).toBe('RAM 1/2MB')
  })

  it('that hangs is killed, even if a child holds its output open', async () => {
    expect(await runDeviceTool('sh', ['-c', 'sleep 5 & sleep 5'], { ...limits, timeoutMs: 50 })).toBeUndefined()
  })

  it('that is missing or fails returns nothing', async () => {
    expect(await runDeviceTool('no-such-program-here', [], limits)).toBeUndefined()
    expect(await runDeviceTool('sh', ['-c', 'echo half; exit 3'], limits)).toBeUndefined()
  })
})
