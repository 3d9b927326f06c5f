import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readSse } from '../../core/openai/sse-reader.ts'
import { type BrimProcess, startBrim } from '../../lab/cluster/processes.ts'
import { portOf } from '../../lab/cluster/relay.ts'
import { buildSlmBundle, buildTextBundle } from '../support/agent-world.ts'
import { type TempDir, tempDir } from '../support/temp-dir.ts'

let dir: TempDir
let bundle: string
const started: BrimProcess[] = []
beforeAll(async () => {
  dir = tempDir()
  bundle = await buildTextBundle(dir.path)
  bridge = await startBridge()
  agent = await startAgent()
})
afterAll(async () => {
  await Promise.all(started.map((brim) => brim.stop()))
  dir[Symbol.dispose]()
})

let bridge: BrimProcess
let agent: BrimProcess

async function start(...args: string[]): Promise<BrimProcess> {
  const brim = await startBrim([...args, '--bundle', bundle, '--threads', '1'], { env: process.env })
  started.push(brim)
  return brim
}
const startBridge = (ports: { mqtt?: number; http?: number } = {}, folder = 'bridge') =>
  start(
    ...['bridge', 'run', '--state-dir', join(dir.path, folder)],
    ...['--mqtt-port', String(ports.mqtt ?? 0), '--http-port', String(ports.http ?? 0)],
  )
const startAgent = (port = 0, id = 'jetson-01', ...more: string[]) =>
  start(
    ...['agent', 'run', '--id', id, '--state-dir', join(dir.path, id), '--patience', '0.5', ...more],
    ...['--bridge', String(bridge.ready.mqttUrl), '--api-port', String(port)],
  )
const bridgePorts = () => ({ mqtt: portOf(String(bridge.ready.mqttUrl)), http: portOf(String(bridge.ready.httpUrl)) })

const fromBridge = async (path: string) => (await fetch(`${bridge.ready.httpUrl}${path}`)).json()
const held = async () => {
  const { sessions, kvBytes } = (await fromBridge('/health')) as { sessions: number; kvBytes: number }
  return { sessions, kvBytes }
}
const device = async () => {
  const { devices } = (await fromBridge('/v1/devices')) as { devices: { state: string; birth: number }[] }
  return devices.map(({ state, birth }) => ({ state, birth }))[0]
}

const ask = (fields: object = {}, device = agent) =>
  fetch(`${device.ready.apiUrl}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: [5, 6, 7], max_tokens: 4, temperature: 0, ...fields }),
  })
/** An answer that is long enough to be still under way after its first pieces. */
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

describe('real processes', () => {
  it('a second bridge on the same ports says so, and the first one does not notice', async () => {
    expect((await ask()).status).toBe(200)
    const before = await device()
    expect(before).toMatchObject({ state: 'ready' })
    await expect(startBridge(bridgePorts(), 'another')).rejects.toThrow(/ended before it was ready/)
    await expect(startBridge()).rejects.toMatchObject({ cause: { message: expect.stringContaining('STATE_IN_USE') } })
    expect(await device()).toEqual(before)
  })

  it('a second agent on the same port says so, and the first one goes on with its answer', async () => {
    const before = await device()
    const events = await longAnswer()
    const port = String(portOf(String(agent.ready.apiUrl)))
    const where = ['--state-dir', join(dir.path, 'another-agent'), '--bridge', String(bridge.ready.mqttUrl), '--api-port', port]
    await expect(start('agent', 'run', '--id', 'jetson-01', ...where)).rejects.toThrow(/ended before it was ready/)
    await expect(startAgent()).rejects.toMatchObject({ cause: { message: expect.stringContaining('STATE_IN_USE') } })
    expect(await lastOf(events)).toBe('[DONE]')
    expect(await device()).toEqual(before)
  })

  it('an agent that is killed in the middle of an answer is lost, and the bridge frees its KV', async () => {
    const events = await longAnswer()
    expect((await held()).kvBytes).toBeGreaterThan(0)
    const { birth } = (await device())!
    process.kill(agent.pid, 'SIGKILL')
    await expect(lastOf(events)).rejects.toThrow()
    await expect.poll(held).toEqual({ sessions: 0, kvBytes: 0 })
    await expect.poll(device).toEqual({ state: 'lost', birth })
    agent = await startAgent()
    expect((await ask()).status).toBe(200)
    await expect.poll(device).toMatchObject({ state: 'ready' })
  })

  it('a bridge that is killed in the middle of an answer ends it with an error, and serves again when it is back', async () => {
    const events = await longAnswer()
    process.kill(bridge.pid, 'SIGKILL')
    expect(JSON.parse(await lastOf(events))).toMatchObject({ error: { code: 'LINK_LOST' } })
    expect((await ask()).status).toBe(503)
    bridge = await startBridge(bridgePorts())
    await expect.poll(async () => (await ask()).status, { timeout: 10_000 }).toBe(200)
    await expect.poll(device, { timeout: 10_000 }).toMatchObject({ state: 'ready' })
    expect(await held()).toEqual({ sessions: 0, kvBytes: 0 })
  })

  it('a bridge that is killed in the middle of an answer leaves it to the small model of the device', async () => {
    const slm = await buildSlmBundle(dir.path)
    const independent = await startAgent(0, 'jetson-02', '--slm', slm)
    const events = await longAnswer({ brim: { fallback: 'slm' } }, independent)
    process.kill(bridge.pid, 'SIGKILL')
    const said: string[] = []
    for await (const data of events) said.push(data)
    expect(said.at(-1)).toBe('[DONE]')
    expect((JSON.parse(said.at(-2)!) as { brim: unknown }).brim).toMatchObject({
      sources: [
        { source: 'hat', model: 'tiny-llama' },
        { source: 'slm', model: 'tiny-slm' },
      ],
      fallback: { code: 'LINK_LOST' },
    })
  })
})
