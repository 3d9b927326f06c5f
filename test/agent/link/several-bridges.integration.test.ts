import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { startAgentWorld } from '../../support/agent-world.ts'
import { healthOf, startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { startOpenBroker } from '../../support/served-broker.ts'
import { shared } from '../../support/shared.ts'
import { connectDevice, type TestDevice } from '../../support/test-device.ts'

const world = shared(startAgentWorld)
let width: number
beforeAll(async () => {
  width = (await readManifest(world.bundle)).dims.hidden
})

const start = (id: string, settings: Partial<BridgeSettings> = {}) =>
  startTestBridge({ id, bundle: world.bundle, stateDir: join(world.dir, id), ...settings })

/** KV memory for one session of 128 positions. */
async function oneSessionOfKv(): Promise<Partial<BridgeSettings>> {
  const { layers, kvHeads, headDim } = (await readManifest(world.bundle)).parts.middle!
  const kvBudgetBytes = 128 * 2 * (layers[1] - layers[0]) * kvHeads * headDim * 4
  return { chunkTokens: 128, kvBudgetBytes, limits: { deviceKvPercent: 100 } }
}

const sessionsAt = async (bridge: TestBridge) => (await healthOf(bridge)).sessions
const agentHealth = async (apiUrl: string) => (await fetch(`${apiUrl}/health`)).json()
const ask = (apiUrl: string, fields: object = {}) =>
  postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0, ...fields })

async function occupy(bridge: TestBridge, sessions: number): Promise<TestDevice> {
  const device = await connectDevice(bridge.dataUrl, 'occupant', width)
  for (let i = 0; i < sessions; i++) await device.open(bridge.modelId)
  return device
}

describe('a device with several bridges', () => {
  it('opens sessions at the bridge that announces the fewest', async () => {
    await using a = await start('bridge-a')
    await using b = await start('bridge-b')
    const agent = await world.startAgent({ id: 'choosy', bridges: [a.mqttUrl, b.mqttUrl] })
    for (const [busy, idle, name] of [
      [a, b, 'bridge-b'],
      [b, a, 'bridge-a'],
    ] as const) {
      await using _ = await occupy(busy, 3)
      await expect.poll(() => agentHealth(agent.apiUrl)).toMatchObject({ bridge: 'connected', bridgeId: name })
      const events = readSse((await ask(agent.apiUrl, { max_tokens: 500, stream: true })).body!)
      await events.next()
      expect([await sessionsAt(busy), await sessionsAt(idle)]).toEqual([3, 1])
      await events.return(undefined)
      await expect.poll(() => sessionsAt(idle)).toBe(0)
    }
  })

  it('opens the session at the next bridge if the KV memory of the first is full', async () => {
    await using full = await start('full', await oneSessionOfKv())
    await using other = await start('other')
    await using _ = await occupy(full, 1)
    await using __ = await occupy(other, 2)
    const agent = await world.startAgent({ id: 'turned-away', bridges: [full.mqttUrl, other.mqttUrl] })
    await expect.poll(() => agentHealth(agent.apiUrl)).toMatchObject({ bridge: 'connected', bridgeId: 'full', sessions: 1 })
    expect((await ask(agent.apiUrl)).status).toBe(200)
  })

  it('goes to another bridge on the same broker when its own drains, with the answer that is in progress', async () => {
    await using broker = await startOpenBroker()
    await using leaving = await start('bridge-c', { broker: { url: broker.url }, mqttPort: undefined })
    await using staying = await start('bridge-d', { broker: { url: broker.url }, mqttPort: undefined })
    const agent = await world.startAgent({ id: 'moving', bridges: [broker.url] })
    await expect.poll(() => agentHealth(agent.apiUrl)).toMatchObject({ bridge: 'connected', bridgeId: 'bridge-c' })
    const events = readSse((await ask(agent.apiUrl, { max_tokens: 400, stream: true })).body!)
    await events.next()
    const drained = leaving.drain()
    await expect.poll(async () => (await ask(agent.apiUrl)).status).toBe(200)
    expect(await agentHealth(agent.apiUrl)).toMatchObject({ bridge: 'connected', bridgeId: 'bridge-d' })
    let last = ''
    for (let next = await events.next(); next.done !== true; next = await events.next()) last = next.value
    expect(last).toBe('[DONE]')
    await drained
    expect(await sessionsAt(staying)).toBe(0)
  })

  it('continues an answer at another bridge, with the same tokens, if the first runs out of KV memory', async () => {
    await using full = await start('bridge-full', await oneSessionOfKv())
    await using roomy = await start('bridge-roomy')
    const prompt = Array.from({ length: 100 }, (_, at) => 5 + (at % 90))
    const fields = { prompt, max_tokens: 60, brim: { token_ids: true } }
    const answerBy = async (id: string, bridges: string[]) => {
      const { apiUrl } = await world.startAgent({ id, bridges })
      await expect.poll(() => agentHealth(apiUrl)).toMatchObject({ bridge: 'connected' })
      return (await (await ask(apiUrl, fields)).json()) as { choices: { text: string }[]; brim: { failovers: number } }
    }
    const wanted = await answerBy('roomy-alone', [roomy.mqttUrl])
    const answer = await answerBy('first-full', [full.mqttUrl, roomy.mqttUrl])
    expect(answer.choices[0]!.text).toBe(wanted.choices[0]!.text)
    expect(answer.brim.failovers).toBe(1)
    expect(wanted.brim.failovers).toBe(0)
    const alone = await world.startAgent({ id: 'full-alone', bridges: [full.mqttUrl], patienceS: 0.2 })
    await expect.poll(() => agentHealth(alone.apiUrl)).toMatchObject({ bridge: 'connected' })
    expect(await (await ask(alone.apiUrl, fields)).json()).toMatchObject({ error: { code: 'LINK_LOST' } })
  })
})

it('a bridge whose KV memory is full keeps running, and rejects sessions with a retry time', async () => {
  await using full = await start('alone', await oneSessionOfKv())
  const occupant = await occupy(full, 1)
  const agent = await world.startAgent({ id: 'patient-asker', bridges: [full.mqttUrl] })
  const refused = await ask(agent.apiUrl)
  expect(refused.status).toBe(503)
  expect(refused.headers.get('retry-after')).toBe('1')
  expect(await refused.json()).toMatchObject({
    error: { code: 'SESSION_REFUSED', message: expect.stringContaining('KV memory'), hint: 'try again in 1000 ms' },
  })
  await occupant[Symbol.asyncDispose]()
  await expect.poll(async () => (await ask(agent.apiUrl)).status).toBe(200)
})
