import { join } from 'node:path'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { type BridgeSettings, readBridgeConfig } from '../../cloud-bridge/config.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { LoggedStep } from '../../core/wire/protocol/http/bridge.ts'
import { BridgeState } from '../../core/wire/protocol/messages.ts'
import { concatStates, type States, sliceStates } from '../../core/wire/protocol/states.ts'
import { bridgeStateTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { healthOf as health, startTestBridge, type TestBridge } from '../support/bridge.ts'
import { brim } from '../support/brim.ts'
import { mqttClient, powerCut, startBroker, watchTopic } from '../support/broker.ts'
import { captureIo } from '../support/captured-io.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { largestDifference, randomStates } from '../support/random-states.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'
import { connectDevice, type SendOptions, type TestDevice } from '../support/test-device.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)
const dir = shared(tempDir)
let width: number

beforeAll(async () => {
  width = bundle.manifest.dims.hidden
})

const start = (settings: Partial<BridgeSettings> = {}, clock?: Clock) =>
  startTestBridge({ bundle: bundle.path, stateDir: join(dir.path, `state-${Math.random()}`), ...settings }, clock)

/** A prompt in three pipelined chunks, then rounds of verification of which some are rolled back. */
async function converse(device: TestDevice, bridge: TestBridge, seed: number): Promise<States> {
  const session = await device.open(bridge.modelId)
  const rows = randomStates(64, width, seed)
  const seqs = [0, 1, 2].map((i) =>
    device.send(session, { base: 10 * i, states: sliceStates(rows, 10 * i, 10 * i + 10), want: i === 2 ? 1 : 0 }),
  )
  const replies = [await device.reply(session, seqs[2]!)]
  const deep: States[] = []
  let base = 30
  for (let round = 0; round < 12; round++) {
    deep.push(await device.rows(session, { base, states: sliceStates(rows, base, base + 4) }))
    base += 1 + (round % 3)
  }
  device.sendMessage({ type: 'close', session: session.hex })
  expect(replies[0]?.type).toBe('deep')
  return concatStates(deep, width)
}

describe('the bridge on a real bundle', () => {
  it('describes itself at /health, and rejects unknown paths, methods and web pages', async () => {
    await using bridge = await start()
    expect(await health(bridge)).toMatchObject({
      ok: true,
      version: expect.any(String),
      modelId: bundle.manifest.modelId,
      sessions: 0,
      kvBytes: 0,
      uptimeS: expect.any(Number),
    })
    expect((await fetch(`${bridge.httpUrl}/elsewhere`)).status).toBe(404)
    expect((await fetch(`${bridge.httpUrl}/health`, { method: 'POST' })).status).toBe(405)
    expect((await fetch(`${bridge.httpUrl}/health`, { headers: { origin: 'https://example.org' } })).status).toBe(403)
  })

  it('computes the same bits for devices that share packed steps as for each alone', async () => {
    await using bridge = await start()
    const seeds = [1, 2, 3, 4, 5]
    const alone: States[] = []
    for (const seed of seeds) {
      await using device = await connectDevice(bridge.dataUrl, `alone-${seed}`, width)
      alone.push(await converse(device, bridge, seed))
    }
    const before = (await health(bridge)).serving
    expect(before.batches.slice(2).every((count) => count === 0)).toBe(true)
    const together = await Promise.all(
      seeds.map(async (seed) => {
        await using device = await connectDevice(bridge.dataUrl, `together-${seed}`, width)
        return await converse(device, bridge, seed)
      }),
    )
    const after = (await health(bridge)).serving
    expect(after.batches.slice(2).reduce((sum, count) => sum + count)).toBeGreaterThan(5)
    expect(together).toEqual(alone)
    expect(await health(bridge)).toMatchObject({ sessions: 0, kvBytes: 0 })
  })

  it('splits a frame above the token budget into steps, and lists each at /v1/steps', async () => {
    await using bridge = await start({ tokenBudget: 16, chunkTokens: 16, frameTokens: 64 })
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const rows = randomStates(60, width, 1)
    const whole = await device.open(bridge.modelId)
    const inOneFrame = await device.rows(whole, { base: 0, states: rows })
    const { steps } = (await (await fetch(`${bridge.httpUrl}/v1/steps`)).json()) as { steps: LoggedStep[] }
    expect(steps.map(({ index, items, tokens }) => ({ index, items, tokens }))).toEqual([
      { index: 0, items: 1, tokens: 16 },
      { index: 1, items: 1, tokens: 16 },
      { index: 2, items: 1, tokens: 16 },
      { index: 3, items: 1, tokens: 12 },
    ])
    expect(steps.map(({ predictedMs }) => predictedMs === null)).toEqual([true, false, false, false])
    for (const { computeMs } of steps) expect(computeMs).toBeGreaterThan(0)
    expect(steps.map(({ startMs }) => startMs)).toEqual(steps.map(({ startMs }) => startMs).sort((a, b) => a - b))
    const pieces = await device.open(bridge.modelId)
    const inFour: States[] = []
    for (const [from, to] of [
      [0, 16],
      [16, 32],
      [32, 48],
      [48, 60],
    ] as const)
      inFour.push(await device.rows(pieces, { base: from, states: sliceStates(rows, from, to) }))
    expect(inOneFrame).toEqual(concatStates(inFour, width))
  })

  it('computes after a rollback the same rows as a fresh session', async () => {
    await using bridge = await start()
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const [kept, dropped, next] = [randomStates(9, width, 1), randomStates(7, width, 2), randomStates(3, width, 3)]
    const first = await device.open(bridge.modelId)
    await device.rows(first, { base: 0, states: concatStates([kept, dropped], width) })
    const rolledBack = await device.rows(first, { base: 9, states: next })
    const fresh = await device.open(bridge.modelId)
    // Chunks of the same sizes: what is compared is the rollback, not the size of a step.
    await device.rows(fresh, { base: 0, states: concatStates([kept, randomStates(7, width, 4)], width) })
    expect(await device.rows(fresh, { base: 9, states: next })).toEqual(rolledBack)
    const whole = await device.open(bridge.modelId)
    await device.rows(whole, { base: 0, states: kept })
    expect(await device.rows(whole, { base: 9, states: next })).toEqual(rolledBack)
  })

  it('holds exactly the rows that were sent last, after any rollbacks, repeats and gaps', async () => {
    await using bridge = await start()
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const operation = fc.record({
      kind: fc.constantFrom('append', 'rollback', 'repeat', 'hole'),
      n: fc.integer({ min: 0, max: 6 }),
      /** Share of the held rows that a rollback keeps. */
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    let salt = 0
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 10 }), async (operations) => {
        const session = await device.open(bridge.modelId)
        let held = randomStates(0, width, 0)
        let last: SendOptions | undefined
        for (const { kind, n, share } of operations) {
          if (kind === 'repeat') {
            if (last) device.send(session, last)
            continue
          }
          salt += 1
          const states = randomStates(n, width, salt)
          if (kind === 'hole') {
            device.send(session, { base: held.rows + 1, states, want: 0 })
            continue
          }
          const base = kind === 'rollback' ? Math.floor(share * held.rows) : held.rows
          last = { base, states, want: 0, seq: device.send(session, { base, states, want: 0 }) }
          held = concatStates([sliceStates(held, 0, base), states], width)
        }
        const probe = randomStates(3, width, 77)
        const rows = await device.rows(session, { base: held.rows, states: probe })
        const fresh = await device.open(bridge.modelId)
        const expected = await device.rows(fresh, { base: 0, states: concatStates([held, probe], width), want: 3 })
        device.sendMessage({ type: 'close', session: session.hex })
        device.sendMessage({ type: 'close', session: fresh.hex })
        expect(largestDifference(rows, expected)).toBeLessThan(0.02)
      }),
      { numRuns: 200 },
    )
  })

  it('refuses a session of another bundle, and opens one of its own', async () => {
    await using bridge = await start()
    using other = await tinyBundle({ seed: 2 })
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    await expect(device.open(other.manifest.modelId)).rejects.toMatchObject({ code: 'BUNDLE_MISMATCH' })
    await device.open(bridge.modelId)
  })

  it('frees KV memory when a device disappears mid-prefill', async () => {
    await using bridge = await start()
    const device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const session = await device.open(bridge.modelId)
    await device.rows(session, { base: 0, states: randomStates(100, width, 1), want: 1 })
    expect(await health(bridge)).toMatchObject({ sessions: 1, kvBytes: expect.toSatisfy((bytes: number) => bytes > 0) })
    device.send(session, { base: 100, states: randomStates(100, width, 2), want: 0 })
    await device[Symbol.asyncDispose]()
    await expect.poll(() => health(bridge)).toMatchObject({ sessions: 0, kvBytes: 0 })
  })

  it('counts the KV memory of its prefix cache apart from that of open sessions', async () => {
    await using bridge = await start()
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const session = await device.open(bridge.modelId)
    await device.rows(session, { base: 0, states: randomStates(50, width, 1), want: 1 })
    const { kvBytes } = await health(bridge)
    device.sendMessage({ type: 'close', session: session.hex, keep: 50 })
    await expect.poll(() => health(bridge)).toMatchObject({ sessions: 0, kvBytes: 0, keptKvBytes: expect.any(Number) })
    const { keptKvBytes } = await health(bridge)
    // The session's cached reply, of one row, has ended with it.
    expect(kvBytes - keptKvBytes).toBeGreaterThan(0)
    expect(kvBytes - keptKvBytes).toBeLessThan(1_024)
    expect(keptKvBytes).toBeGreaterThan(1_024)
  })

  it('ends its sessions with LINK_LOST when it closes, and frees its ports', async () => {
    const bridge = await start()
    await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
    const session = await device.open(bridge.modelId)
    await device.rows(session, { base: 0, states: randomStates(2, width, 1) })
    await bridge.close()
    expect(await device.fault(session)).toMatchObject({ code: 'LINK_LOST' })
    expect(await device.closed).toEqual({ code: 1001, reason: 'LINK_LOST' })
    const [mqttPort, httpPort] = [bridge.mqttUrl, bridge.httpUrl].map((url) => Number(new URL(url).port))
    await using again = await start({ mqttPort: mqttPort!, httpPort: httpPort! })
    expect(again.dataUrl).toBe(bridge.dataUrl)
  })
})

describe('the bridge on the control plane', () => {
  const ownState = bridgeStateTopic('default', 'bridge-1')

  it('publishes its data plane, its number of sessions, and a birth that grows with each start', async () => {
    const stateDir = join(dir.path, 'state-births')
    for (const birth of [1, 2]) {
      await using bridge = await start({ stateDir })
      await using watcher = await watchTopic(bridge.mqttUrl, ownState)
      const latest = () => BridgeState.parse(JSON.parse(watcher.messages.at(-1)?.text ?? '{}'))
      await expect.poll(() => watcher.messages.length).toBeGreaterThan(0)
      expect(latest()).toMatchObject({ state: 'ready', birth, modelId: bridge.modelId, data: bridge.dataUrl, sessions: 0 })
      await using device = await connectDevice(bridge.dataUrl, 'jetson-01', width)
      await device.open(bridge.modelId)
      await expect.poll(() => latest().sessions).toBe(1)
      await bridge.close()
      await expect.poll(() => latest().state).toBe('disconnected')
    }
  })

  it('marks a device as lost when its heartbeats stop, and as ready when they return', async () => {
    const clock = fakeClock()
    await using bridge = await start({}, clock)
    const device = await mqttClient(bridge.mqttUrl, 'device-quiet')
    const beat = () => {
      const state = { v: 1, state: 'ready', birth: 1, at: new Date().toISOString(), connection: 1, heartbeatS: 30 }
      const topic = deviceTopic('default', 'quiet', 'state')
      return device.publishAsync(topic, JSON.stringify(state), { qos: 1, retain: true })
    }
    const shown = async () => {
      const { devices } = (await (await fetch(`${bridge.httpUrl}/v1/devices`)).json()) as { devices: { state: string }[] }
      return devices[0]?.state
    }
    await beat()
    await expect.poll(shown).toBe('ready')
    await clock.advance(85_000)
    expect(await shown()).toBe('ready')
    await clock.advance(10_000)
    expect(await shown()).toBe('lost')
    expect(await health(bridge)).toMatchObject({ uptimeS: 95 })
    await beat()
    await expect.poll(shown).toBe('ready')
    await device.endAsync()
  })

  it('rejects malformed queries of telemetry, and unknown devices and paths', async () => {
    await using bridge = await start()
    const device = await mqttClient(bridge.mqttUrl, 'device-quiet')
    const ready = { v: 1, state: 'ready', birth: 1, at: '2026-01-31T12:00:00Z' }
    await device.publishAsync(deviceTopic('default', 'quiet', 'state'), JSON.stringify(ready), { qos: 1, retain: true })
    const ask = (path: string) => fetch(`${bridge.httpUrl}/v1/devices/${path}`)
    await expect.poll(async () => (await ask('quiet')).status).toBe(200)
    const known = await ask('quiet/telemetry?since=2026-01-31T12:00:00Z&limit=9')
    expect([known.status, await known.json()]).toEqual([
      200,
      { device: 'quiet', samples: [], more: false, next: '2026-01-31T12:00:00.000Z' },
    ])
    expect((await ask('quiet/telemetry?since=yesterday')).status).toBe(400)
    for (const path of ['loud/telemetry', 'quiet/state', 'quiet/telemetry/all', '..%2f/telemetry'])
      expect((await ask(path)).status).toBe(404)
    await device.endAsync()
  })

  it('lists the devices of its fleet at /v1/devices, lost ones too', async () => {
    await using bridge = await start()
    const topic = deviceTopic('default', 'jetson-01', 'state')
    const state = (word: string, birth: number) =>
      Buffer.from(JSON.stringify({ v: 1, state: word, birth, at: '2026-01-02T03:04:05.678Z', agent: '0.1.0' }))
    const devices = async () => ((await (await fetch(`${bridge.httpUrl}/v1/devices`)).json()) as { devices: unknown[] }).devices
    expect(await devices()).toEqual([])
    const will = { topic, payload: state('lost', 4), qos: 1, retain: true } as const
    const device = await mqttClient(bridge.mqttUrl, 'device-jetson-01', { will })
    await device.publishAsync(topic, state('ready', 4), { qos: 1, retain: true })
    await expect
      .poll(devices)
      .toMatchObject([{ id: 'jetson-01', state: 'ready', birth: 4, agent: '0.1.0', lastSeen: expect.any(String) }])
    powerCut(device)
    await expect.poll(devices).toMatchObject([{ id: 'jetson-01', state: 'lost', birth: 4 }])
  })
})

it('advises chunks that fit into a small token budget or frame', () => {
  const chunkTokens = (limits: object) => readBridgeConfig({ bundle: bundle.path, stateDir: dir.path, ...limits }).chunkTokens
  expect([{}, { tokenBudget: 64 }, { frameTokens: 48 }].map(chunkTokens)).toEqual([128, 64, 48])
})

describe('the bridge does not start', () => {
  it('with an invalid configuration, and names the fields', async () => {
    await expect(start({ id: 'Bridge 1', tokenBudget: 64 })).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringMatching(/id: must be lower-case letters/),
    })
    await expect(start({ tokenBudget: 64, chunkTokens: 65 })).rejects.toMatchObject({
      message: expect.stringContaining('tokenBudget: must hold a chunk'),
    })
    await expect(start({ frameTokens: 64, chunkTokens: 65 })).rejects.toMatchObject({
      message: expect.stringContaining('frameTokens: must hold a chunk'),
    })
    await expect(start({ mqtPort: 1 } as object)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  })

  it('without a bundle, and frees its ports', async () => {
    await using taken = await startBroker()
    const port = Number(new URL(taken.url).port)
    await taken[Symbol.asyncDispose]()
    await expect(start({ bundle: join(dir.path, 'nothing'), mqttPort: port })).rejects.toMatchObject({ code: 'BUNDLE_INVALID' })
    await using bridge = await start({ mqttPort: port })
    expect(bridge.mqttUrl).toBe(`mqtt://127.0.0.1:${port}`)
  })

  it('on an address beyond loopback without authentication, or on a port in use', async () => {
    await expect(start({ host: '0.0.0.0' })).rejects.toMatchObject({ code: 'LISTEN_REFUSED' })
    await using first = await start()
    const httpPort = Number(new URL(first.httpUrl).port)
    await expect(start({ httpPort })).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      hint: expect.stringContaining('--http-port'),
    })
  })
})

describe('brim bridge run', () => {
  it('prints one JSON line when it is ready, and ends on its signal', async () => {
    const stop = new AbortController()
    const { io, out } = captureIo({ signal: stop.signal })
    const argv = [
      'bridge',
      'run',
      '--bundle',
      bundle.path,
      '--state-dir',
      join(dir.path, 'state-cli'),
      '--mqtt-port',
      '0',
      '--http-port',
      '0',
      '--json',
    ]
    const running = brim(argv, io)
    await expect.poll(out).toContain('\n')
    const ready = JSON.parse(out())
    expect(ready).toMatchObject({ event: 'ready', modelId: bundle.manifest.modelId })
    expect(await health(ready)).toMatchObject({ ok: true, pipeline: 1 })
    stop.abort()
    await running
    await expect(fetch(`${ready.httpUrl}/health`)).rejects.toThrow()
    expect(out().trim().split('\n').length).toBe(1)
  })
})
