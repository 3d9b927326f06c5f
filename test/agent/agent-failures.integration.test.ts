import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { hatEndpoint } from '../../agent/hat/endpoint.ts'
import { openDeviceModel } from '../../agent/hat/open-device-model.ts'
import { PrefixMemory } from '../../agent/hat/prefix-memory.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { noDrafter } from '../../core/model/draft/drafter.ts'
import { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import { portOf, startRelay } from '../../lab/cluster/relay.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { alteredPart } from '../support/altered-part.ts'
import { startTestApi } from '../support/api.ts'
import { startTestBridge } from '../support/bridge.ts'
import { dataLinkTo } from '../support/data-link.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tinyBundle } from '../support/tiny-bundle.ts'

const world = shared(startAgentWorld)

const ask = (apiUrl: string, fields: object = {}) =>
  postJson(`${apiUrl}/v1/completions`, { prompt: [5, 6, 7], max_tokens: 4, temperature: 0, ...fields })
const failure = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string; message: string; hint?: string } }
  return { status: response.status, ...error }
}

const bridgeFor = (bundle: string, name: string, ports: { mqttPort?: number; httpPort?: number } = {}) =>
  startTestBridge({ bundle, stateDir: join(world.dir, name), ...ports })

describe('without a bridge', () => {
  it('the agent starts, and reports BRIDGE_UNREACHABLE to clients, streaming or not', async () => {
    const agent = await world.startAgent({ id: 'lonely', bridges: ['mqtt://127.0.0.1:1'] })
    for (const stream of [true, false])
      expect(await failure(await ask(agent.apiUrl, { stream }))).toMatchObject({
        status: 503,
        code: 'BRIDGE_UNREACHABLE',
        type: 'server_error',
        message: expect.stringContaining('mqtt://127.0.0.1:1'),
        hint: expect.any(String),
      })
    expect(await (await fetch(`${agent.apiUrl}/health`)).json()).toMatchObject({ status: 'degraded', bridge: 'unreachable' })
  })

  it('the agent answers once a bridge is reachable', async () => {
    await using relay = await startRelay(1)
    const agent = await world.startAgent({ id: 'patient', bridges: [`mqtt://127.0.0.1:${relay.port}`] })
    expect((await ask(agent.apiUrl)).status).toBe(503)
    relay.target = portOf(world.bridge.mqttUrl)
    expect((await ask(agent.apiUrl)).status).toBe(200)
  })
})

describe('a bridge with another model', () => {
  it('is named in the error, with a hint, and opens no session', async () => {
    using other = await tinyBundle({ seed: 7 })
    await using bridge = await bridgeFor(other.path, 'other-model')
    const agent = await world.startAgent({ id: 'mismatched', bridges: [bridge.mqttUrl] })
    expect(await failure(await ask(agent.apiUrl))).toMatchObject({
      status: 503,
      code: 'BUNDLE_MISMATCH',
      message: expect.stringContaining(bridge.modelId.slice(0, 12)),
      hint: 'install the same bundle on both',
    })
    expect(await (await fetch(`${agent.apiUrl}/health`)).json()).toMatchObject({ bridge: 'mismatch' })
  })
})

describe('a bridge that stops during an answer', () => {
  it('is replaced by a second bridge, and the answer is the same', async () => {
    const bridge = await bridgeFor(world.bundle, 'first-of-two')
    // The second bridge is not reachable yet, so that the first is chosen.
    await using relay = await startRelay(1)
    const agent = await world.startAgent({ id: 'two-bridges', bridges: [bridge.mqttUrl, `mqtt://127.0.0.1:${relay.port}`] })
    const request = { max_tokens: 60, brim: { token_ids: true } }
    const expected = (await (await ask(world.agent.apiUrl, request)).json()) as { brim: { tokenIds: number[] } }
    const response = await ask(agent.apiUrl, { ...request, stream: true })
    let last: { brim?: { tokenIds: number[]; failovers: number } } = {}
    let events = 0
    for await (const data of readSse(response.body!)) {
      events += 1
      if (data !== '[DONE]') last = JSON.parse(data)
      if (events !== 2) continue
      relay.target = portOf(world.bridge.mqttUrl)
      void bridge.close()
    }
    expect(last.brim).toMatchObject({ tokenIds: expected.brim.tokenIds, failovers: 1 })
    expect(await (await fetch(`${agent.apiUrl}/health`)).json()).toMatchObject({ bridge: 'connected' })
  })

  it('ends the stream with an error event, and serves again after its restart', async () => {
    const bridge = await bridgeFor(world.bundle, 'leaving')
    const ports = { mqttPort: portOf(bridge.mqttUrl), httpPort: portOf(bridge.httpUrl) }
    const agent = await world.startAgent({ id: 'cut-off', bridges: [bridge.mqttUrl], patienceS: 0.5 })
    const response = await ask(agent.apiUrl, { max_tokens: 500, stream: true })
    expect(response.status).toBe(200)
    const events: { error?: { code: string } }[] = []
    for await (const data of readSse(response.body!)) {
      events.push(JSON.parse(data))
      if (events.length === 2) void bridge.close()
    }
    expect(events.at(-1)!.error).toMatchObject({ code: 'LINK_LOST', type: 'server_error' })
    await expect.poll(async () => (await failure(await ask(agent.apiUrl))).code).toBe('BRIDGE_UNREACHABLE')
    const again = await bridgeFor(world.bundle, 'leaving', ports)
    await expect.poll(async () => (await ask(agent.apiUrl)).status).toBe(200)
    await again.close()
  })
})

describe('a device without memory for another KV cache', () => {
  it('reports it, frees the KV on both sides, and answers the next request', async () => {
    const device = await openDeviceModel({ bundle: world.bundle, threads: 1, medusa: false })
    const link = dataLinkTo(world.bridge.dataUrl, { device: 'full' })
    const { dims, modelId } = device.manifest
    let full = true
    const input = alteredPart(device.input, {
      before([item]) {
        // As the engine throws when the buffers cannot grow (core/model/engine/sequence-memory.ts).
        if (full && item!.sequence.length > 0) throw new BrimError('OUT_OF_MEMORY', 'no memory for a KV cache of 4096 MiB')
      },
    })
    const hat = {
      dims,
      input,
      head: device.head,
      patienceMs: 0,
      prefixes: new PrefixMemory(systemClock),
      wire: 'fp16' as const,
      padding: true,
      prefill: 'chunked' as const,
      draftAhead: true,
      speed: new DeviceSpeed(),
      createDrafter: noDrafter,
      threshold: 0.6,
      draftLimit: 8,
      clock: systemClock,
    }
    const endpoint = hatEndpoint({ ...hat, open: (signal) => link.open(modelId, signal) }, device.text)
    const api = await startTestApi(device.manifest, endpoint)
    expect(await failure(await ask(api.url, { prompt: Array.from({ length: 40 }, () => 5) }))).toMatchObject({
      status: 503,
      code: 'OUT_OF_MEMORY',
    })
    expect(input.usedBytes()).toBe(0)
    await expect.poll(async () => (await world.bridgeHealth()).kvBytes).toBe(0)
    full = false
    expect((await ask(api.url)).status).toBe(200)
    await api.close()
    await link.close()
    await device.close()
  })
})

describe('an agent that stops', () => {
  it('ends its answers, and leaves no session at the bridge', async () => {
    const agent = await world.startAgent({ id: 'stopping' })
    const response = await ask(agent.apiUrl, { max_tokens: 500, stream: true })
    const events = readSse(response.body!)
    await events.next()
    expect((await world.bridgeHealth()).sessions).toBe(1)
    await agent.close()
    expect((await world.bridgeHealth()).sessions).toBe(0)
    await expect(ask(agent.apiUrl)).rejects.toThrow()
    await events.return(undefined)
  })

  it('increments its birth at every start', async () => {
    const births = async () => {
      const agent = await world.startAgent({ id: 'reborn' })
      await ask(agent.apiUrl)
      const { devices } = (await (await fetch(`${world.bridge.httpUrl}/v1/devices`)).json()) as {
        devices: { id: string; birth: number; state: string }[]
      }
      await agent.close()
      return devices.find(({ id }) => id === 'reborn')
    }
    const first = await births()
    const second = await births()
    expect(first).toMatchObject({ state: 'ready' })
    expect(second).toMatchObject({ state: 'ready', birth: first!.birth + 1 })
  })
})

describe('an invalid configuration', () => {
  it.each([
    [{ id: 'Not/A/Name' }, 'CONFIG_INVALID'],
    [{ id: 'a', bridge: 'http://127.0.0.1' }, 'CONFIG_INVALID'],
    [{ id: 'a', apiPort: 70_000 }, 'CONFIG_INVALID'],
    [{ id: 'a', dataUrl: 'http://127.0.0.1' }, 'CONFIG_INVALID'],
    [{ id: 'a', dataUrl: 'ws://127.0.0.1', bridges: ['mqtt://127.0.0.1:1', 'mqtt://127.0.0.1:2'] }, 'CONFIG_INVALID'],
    [{ id: 'a', draft: { threshold: 2 } }, 'CONFIG_INVALID'],
    [{ id: 'a', apiHost: '0.0.0.0' }, 'LISTEN_REFUSED'],
    [{ id: 'a', bundle: '/nowhere' }, 'BUNDLE_INVALID'],
    [{ id: 'a', slms: ['/nowhere'] }, 'BUNDLE_INVALID'],
  ])('%j is refused with %s', async (settings, code) => {
    await expect(world.startAgent(settings)).rejects.toMatchObject({ code })
  })

  it('rejects a split bundle as the small model', async () => {
    await expect(world.startAgent({ id: 'a', slms: [world.bundle] })).rejects.toMatchObject({
      code: 'BUNDLE_INVALID',
      message: expect.stringContaining('tiny-llama'),
      hint: 'build the bundle without --split',
    })
  })

  it('fails on a port in use before it replaces the other agent at the bridge', async () => {
    await using relay = await startRelay(portOf(world.bridge.mqttUrl))
    const apiPort = portOf(world.agent.apiUrl)
    const second = world.startAgent({ id: 'second', apiPort, bridges: [`mqtt://127.0.0.1:${relay.port}`] })
    await expect(second).rejects.toMatchObject({
      code: 'LISTEN_FAILED',
      message: expect.stringContaining(String(apiPort)),
    })
    expect(relay.connections).toEqual([])
  })
})
