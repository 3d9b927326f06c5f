import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readAgentConfig } from '../../agent/config.ts'
import { DeviceTelemetry } from '../../core/protocol/messages.ts'
import { deviceTopic } from '../../core/protocol/topics.ts'
import { type AgentWorld, startAgentWorld } from '../support/agent-world.ts'
import { watchTopic } from '../support/broker.ts'
import { type FakeClock, fakeClock } from '../support/fake-clock.ts'

let world: AgentWorld
beforeAll(async () => {
  world = await startAgentWorld()
})
afterAll(() => world[Symbol.asyncDispose]())

const topicOf = (device: string) => deviceTopic('default', device, 'telemetry')

async function watchTelemetry(clock: FakeClock, device: string) {
  const watcher = await watchTopic(world.bridge.mqttUrl, topicOf(device))
  const all = () => watcher.messages.map(({ text }) => DeviceTelemetry.parse(JSON.parse(text)))
  return {
    all,
    async afterASecond() {
      await clock.advance(1_000)
      return all().at(-1)
    },
    [Symbol.asyncDispose]: watcher[Symbol.asyncDispose],
  }
}

async function listed(device: string): Promise<unknown> {
  const { devices } = (await (await fetch(`${world.bridge.httpUrl}/v1/devices`)).json()) as { devices: { id: string }[] }
  return devices.find(({ id }) => id === device)
}

describe('the telemetry of an agent', () => {
  it('tells what it has learnt of an idle link, and the bridge shows it with its age', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'idle')
    const agent = await world.startAgent({ id: 'idle' }, clock)
    await expect
      .poll(watched.afterASecond, { timeout: 20_000 })
      .toMatchObject({ v: 1, birth: 1, link: { bridge: 'bridge-1', downBytesPerS: expect.any(Number) } })
    const last = watched.all().at(-1)!
    expect(last.link?.upBytesPerS).toBeGreaterThan(0)
    // Nobody has asked anything.
    expect(last.speed).toEqual({ prefillTokensPerS: null, draftStepMs: null })
    const { birth, link, speed } = last
    await expect
      .poll(() => listed('idle'))
      .toMatchObject({ state: 'ready', telemetry: { ageS: expect.any(Number), birth, link, speed } })
    await agent.close()
  })

  it('comes again when its time has come, though nothing has moved, and follows what has', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'busy')
    const agent = await world.startAgent({ id: 'busy', telemetryS: 5 }, clock)
    await expect.poll(watched.afterASecond, { timeout: 20_000 }).toMatchObject({ link: { downBytesPerS: expect.any(Number) } })
    const count = watched.all().length
    await clock.advance(5_000)
    await expect.poll(() => watched.all().length).toBeGreaterThan(count)
    const answer = await fetch(`${agent.apiUrl}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'brim', prompt: 'Where is the mill, and who is the miller of it?', max_tokens: 8 }),
    })
    expect(answer.status).toBe(200)
    await answer.text()
    await expect.poll(watched.afterASecond).toMatchObject({ speed: { draftStepMs: expect.any(Number) } })
    await agent.close()
  })

  it('is not retained, and ends with the agent', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'leaving')
    const agent = await world.startAgent({ id: 'leaving' }, clock)
    await expect.poll(watched.afterASecond).toBeDefined()
    await agent.close()
    await clock.advance(60_000)
    await using late = await watchTopic(world.bridge.mqttUrl, 'brim/v1/default/device/leaving/+')
    await expect.poll(() => late.messages.map(({ text }) => JSON.parse(text).state)).toContain('disconnected')
    expect(late.messages.filter(({ topic }) => topic === topicOf('leaving'))).toEqual([])
  })

  it('is not sent where it is turned off', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'silent')
    const agent = await world.startAgent({ id: 'silent', telemetryS: 0 }, clock)
    await expect.poll(() => listed('silent')).toMatchObject({ state: 'ready', telemetry: null })
    await clock.advance(19_000)
    await agent.close()
    await expect.poll(() => listed('silent')).toMatchObject({ state: 'disconnected', telemetry: null })
    expect(watched.all()).toEqual([])
  })

  it('is not wanted more often than once a second', () => {
    const read = (telemetryS: number) => readAgentConfig({ id: 'a', bundle: 'b', stateDir: 's', telemetryS })
    expect(read(1).telemetryS).toBe(1)
    expect(() => read(0.5)).toThrow('telemetryS: at least 1')
    expect(() => read(-1)).toThrow('telemetryS: at least 1')
  })
})
