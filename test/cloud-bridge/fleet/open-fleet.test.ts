import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import {
  addedFleetTables,
  fleetTables,
  type OpenFleet,
  type OpenFleetOptions,
  openFleet,
} from '../../../cloud-bridge/fleet/open-fleet.ts'
import { PresenceFeed } from '../../../cloud-bridge/presence/presence-feed.ts'
import { openDatabase, type Store } from '../../../core/kit/store/open-database.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { fleetLimits } from '../../support/registry.ts'
import { fresh } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = fresh(tempDir)
let store: Store
const clock = fresh(fakeClock)
let opened: OpenFleet
let events: string[]
beforeEach(() => {
  store = openDatabase(join(dir.path, 'bridge.sqlite'), [...fleetTables, ...addedFleetTables])
  events = []
  const presence = new PresenceFeed(silentLogger())
  presence.subscribe((event) => {
    const proof = 'isUnproven' in event ? ' unproven' : ''
    events.push(event.kind === 'state' ? `${event.device} ${event.state.state}${proof}` : event.kind)
  })
  opened = openFleet({
    wallMs: Date.now,
    store,
    stateDir: dir.path,
    bridge: 'bridge-1',
    telemetrySamples: 10,
    limits: fleetLimits,
    identities: { device: () => undefined, devices: () => [] },
    jobs: { loads: { all: () => new Map() }, heldBy: () => [] } as unknown as OpenFleetOptions['jobs'],
    publish: () => {},
    onUnreadable: (device, leaf, reason) => expect.fail(`${leaf} of ${device}: ${reason}`),
    onBaseless: (device) => expect.fail(`delta of ${device} without its base`),
    presence,
    clock,
    logger: silentLogger(),
  })
})
afterEach(async () => {
  await opened.close()
  store.close()
})

const at = (n: number) => new Date(Date.UTC(2026, 0, 1) + n * 1_000).toISOString()
const message = (fields: object) => Buffer.from(JSON.stringify({ v: 1, birth: 1, at: at(0), ...fields }))

it('expires heartbeats only while the broker is connected', async () => {
  let isConnected = false
  opened.watchHeartbeats(() => isConnected)
  opened.handlers.onDeviceState('a', message({ state: 'ready', heartbeatS: 5, connection: 1 }))
  await clock.advance(60_000)
  expect(new Set(events)).toEqual(new Set(['a ready', 'broker lost']))
  isConnected = true
  await clock.advance(10_000)
  expect(events).not.toContain('a lost')
  await clock.advance(15_000)
  expect(events.at(-1)).toBe('a lost')
  expect(opened.fleet.device('a')).toMatchObject({ state: 'lost', problems: [{ kind: 'lost' }] })
})

it('retains the configured number of samples', () => {
  opened.handlers.onDeviceState('a', message({ state: 'ready' }))
  const speed = { prefillTokensPerS: null, draftStepMs: null }
  for (let n = 0; n < 200; n++) opened.handlers.onDeviceTelemetry('a', message({ at: at(n), link: null, speed }))
  const { samples } = opened.history.of('a', { limit: 1_000 })
  expect(samples.length).toBeGreaterThanOrEqual(10)
  expect(samples.length).toBeLessThan(100)
  expect(samples.at(-1)).toMatchObject({ at: at(199) })
})

it('counts a state that the broker had retained as unproven until the device sends something', async () => {
  const state = message({ state: 'ready', heartbeatS: 30, connection: 1 })
  for (const device of ['a', 'b', 'c']) opened.handlers.onDeviceState(device, state, true)
  opened.handlers.onDeviceState('a', state, true)
  expect(events).toEqual(['a ready unproven', 'b ready unproven', 'c ready unproven'])
  events = []
  opened.handlers.onDeviceState('a', state)
  expect(events).toEqual(['a ready'])
  opened.handlers.onDeviceTelemetry('b', message({ link: null, speed: { prefillTokensPerS: null, draftStepMs: null } }))
  await clock.advance(1_000)
  expect(events).toEqual(['a ready', 'b ready'])
  opened.handlers.onDeviceState('a', state, true)
  opened.handlers.onDeviceState('b', state)
  await clock.advance(1_000)
  expect(events).toHaveLength(2)
})
