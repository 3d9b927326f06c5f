import { afterEach, describe, expect, it } from 'vitest'
import { BridgeLink } from '../../../agent/link/bridge-link.ts'
import { ControlLink, type ControlLinkOptions } from '../../../agent/link/control-link.ts'
import type { ControlService, Publisher } from '../../../agent/link/ports.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { type BridgeState, DeviceState, type MessageFault } from '../../../core/wire/protocol/messages.ts'
import { bridgeStateTopic, type DeviceTopic, deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { memoryDisclosures } from '../../../lab/bench/hat/memory-disclosures.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { mosquittoMissing, mqttClient, startBroker, startMosquitto, watchTopic } from '../../support/broker.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const topic = deviceTopic('default', 'jetson-01', 'state')
const never = new AbortController().signal
const links: (ControlLink | BridgeLink)[] = []
afterEach(async () => {
  await Promise.all(links.splice(0).map((link) => link.close()))
})

const optionsFor = (url: string, birth: number) => ({
  url,
  fleet: 'default',
  device: 'jetson-01',
  birth,
  agent: '0.1.0',
  modelId: testModelId,
  clock: systemClock,
  random: { next: () => 0.05 },
  logger: silentLogger(),
  heartbeatS: 30,
  reconnectMaxS: 30,
})

function controlTo(
  url: string,
  birth = 1,
  options: Partial<ControlLinkOptions> = {},
  services: readonly ControlService[] = [],
): ControlLink {
  const link = new ControlLink({ ...optionsFor(url, birth), onBridges: () => {}, ...options })
  links.push(link)
  link.start(services)
  return link
}

function bridgeLinkTo(url: string): BridgeLink {
  const link = new BridgeLink({ ...optionsFor(url, 1), speed: new DeviceSpeed(), disclosures: memoryDisclosures(silentLogger()) })
  links.push(link)
  link.start([])
  return link
}

const statesSeen = (watcher: { messages: { text: string }[] }) =>
  watcher.messages.map(({ text }) => DeviceState.parse(JSON.parse(text)))
const deviceState = (fields: Pick<DeviceState, 'state' | 'birth'>): string =>
  JSON.stringify({ v: 1, at: '2026-01-02T03:04:05.678Z', ...fields } satisfies DeviceState)
const bridgeState = (fields: Partial<BridgeState>): string =>
  JSON.stringify({
    v: 1,
    state: 'ready',
    birth: 1,
    at: '2026-01-02T03:04:05.678Z',
    modelId: testModelId,
    ...fields,
  } satisfies BridgeState)

const brokers = [
  { name: 'embedded broker', start: startBroker, missing: () => false },
  { name: 'mosquitto', start: startMosquitto, missing: mosquittoMissing },
]

describe.each(brokers)('a service of the control link, on the $name', ({ start, missing }) => {
  it.skipIf(missing())('receives its topics, publishes on others and changes the retained state', async () => {
    await using broker = await start()
    const received: string[] = []
    let publisher: Publisher | undefined
    let state: DeviceState['state'] = 'ready'
    const service: ControlService = {
      handlers: {
        commands(payload) {
          received.push(payload.toString())
          state = 'draining'
          void publisher?.publishState().then(() => publisher?.publish('replies', 'done'))
          void publisher?.publish('log', 'line')
        },
      },
      stateFields: () => ({ state }),
      onConnection(next) {
        publisher = next
      },
    }
    const link = controlTo(broker.url, 1, {}, [service])
    await using states = await watchTopic(broker.url, topic)
    await expect.poll(() => statesSeen(states).at(-1)?.state).toBe('ready')
    await using replies = await watchTopic(broker.url, deviceTopic('default', 'jetson-01', 'replies'))
    await using lines = await watchTopic(broker.url, deviceTopic('default', 'jetson-01', 'log'))
    const bridge = await mqttClient(broker.url, 'bridge-bridge-1')
    await expect
      .poll(async () => {
        // Repeated as a bridge does: the device may not have subscribed yet.
        await bridge.publishAsync(deviceTopic('default', 'jetson-01', 'commands'), 'order', { qos: 1 })
        return replies.messages[0]?.text
      })
      .toBe('done')
    expect(received[0]).toBe('order')
    await expect.poll(() => statesSeen(states).at(-1)?.state).toBe('draining')
    await expect.poll(() => lines.messages[0]?.text).toBe('line')
    await bridge.endAsync()
    await link.close()
    expect(publisher).toBeUndefined()
  })
})

describe.each(brokers)('the state of a device, on the $name', ({ start, missing }) => {
  it.skipIf(missing())('is retained with birth, agent version and model', async () => {
    await using broker = await start()
    controlTo(broker.url, 3)
    await using early = await watchTopic(broker.url, topic)
    await expect
      .poll(() => statesSeen(early).at(-1))
      .toMatchObject({ state: 'ready', birth: 3, agent: '0.1.0', modelId: testModelId })
    await using late = await watchTopic(broker.url, topic)
    await expect.poll(() => late.messages[0]?.retain).toBe(true)
  })

  it.skipIf(missing())('becomes disconnected when the agent stops, without the will being published', async () => {
    await using broker = await start()
    const link = controlTo(broker.url)
    await using watcher = await watchTopic(broker.url, topic)
    await expect.poll(() => statesSeen(watcher).at(-1)?.state).toBe('ready')
    await link.close()
    await expect.poll(() => statesSeen(watcher).at(-1)?.state).toBe('disconnected')
    expect(statesSeen(watcher).map(({ state }) => state)).not.toContain('lost')
  })

  it.skipIf(missing())(
    'becomes lost, with the same birth, when the device loses power, and ready when it comes back',
    async () => {
      await using broker = await start()
      await using relay = await startRelay(portOf(broker.url))
      controlTo(through(relay, broker.url), 5)
      await using watcher = await watchTopic(broker.url, topic)
      await expect.poll(() => statesSeen(watcher).at(-1)?.state).toBe('ready')
      relay.cut()
      await expect.poll(() => statesSeen(watcher)).toContainEqual(expect.objectContaining({ state: 'lost', birth: 5 }))
      await expect.poll(() => statesSeen(watcher).at(-1)).toMatchObject({ state: 'ready', birth: 5 })
    },
  )

  it.skipIf(missing())('is republished after the late will of an earlier start', async () => {
    await using broker = await start()
    await using watcher = await watchTopic(broker.url, topic)
    const will = { topic, payload: Buffer.from(deviceState({ state: 'lost', birth: 6 })), qos: 1, retain: true } as const
    // The broker publishes this will when the new connection replaces the earlier one.
    const earlier = await mqttClient(broker.url, 'device-jetson-01', { will })
    controlTo(broker.url, 7)
    await expect.poll(() => statesSeen(watcher)).toContainEqual(expect.objectContaining({ state: 'lost', birth: 6 }))
    await expect.poll(() => statesSeen(watcher).at(-1)).toMatchObject({ state: 'ready', birth: 7 })
    earlier.end(true)
  })

  it.skipIf(missing())('does not hide the states of the bridges from the device', async () => {
    await using broker = await start()
    let seen: ReadonlyMap<string, BridgeState> = new Map()
    controlTo(broker.url, 1, {
      onBridges(states) {
        seen = new Map(states)
      },
    })
    await using _one = await announceBridge(broker.url, 'one', bridgeState({ birth: 2 }))
    await using two = await announceBridge(broker.url, 'two', bridgeState({ birth: 9 }))
    await expect.poll(() => [...seen.keys()].sort()).toEqual(['one', 'two'])
    await two.publish(bridgeState({ state: 'lost', birth: 8 }))
    await two.publish(bridgeState({ sessions: 4, birth: 9 }))
    await expect.poll(() => seen.get('two')).toMatchObject({ state: 'ready', birth: 9, sessions: 4 })
    // The bridge's store was lost.
    await two.publish(bridgeState({ sessions: 5, birth: 1 }))
    await expect.poll(() => seen.get('two')).toMatchObject({ state: 'ready', birth: 1, sessions: 5 })
  })
})

it.skipIf(mosquittoMissing())('a device republishes its state when an older one or a will has replaced it', async () => {
  // The embedded broker allows only the device itself to publish there.
  await using broker = await startMosquitto()
  controlTo(broker.url, 7)
  await using watcher = await watchTopic(broker.url, topic)
  await expect.poll(() => statesSeen(watcher).at(-1)?.state).toBe('ready')
  const late = await mqttClient(broker.url, 'late')
  for (const wrong of [
    { state: 'lost', birth: 7 },
    { state: 'lost', birth: 6 },
    { state: 'ready', birth: 6 },
    // From before this device was reinstalled.
    { state: 'lost', birth: 57 },
  ] as const) {
    await late.publishAsync(topic, deviceState(wrong), { qos: 1, retain: true })
    await expect.poll(() => statesSeen(watcher).at(-2)).toMatchObject(wrong)
    await expect.poll(() => statesSeen(watcher).at(-1)).toMatchObject({ state: 'ready', birth: 7 })
  }
  await late.endAsync()
})

it('a device republishes its state at every heartbeat; only its time changes', async () => {
  await using broker = await startBroker()
  await using watcher = await watchTopic(broker.url, topic)
  const clock = fakeClock()
  controlTo(broker.url, 3, { clock })
  await expect.poll(() => watcher.messages.length).toBe(1)
  await clock.advance(29_999)
  expect(watcher.messages.length).toBe(1)
  for (const count of [2, 3]) {
    await clock.advance(30_000)
    await expect.poll(() => watcher.messages.length).toBe(count)
  }
  const [first, , third] = statesSeen(watcher)
  expect(third).toEqual({ ...first, at: third!.at })
  expect(first).toMatchObject({ state: 'ready', birth: 3, connection: 1, heartbeatS: 30, clockIsSet: true })
  expect(Date.parse(third!.at)).toBeGreaterThan(Date.parse(first!.at))
  await using late = await watchTopic(broker.url, topic)
  await expect.poll(() => late.messages[0]).toMatchObject({ retain: true, text: watcher.messages[2]!.text })
})

it('a device says in its state what computes its models, and again where that changes', async () => {
  await using broker = await startBroker()
  await using watcher = await watchTopic(broker.url, topic)
  let provider = 'webgpu'
  const link = controlTo(broker.url, 1, { computing: () => ({ llm: { provider, reason: 'asked for' } }) })
  const shown = () => statesSeen(watcher).at(-1)?.computing?.llm?.provider
  await expect.poll(shown).toBe('webgpu')
  provider = 'cpu'
  link.setModel(testModelId)
  await expect.poll(shown).toBe('cpu')
})

it('a device numbers its connections in its state, and heartbeats can be turned off', async () => {
  await using broker = await startBroker()
  await using relay = await startRelay(portOf(broker.url))
  await using watcher = await watchTopic(broker.url, topic)
  const clock = fakeClock()
  controlTo(through(relay, broker.url), 1, { clock, heartbeatS: 0 })
  await expect.poll(() => statesSeen(watcher).at(-1)).toMatchObject({ state: 'ready', connection: 1 })
  await clock.advance(300_000)
  relay.cut()
  await expect.poll(() => statesSeen(watcher).at(-1)).toMatchObject({ state: 'lost', connection: 1 })
  await expect
    .poll(async () => {
      await clock.advance(1_000)
      return statesSeen(watcher).at(-1)
    })
    .toMatchObject({ state: 'ready', connection: 2 })
  const first = statesSeen(watcher).filter(({ connection }) => connection === 1)
  expect(first.map(({ state }) => state)).toEqual(['ready', 'lost'])
})

it('a device logs the faults of bridges, and the unreadable state of a bridge once', async () => {
  await using broker = await startBroker()
  const { logger, lines } = recordingLogger('warn')
  controlTo(broker.url, 1, { logger })
  await using newer = await announceBridge(broker.url, 'two', '{"v":2}')
  await newer.publish('{"v":3}')
  const about = (text: string) => lines.filter(({ err }) => (err as Error | undefined)?.message.includes(text))
  await expect.poll(() => about('unreadable state of bridge "two"')).toMatchObject([{ err: { code: 'PROTOCOL_VERSION' } }])
  const client = await mqttClient(broker.url, 'bridge-one')
  const at = '2026-01-02T03:04:05.678Z'
  const fault: MessageFault = { v: 1, bridge: 'one', leaf: 'telemetry', reason: '"birth": wrong', at }
  await client.publishAsync(deviceTopic('default', 'jetson-01', 'faults'), '{"v":1}')
  await client.publishAsync(deviceTopic('default', 'jetson-01', 'faults'), JSON.stringify(fault))
  await expect
    .poll(() => about('telemetry'))
    .toMatchObject([{ err: { code: 'MESSAGE_INVALID', message: expect.stringContaining('bridge "one"') } }])
  expect(lines.some(({ msg }) => msg === 'unreadable fault ignored')).toBe(true)
  await client.endAsync()
})

it('a device connects once its broker is reachable', async () => {
  await using relay = await startRelay(1)
  const link = controlTo(through(relay, 'mqtt://127.0.0.1:1'))
  await link.retryNow()
  expect(link.connected).toBe(false)
  await using broker = await startBroker()
  relay.target = portOf(broker.url)
  await expect.poll(() => link.connected).toBe(true)
})

it('a broker that does not respond does not delay the close by more than 2 s', async () => {
  await using broker = await startBroker()
  await using relay = await startRelay(portOf(broker.url))
  const clock = fakeClock()
  const link = controlTo(through(relay, broker.url), 1, { clock })
  await expect.poll(() => link.connected).toBe(true)
  relay.stall()
  let isClosed = false
  void link.close().then(() => {
    isClosed = true
  })
  await clock.advance(2_000)
  await expect.poll(() => isClosed).toBe(true)
})

it('a device that closes receives acknowledgements, but no jobs', async () => {
  await using broker = await startBroker()
  await using relay = await startRelay(portOf(broker.url))
  const clock = fakeClock()
  const received: string[] = []
  const receive = (payload: Uint8Array) => void received.push(payload.toString())
  const link = controlTo(through(relay, broker.url), 1, { clock }, [{ handlers: { acks: receive, jobs: receive } }])
  const bridge = await mqttClient(broker.url, 'bridge-bridge-1')
  const send = (leaf: DeviceTopic, text: string) =>
    bridge.publishAsync(deviceTopic('default', 'jetson-01', leaf), text, { qos: 1 })
  await expect
    .poll(async () => {
      // Repeated: the device may not have subscribed yet.
      await send('acks', 'early ack')
      return received
    })
    .toContain('early ack')
  // The device waits for the delivery of its last state.
  relay.stall('up')
  const closed = link.close()
  await send('jobs', 'late job')
  await send('acks', 'late ack')
  await expect.poll(() => received).toContain('late ack')
  expect(received).not.toContain('late job')
  await clock.advance(2_000)
  await closed
  await bridge.endAsync()
})

describe('the link to a bridge', () => {
  it('opens a session at the announced bridge, even right after its start', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using broker = await startBroker()
    await using _bridge = await announceBridge(broker.url, 'one', bridgeState({ data: plane.dataUrl }))
    const link = bridgeLinkTo(broker.url)
    const session = await link.open(never)
    expect(session.chunkTokens).toBe(16)
    expect(link.status).toEqual({
      broker: 'connected',
      bridge: 'connected',
      bridgeId: 'one',
      dataUrl: plane.dataUrl,
      sessions: 0,
    })
  })

  it('reports BRIDGE_UNREACHABLE while the broker is unreachable', async () => {
    const link = bridgeLinkTo('mqtt://127.0.0.1:1')
    await expect(link.open(never)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    expect(link.status).toEqual({ broker: 'unreachable', bridge: 'unreachable' })
  })

  it('reports BRIDGE_UNREACHABLE while the announced data plane is unreachable', async () => {
    await using broker = await startBroker()
    await using _bridge = await announceBridge(broker.url, 'one', bridgeState({ data: 'ws://127.0.0.1:1/v1/data' }))
    await expect(bridgeLinkTo(broker.url).open(never)).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
  })

  it('reports BUNDLE_MISMATCH while the bridge serves another model', async () => {
    await using plane = await startDataPlane(scriptedPart())
    await using broker = await startBroker()
    await using bridge = await announceBridge(broker.url, 'one', bridgeState({ data: plane.dataUrl, modelId: 'cd'.repeat(32) }))
    const link = bridgeLinkTo(broker.url)
    await expect(link.open(never)).rejects.toMatchObject({
      code: 'BUNDLE_MISMATCH',
      message: expect.stringContaining('cdcdcdcdcdcd'),
    })
    expect(link.status.bridge).toBe('mismatch')
    await bridge.publish(bridgeState({ data: plane.dataUrl, birth: 2 }))
    await expect.poll(() => link.status.bridge).toBe('connected')
    await link.open(never)
  })

  it('follows a bridge that has moved to another address', async () => {
    await using broker = await startBroker()
    const before = await startDataPlane(scriptedPart())
    await using bridge = await announceBridge(broker.url, 'one', bridgeState({ data: before.dataUrl }))
    const link = bridgeLinkTo(broker.url)
    await link.open(never)
    await before[Symbol.asyncDispose]()
    await expect.poll(() => link.status.bridge).toBe('unreachable')
    await using after = await startDataPlane(scriptedPart())
    await bridge.publish(bridgeState({ data: after.dataUrl, birth: 2 }))
    await expect.poll(() => link.status.bridge).toBe('connected')
    await link.open(never)
    expect(after.sessions.count).toBe(1)
  })

  it('follows a bridge that had announced its new address before the old one closed', async () => {
    await using broker = await startBroker()
    const before = await startDataPlane(scriptedPart())
    await using bridge = await announceBridge(broker.url, 'one', bridgeState({ data: before.dataUrl }))
    const link = bridgeLinkTo(broker.url)
    const session = await link.open(never)
    await using after = await startDataPlane(scriptedPart())
    await bridge.publish(bridgeState({ data: after.dataUrl, birth: 2 }))
    await session.exchange(0, { rows: 1, width: 2, half: Uint16Array.of(1, 2) }, 1)
    await before[Symbol.asyncDispose]()
    await expect.poll(() => link.status.bridge).toBe('connected')
    await link.open(never)
    expect(after.sessions.count).toBe(1)
  })
})

async function announceBridge(url: string, bridge: string, state: string) {
  const client = await mqttClient(url, `bridge-${bridge}`)
  const publish = (text: string) => client.publishAsync(bridgeStateTopic('default', bridge), text, { qos: 1, retain: true })
  await publish(state)
  return { publish, [Symbol.asyncDispose]: () => client.endAsync(true) }
}
