import { describe, expect, it } from 'vitest'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import { Cluster } from '../../lab/cluster/cluster.ts'
import { portOf } from '../../lab/cluster/relay.ts'
import { buildSlmBundle, buildTextBundle } from '../support/agent-world.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = shared(tempDir)
const cluster = shared(async () => Cluster.create({ bundle: await buildTextBundle(dir.path), env: process.env }))
const bridge = shared(() => cluster.startBridge())
const agent = shared(() => startAgent('jetson-01'))

const startAgent = (id: string, ...args: string[]) =>
  cluster.startAgent({ id, bridges: [bridge.ready.mqttUrl], args: ['--patience', '0.5', ...args] })

const fromBridge = async (path: string) => (await fetch(`${bridge.ready.httpUrl}${path}`)).json()
const inUse = async () => {
  const { sessions, kvBytes } = (await fromBridge('/health')) as { sessions: number; kvBytes: number }
  return { sessions, kvBytes }
}
/** State and birth of the first device that the bridge knows. */
const device = async () => {
  const { devices } = (await fromBridge('/v1/devices')) as { devices: { state: string; birth: number }[] }
  return devices.map(({ state, birth }) => ({ state, birth }))[0]
}

const ask = (fields: object = {}, device = agent) =>
  postJson(`${device.ready.apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0, ...fields })
/** The events of an answer that is still under way after its first two. */
async function longAnswer(fields: object = {}, device = agent) {
  const response = await ask({ max_tokens: 500, stream: true, ...fields }, device)
  const events = readSse(response.body!)
  await events.next()
  await events.next()
  return events
}
async function lastOf(events: AsyncIterable<string>): Promise<string> {
  let last = ''
  for await (const data of events) last = data
  return last
}

describe('a bridge and agents as processes', () => {
  it('rejects a second bridge on the same ports or state folder, and the first bridge keeps working', async () => {
    expect((await ask()).status).toBe(200)
    const before = await device()
    expect(before).toMatchObject({ state: 'ready' })
    const ports = { mqttPort: portOf(bridge.ready.mqttUrl), httpPort: portOf(bridge.ready.httpUrl) }
    await expect(cluster.startBridge({ id: 'second', ...ports })).rejects.toThrow(/ended before it was ready/)
    await expect(cluster.startBridge()).rejects.toMatchObject({ cause: { message: expect.stringContaining('STATE_IN_USE') } })
    expect(await device()).toEqual(before)
  })

  it('rejects a second agent on the same port or state folder, and the first agent finishes its answer', async () => {
    const before = await device()
    const events = await longAnswer()
    const bridges = [bridge.ready.mqttUrl]
    const second = cluster.startAgent({ id: 'second', bridges, apiPort: portOf(agent.ready.apiUrl) })
    await expect(second).rejects.toThrow(/ended before it was ready/)
    await expect(startAgent('jetson-01')).rejects.toMatchObject({
      cause: { message: expect.stringContaining('STATE_IN_USE') },
    })
    expect(await lastOf(events)).toBe('[DONE]')
    expect(await device()).toEqual(before)
  })

  it('reports an agent that is killed during an answer as lost, and frees its KV at the bridge', async () => {
    const events = await longAnswer()
    expect((await inUse()).kvBytes).toBeGreaterThan(0)
    const { birth } = (await device())!
    const ended = expect(lastOf(events)).rejects.toThrow()
    await agent.kill()
    await ended
    await expect.poll(inUse).toEqual({ sessions: 0, kvBytes: 0 })
    await expect.poll(device).toEqual({ state: 'lost', birth })
    await agent.restart()
    expect((await ask()).status).toBe(200)
    await expect.poll(device).toMatchObject({ state: 'ready' })
  })

  it('ends an answer with an error when its bridge is killed, and answers again after a restart', async () => {
    const events = await longAnswer()
    await bridge.kill()
    expect(JSON.parse(await lastOf(events))).toMatchObject({ error: { code: 'LINK_LOST' } })
    expect((await ask()).status).toBe(503)
    await bridge.restart()
    await expect.poll(async () => (await ask()).status).toBe(200)
    await expect.poll(device).toMatchObject({ state: 'ready' })
    expect(await inUse()).toEqual({ sessions: 0, kvBytes: 0 })
  })

  it("continues an answer with the device's own small model when its bridge is killed", async () => {
    const independent = await startAgent('jetson-02', '--slm', await buildSlmBundle(dir.path))
    const events = await longAnswer({ brim: { fallback: 'slm' } }, independent)
    await bridge.kill()
    const received: string[] = []
    for await (const data of events) received.push(data)
    expect(received.at(-1)).toBe('[DONE]')
    expect((JSON.parse(received.at(-2)!) as { brim: unknown }).brim).toMatchObject({
      sources: [
        { source: 'hat', model: 'tiny-llama' },
        { source: 'slm', model: 'tiny-slm' },
      ],
      fallback: { code: 'LINK_LOST' },
    })
  })
})
