import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { portOf, startRelay } from '../../../lab/cluster/relay.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { shared } from '../../support/shared.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const world = shared(startAgentWorld)

const eventually = <T>(read: () => Promise<T>) => expect.poll(read)
const get = async (apiUrl: string, path: string) => {
  const response = await fetch(`${apiUrl}${path}`)
  return { status: response.status, body: await response.json() }
}
const healthOf = async (apiUrl: string) => (await get(apiUrl, '/health')).body
const codesOf = async (apiUrl: string) =>
  ((await healthOf(apiUrl)) as { reasons: { code: string }[] }).reasons.map(({ code }) => code)

describe('an agent with a bridge', () => {
  it('is healthy and ready, and names the device, its broker and its bridge', async () => {
    await eventually(() => get(world.agent.apiUrl, '/ready')).toEqual({ status: 200, body: { status: 'ready', reasons: [] } })
    expect(await get(world.agent.apiUrl, '/health')).toEqual({
      status: 200,
      body: expect.objectContaining({
        status: 'ok',
        reasons: [],
        device: 'jetson-01',
        broker: 'connected',
        bridge: 'connected',
        bridgeId: 'bridge-1',
      }),
    })
  })

  it('is ready while a second bridge is away', async () => {
    const bridges = ['mqtt://127.0.0.1:1', world.bridge.mqttUrl]
    const agent = await world.startAgent({ id: 'one-of-two', bridges })
    await eventually(() => get(agent.apiUrl, '/ready')).toMatchObject({ status: 200 })
    expect(await healthOf(agent.apiUrl)).toMatchObject({ status: 'ok', reasons: [] })
  })
})

describe('an agent is degraded and not ready, with the reason,', () => {
  const notReady = (code: string) => ({ status: 503, body: { status: 'not ready', reasons: [code] } })

  it('without a bridge, until there is one', async () => {
    await using relay = await startRelay(1)
    const agent = await world.startAgent({ id: 'lonely', bridges: [`mqtt://127.0.0.1:${relay.port}`] })
    expect(await get(agent.apiUrl, '/health')).toEqual({
      status: 200,
      body: expect.objectContaining({
        status: 'degraded',
        bridge: 'unreachable',
        reasons: [{ code: 'BRIDGE_UNREACHABLE', message: expect.stringContaining(String(relay.port)), hint: expect.any(String) }],
      }),
    })
    expect(await get(agent.apiUrl, '/ready')).toEqual(notReady('BRIDGE_UNREACHABLE'))
    relay.target = portOf(world.bridge.mqttUrl)
    await fetch(`${agent.apiUrl}/v1/completions`, { method: 'POST', body: '{"prompt":"x","max_tokens":1}' })
    await eventually(() => get(agent.apiUrl, '/ready')).toMatchObject({ status: 200 })
  })

  it('when its bridge stops', async () => {
    const bridge = await startTestBridge({ bundle: world.bundle, stateDir: join(world.dir, 'brief') })
    const agent = await world.startAgent({ id: 'left', bridges: [bridge.mqttUrl] })
    await eventually(() => get(agent.apiUrl, '/ready')).toMatchObject({ status: 200 })
    await bridge.close()
    await eventually(() => get(agent.apiUrl, '/ready')).toEqual(notReady('BRIDGE_UNREACHABLE'))
  })

  it('with another model than the bridge', async () => {
    using other = await tinyBundle({ seed: 7 })
    await using bridge = await startTestBridge({ bundle: other.path, stateDir: join(world.dir, 'other-model') })
    const agent = await world.startAgent({ id: 'mismatched', bridges: [bridge.mqttUrl] })
    await eventually(() => get(agent.apiUrl, '/ready')).toEqual(notReady('BUNDLE_MISMATCH'))
    expect(await healthOf(agent.apiUrl)).toMatchObject({ status: 'degraded', bridge: 'mismatch' })
  })

  it('after its key is revoked', async () => {
    const stateDir = join(world.dir, 'enrolling')
    await using bridge = await startTestBridge({ bundle: world.bundle, stateDir })
    const store = openIdentityStore(stateDir)
    try {
      await enrolDevice({ dir: world.dir, bridge }, store, 'enrolled')
      const agent = await world.startAgent({ id: 'enrolled', bridges: undefined })
      await eventually(() => codesOf(agent.apiUrl)).toEqual([])
      store.revoke('operator:test', 'enrolled')
      await eventually(() => codesOf(agent.apiUrl)).toEqual(['NOT_AUTHORIZED'])
    } finally {
      store.close()
    }
  })
})
