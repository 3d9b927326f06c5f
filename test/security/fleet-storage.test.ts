import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  addedFleetTables,
  fleetTables,
  type OpenFleet,
  type OpenFleetOptions,
  openFleet,
} from '../../cloud-bridge/fleet/open-fleet.ts'
import { PresenceFeed } from '../../cloud-bridge/presence/presence-feed.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { fleetLimits } from '../support/registry.ts'
import { fresh } from '../support/shared.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { tempDir } from '../support/temp-dir.ts'

const kb = 1_024
const limits = {
  ...fleetLimits,
  deviceLogBytes: 64 * kb,
  deviceLogsBytes: 256 * kb,
  deviceStatesPerMinute: 6,
  deviceTelemetryBytes: 256 * kb,
  unenrolledDevices: 20,
}

const dir = fresh(tempDir)
let store: Store
const clock = fresh(fakeClock)
let fleet: OpenFleet
/** States that reached the job queue, and messages that the bridge could not take. */
let states: string[]
let faults: string[]
beforeEach(() => {
  store = openDatabase(join(dir.path, 'bridge.sqlite'), [...fleetTables, ...addedFleetTables])
  store.pragma('synchronous = OFF')
  states = []
  faults = []
  fleet = open()
})
afterEach(async () => {
  await fleet.close()
  store.close()
})

const open = () => {
  const presence = new PresenceFeed(silentLogger())
  presence.subscribe((event) => {
    if (event.kind === 'state') states.push(`${event.device} ${event.state.state} ${event.state.connection}`)
  })
  return openFleet({
    wallMs: Date.now,
    store,
    stateDir: dir.path,
    bridge: 'bridge-1',
    telemetrySamples: 8_640,
    limits,
    identities: { device: (id) => (id === 'enrolled' ? ({ status: 'approved' } as never) : undefined), devices: () => [] },
    jobs: { loads: { all: () => new Map() }, heldBy: () => [] } as unknown as OpenFleetOptions['jobs'],
    publish: () => {},
    onUnreadable: (device, leaf, reason) => void faults.push(`${leaf} of ${device}: ${reason}`),
    onBaseless: () => {},
    presence,
    clock,
    logger: silentLogger(),
  })
}

const at = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()
const message = (fields: object) => Buffer.from(JSON.stringify({ v: 1, birth: 1, at: at(0), ...fields }))
const publishState = (device: string, fields: object = {}) =>
  fleet.handlers.onDeviceState(device, message({ state: 'ready', ...fields }))
const speed = { prefillTokensPerS: null, draftStepMs: null }
const publishSample = (device: string, n: number, fields: object = {}) =>
  fleet.handlers.onDeviceTelemetry(device, message({ at: at(n), link: null, speed, ...fields }))
const line = (fields: object) => message({ level: 'warn', component: 'link', message: 'x'.repeat(500), fields, dropped: 0 })
/** A sample with this many bytes of a section; another `n`, other bytes. */
const large = (bytes: number, n = 0) => ({ throttling: { isThrottled: true, causes: [String(n).padEnd(bytes, 'x')] } })
const samplesOf = (device: string) => fleet.history.of(device, { limit: 100_000 }).samples

describe('a device that floods its state', () => {
  it('causes few commits, and its latest state counts in the end', async () => {
    for (let connection = 1; connection <= 1_000; connection++) publishState('evil', { connection })
    expect(states).toHaveLength(limits.deviceStatesPerMinute)
    publishState('honest', { connection: 1 })
    expect(states.at(-1)).toBe('honest ready 1')
    publishState('evil', { state: 'draining', connection: 1_001 })
    await clock.advance(11_000)
    expect(states.filter((state) => state.startsWith('evil'))).toHaveLength(limits.deviceStatesPerMinute + 1)
    expect(states.at(-1)).toBe('evil draining 1001')
    expect(fleet.fleet.device('evil')).toMatchObject({ state: 'draining' })
  })

  it('does not become lost by the late will of an earlier birth', async () => {
    for (let connection = 1; connection <= 10; connection++) publishState('evil', { birth: 1, connection })
    publishState('evil', { birth: 2, connection: 1 })
    publishState('evil', { birth: 1, state: 'lost' })
    await clock.advance(11_000)
    expect(fleet.fleet.device('evil')).toMatchObject({ state: 'ready', birth: 2 })
  })

  it('returns to the state that counts without a further change', async () => {
    for (let connection = 1; connection <= 6; connection++) publishState('evil', { connection })
    publishState('evil', { connection: 7 })
    publishState('evil', { connection: 6 })
    await clock.advance(60_000)
    expect(states.at(-1)).toBe('evil ready 6')
  })

  it('stores only a short version of its agent', () => {
    publishState('evil', { agent: 'x'.repeat(100_000) })
    expect(fleet.fleet.device('evil')).toBeUndefined()
    expect(faults).toEqual([expect.stringContaining('"agent"')])
  })
})

describe('devices that are not enrolled', () => {
  it('are registered up to a limit, and enrolled ones beyond it', () => {
    for (let i = 0; i < 100; i++) publishState(`ghost-${i}`)
    publishState('enrolled')
    expect(fleet.fleet.devices()).toHaveLength(21)
    expect(fleet.fleet.device('enrolled')).toMatchObject({ state: 'ready' })
    expect(faults.length).toBeGreaterThan(0)
    expect(faults.length).toBeLessThanOrEqual(10)
  })

  it('have no telemetry and no log stored before they are registered', () => {
    for (let i = 0; i < 50; i++) {
      publishSample(`ghost-${i}`, i)
      fleet.handlers.onDeviceLog(`ghost-${i}`, line({}))
    }
    expect(samplesOf('ghost-1')).toEqual([])
    expect(fleet.logs.of('ghost-1', 'debug', 10)).toEqual([])
  })
})

describe('telemetry', () => {
  it('is limited in the size of a sample, and the device receives a fault', () => {
    publishState('evil')
    publishSample('evil', 1, large(limits.telemetrySampleBytes))
    expect(samplesOf('evil')).toEqual([])
    expect(faults).toEqual([expect.stringMatching(/^telemetry of evil: \d+ bytes; the limit is 16384$/)])
  })

  it('is limited in bytes on disk for each device, after a restart too', async () => {
    publishState('evil')
    publishState('honest')
    publishSample('honest', 1)
    for (let n = 0; n < 15; n++) publishSample('evil', n, large(12 * kb, n))
    await fleet.close()
    fleet = open()
    for (let n = 15; n < 40; n++) publishSample('evil', n, large(12 * kb, n))
    const bytes = () => samplesOf('evil').reduce((sum, sample) => sum + JSON.stringify(sample).length, 0)
    expect(bytes()).toBeLessThan(limits.deviceTelemetryBytes)
    expect(bytes()).toBeGreaterThan(limits.deviceTelemetryBytes / 2)
    expect(samplesOf('evil').at(-1)).toMatchObject({ at: at(39) })
    expect(samplesOf('honest')).toHaveLength(1)
  })

  it('counts numbers that are longer when they are written again', () => {
    publishState('evil')
    const numbers = (n: number) => Array.from({ length: 1_000 }, (_, i) => `"z${i}":${n + 1}E20`).join(',')
    const sample = (n: number) =>
      `{"v":1,"birth":1,"at":"${at(n)}","link":null,"speed":{"prefillTokensPerS":null,"draftStepMs":null},` +
      `"temperatures":{"hottestC":null,"zonesC":{${numbers(n)}}}}`
    for (let n = 0; n < 40; n++) fleet.handlers.onDeviceTelemetry('evil', Buffer.from(sample(n)))
    const bytes = samplesOf('evil').reduce((sum, one) => sum + JSON.stringify(one).length, 0)
    expect(bytes).toBeLessThan(limits.deviceTelemetryBytes)
  })
})

it('the logs of devices are limited together, and the longest ones give', () => {
  publishState('honest')
  fleet.handlers.onDeviceLog('honest', line({ a: 1 }))
  const text = { b: 'x'.repeat(500) }
  for (let i = 0; i < 15; i++) {
    publishState(`evil-${i}`)
    for (let n = 0; n < 60; n++) fleet.handlers.onDeviceLog(`evil-${i}`, line(text))
  }
  const sizeOf = (device: string) => JSON.stringify(fleet.logs.of(device, 'debug', 1_000)).length
  const total = Array.from({ length: 15 }, (_, i) => sizeOf(`evil-${i}`)).reduce((sum, size) => sum + size, 0)
  expect(total).toBeLessThan(limits.deviceLogsBytes * 1.05)
  expect(fleet.logs.of('honest', 'debug', 10)).toMatchObject([{ fields: { a: 1 } }])
})
