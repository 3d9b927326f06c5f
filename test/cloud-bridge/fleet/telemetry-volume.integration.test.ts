import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { createSampler } from '../../../agent/device/sampler.ts'
import { ConditionMonitor } from '../../../agent/telemetry/condition-monitor.ts'
import { measurementsOf } from '../../../agent/telemetry/measurements.ts'
import { RecentErrors } from '../../../agent/telemetry/recent-errors.ts'
import { SampleEncoder } from '../../../agent/telemetry/sample-encoder.ts'
import { createHistory, historyTables } from '../../../cloud-bridge/fleet/history.ts'
import { TelemetryReader } from '../../../cloud-bridge/fleet/telemetry-reader.ts'
import { AnswerMeter } from '../../../core/answer/endpoint/meter.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { LinkRates } from '../../../core/policy/estimate/link-rates.ts'
import type { DeviceTelemetry } from '../../../core/wire/protocol/messages.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const everyS = 10
const monthS = 30 * 86_400
/** Of a QoS 1 PUBLISH: fixed header, length of the topic, packet id; then the topic. */
const publishBytes = 3 + 2 + 2 + 'brim/v1/default/device/jetson-01/telemetry'.length
/** The state, republished every ten minutes, with its topic. */
const stateBytes = 500
const start = Date.UTC(2026, 5, 1)

/** An idle device: the sensors of a Jetson with their noise, sampled and encoded as by an agent at its defaults. */
async function idleDevice(onSample: (text: string) => void, samples: number): Promise<void> {
  using device = fixtureHost('orin-nano-jp6')
  const clock = fakeClock()
  const random = seededRandom(3)
  const about = (value: number, noise: number) => Math.round(value + noise * (random.next() + random.next() - 1))
  const monitor = new ConditionMonitor({
    sampler: createSampler({ host: device.host, stateDir: '/', clock, logger: silentLogger() }),
    answers: new AnswerMeter(clock),
    errors: new RecentErrors(),
    agent: '0.2.0',
    modelId: () => 'a'.repeat(64),
    work: () => ({
      bundles: { llm: { name: 'Llama-3.2-1B-Instruct', modelId: 'a'.repeat(64) }, slm: null },
      jobs: { waiting: 0, running: 0 },
      spool: { waiting: 0, bytes: 8_192, dropped: { full: 0, old: 0, unstored: 0 } },
    }),
    prefillTokensPerS: () => ({}),
  })
  const encoder = new SampleEncoder(12, {})
  const rates = new LinkRates()
  const hwmon = '/sys/bus/i2c/devices/1-0040/hwmon/hwmon1'
  const zone = (n: number) => `/sys/devices/virtual/thermal/thermal_zone${n}/temp`
  let busy = 5_000
  for (let n = 0; n < samples; n++) {
    busy += about(180, 60)
    const warmth = 1_000 * Math.sin((n * everyS) / 7_000)
    device.set({
      '/proc/uptime': `${86_400 + n * everyS}.52 300000.00\n`,
      '/proc/stat': `cpu  ${busy} 0 1000 ${14_000 + n * 6_000 - busy} 1000 0 0 0 0 0\n`,
      '/proc/meminfo': [
        'MemTotal:         7802000 kB',
        `MemAvailable:     ${about(5_200_000, 6_000)} kB`,
        'SwapTotal:        3900000 kB',
        'SwapFree:         3900000 kB',
        '',
      ].join('\n'),
      '/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq': `${random.next() < 0.8 ? 729_600 : 1_190_400}\n`,
      [zone(0)]: `${about(48_500 + warmth, 400)}\n`,
      [zone(1)]: `${about(47_900 + warmth, 300)}\n`,
      [zone(2)]: `${about(48_500 + warmth, 400)}\n`,
      [`${hwmon}/curr1_input`]: `${about(960, 24)}\n`,
      [`${hwmon}/curr2_input`]: `${about(120, 16)}\n`,
      [`${hwmon}/curr3_input`]: `${about(250, 8)}\n`,
    })
    await clock.advance(everyS * 1_000)
    await monitor.sample(new AbortController().signal)
    const measured = measurementsOf({ bridge: 'bridge-1', rates }, { prefillTokensPerS: 900, draftStepS: 0.004 }, monitor.latest)
    const ms = n * everyS * 1_000 + about(20, 20)
    onSample(encoder.encode(measured, 'bridge-1:1 1 0', { ms, at: new Date(start + ms).toISOString(), clockIsSet: true }))
  }
}

it('an idle device sends at most 60 MB of telemetry a month, of which the bridge loses nothing and stores at most 2 MB a day', async () => {
  using dir = tempDir()
  const path = join(dir.path, 'telemetry.sqlite')
  const store = openDatabase(path, historyTables, 'NORMAL')
  store.pragma('wal_checkpoint(TRUNCATE)')
  const emptyBytes = statSync(path).size
  // An hour and a half: sampling a whole day takes minutes.
  const samples = 540
  const perDay = 86_400 / everyS / samples
  const history = createHistory({
    store,
    maxSamples: samples,
    maxDeviceBytes: 64 * 2 ** 20,
    clock: fakeClock(),
    wallMs: () => start + 2 * 86_400_000,
    logger: silentLogger(),
  })
  const reader = new TelemetryReader(16 * 1_024)
  const sent: Omit<DeviceTelemetry, 'v'>[] = []
  let bytes = 0
  await idleDevice((text) => {
    bytes += text.length + publishBytes
    const read = reader.read('jetson-01', Buffer.from(text), true)
    if (read.kind !== 'message') throw new Error(`${read.kind}: ${text}`)
    const { v: _, ...measured } = read.message.telemetry
    sent.push(measured)
    history.add('jetson-01', read.message)
  }, samples)
  const { samples: stored } = history.of('jetson-01', { limit: samples })
  expect(stored.map(({ heardAt: _, ...measured }) => measured)).toEqual(JSON.parse(JSON.stringify(sent)))
  await history.close()
  store.pragma('wal_checkpoint(TRUNCATE)')
  store.close()
  const monthMb = (bytes * perDay * 30 + (stateBytes * monthS) / 600) / 1e6
  const dayMb = ((statSync(path).size - emptyBytes) * perDay) / 1e6
  console.info(`${monthMb.toFixed(1)} MB a month, ${dayMb.toFixed(2)} MB stored a day`)
  expect(monthMb).toBeLessThanOrEqual(60)
  expect(dayMb).toBeLessThanOrEqual(2)
}, 120_000)
