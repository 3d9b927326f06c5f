import { describe, expect, it, vi } from 'vitest'
import { DeadBandOption } from '../../../agent/commands/run.ts'
import { type AgentSettings, readAgentConfig } from '../../../agent/config.ts'
import type { Host } from '../../../agent/device/host.ts'
import { version } from '../../../core/kit/base/version.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { isKnown } from '../../support/absent-device.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { watchTopic } from '../../support/broker.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { type FakeClock, fakeClock } from '../../support/fake-clock.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'
import { samplesIn } from '../../support/telemetry.ts'

const world = shared(startAgentWorld)

const topicOf = (device: string) => deviceTopic('default', device, 'telemetry')

async function watchTelemetry(clock: FakeClock, device: string) {
  const watcher = await watchTopic(world.bridge.mqttUrl, topicOf(device))
  const all = () => samplesIn(watcher.messages.map(({ text }) => text))
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

/** A host whose reads can be awaited: a source that is still reading when the clock moves on counts as one that hangs. */
function settlingHost({ text, number, list, run }: Host) {
  let reading = 0
  const counted =
    <Args extends readonly unknown[], Result>(read: (...args: Args) => Promise<Result>) =>
    (...args: Args) => {
      reading += 1
      return read(...args).finally(() => {
        reading -= 1
      })
    }
  const host: Host = { text: counted(text), number: counted(number), list: counted(list), run: counted(run) }
  return {
    host,
    /** Resolves when nothing has been read for a few turns of the event loop: sources read one file after the other. */
    async settled() {
      for (let quiet = 0; quiet < 5; quiet = reading === 0 ? quiet + 1 : 0) await new Promise((turn) => setImmediate(turn))
    },
  }
}

describe('the telemetry of an agent', () => {
  it('reports the measured rates of an idle link, and the bridge shows them with their age', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'idle')
    const agent = await world.startAgent({ id: 'idle' }, clock)
    await expect.poll(watched.afterASecond).toMatchObject({
      v: 1,
      birth: 1,
      memory: { totalBytes: expect.any(Number) },
      link: { bridge: 'bridge-1', downBytesPerS: expect.any(Number) },
    })
    const last = watched.all().at(-1)!
    expect(last.link?.upBytesPerS).toBeGreaterThan(0)
    // No request has been served yet.
    expect(last.speed).toEqual({ prefillTokensPerS: null, draftStepMs: null })
    const { birth, link, speed } = last
    await expect
      .poll(() => listed('idle'))
      .toMatchObject({ state: 'ready', telemetry: { ageS: expect.any(Number), birth, link, speed } })
    await agent.close()
  })

  it('is sent again after the interval, and when a figure has moved', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'busy')
    const agent = await world.startAgent({ id: 'busy', telemetryS: 5 }, clock)
    await expect.poll(watched.afterASecond).toMatchObject({ link: { downBytesPerS: expect.any(Number) } })
    const count = watched.all().length
    await clock.advance(5_000)
    await expect.poll(() => watched.all().length).toBeGreaterThan(count)
    const answer = await postJson(`${agent.apiUrl}/v1/completions`, {
      model: 'brim',
      prompt: 'Where is the mill, and who is the miller of it?',
      max_tokens: 8,
    })
    expect(answer.status).toBe(200)
    await answer.text()
    await expect.poll(watched.afterASecond).toMatchObject({ speed: { draftStepMs: expect.any(Number) } })
    await agent.close()
  })

  it('is not retained, and stops with the agent', async () => {
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

  it('is not sent if turned off', async () => {
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'silent')
    const agent = await world.startAgent({ id: 'silent', telemetryS: 0 }, clock)
    await expect.poll(() => listed('silent')).toMatchObject({ state: 'ready', telemetry: null })
    await clock.advance(19_000)
    await agent.close()
    await expect.poll(() => listed('silent')).toMatchObject({ state: 'disconnected', telemetry: null })
    expect(watched.all()).toEqual([])
  })

  it('reports the condition of the device, and changes of it at once; the bridge shows them', async () => {
    using device = fixtureHost('orin-nano-jp6')
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'orin')
    const agent = await world.startAgent({ id: 'orin' }, clock, device.host)
    await expect.poll(watched.afterASecond).toMatchObject({
      device: { kind: 'jetson', module: 'Orin Nano', jetpack: '6.2.1', agent: version, modelId: agent.modelId },
      load: { gpuPercent: 0, emcPercent: null },
      temperatures: { hottestC: 48.5 },
      power: { totalW: 4.85, scope: 'module', jPerToken: null },
      battery: null,
      answers: { underWay: 0, decodeTokensPerS: {}, prefillTokensPerS: {} },
      bundles: { llm: { name: 'tiny-llama', modelId: agent.modelId }, slm: null },
      jobs: { waiting: 0, running: 0 },
      spool: { waiting: expect.any(Number), dropped: { full: 0, old: 0, unstored: 0 } },
      errors: [],
    })
    const hot = { '/sys/devices/virtual/thermal/cooling_device1/cur_state': '2\n' }
    device.set(hot)
    const isThrottled = { throttling: { isThrottled: true, causes: ['cooling cpufreq-cpu0'] } }
    await expect.poll(watched.afterASecond).toMatchObject(isThrottled)
    await expect.poll(() => listed('orin')).toMatchObject({ telemetry: { ...isThrottled, device: { module: 'Orin Nano' } } })
    await agent.close()
  })

  it('is sent at the configured interval while no figure moves', async () => {
    using device = fixtureHost('orin-nano-jp6')
    const clock = fakeClock()
    await using watched = await watchTelemetry(clock, 'steady')
    await using all = await watchTopic(world.bridge.mqttUrl, 'brim/v1/default/device/steady/+')
    const countOf = (leaf: string) => all.messages.filter(({ topic }) => topic.endsWith(leaf)).length
    const settings = { id: 'steady', telemetryS: 60, heartbeatS: 10 }
    const { host, settled } = settlingHost(device.host)
    const agent = await world.startAgent(settings, clock, host)
    await expect
      .poll(watched.afterASecond)
      .toMatchObject({ link: { downBytesPerS: expect.any(Number) }, power: { totalW: 4.85 } })
    let seconds = 0
    const pass = async () => {
      await settled()
      await clock.advance(1_000)
      seconds += 1
    }
    /** Until a heartbeat that is published from now on has arrived: messages of one device arrive in order. */
    const allArrived = async () => {
      const states = countOf('state')
      await expect
        .poll(
          async () => {
            await pass()
            return countOf('state')
          },
          { interval: 10 },
        )
        .toBeGreaterThan(states)
      return [countOf('telemetry'), seconds] as const
    }
    // Until the measurements of the link have settled.
    for (let s = 0; s < 120; s++) await pass()
    await allArrived()
    const [reportsBefore, secondsBefore] = await allArrived()
    for (let s = 0; s < 240; s++) await pass()
    const [reports, now] = await allArrived()
    const due = (now - secondsBefore) / 60
    expect(reports - reportsBefore).toBeGreaterThanOrEqual(due - 1.5)
    expect(reports - reportsBefore).toBeLessThanOrEqual(due + 1.5)
    await agent.close()
  })

  it('reports the decode rate of a model', async () => {
    using device = fixtureHost('orin-nano-jp6')
    const watcher = await watchTopic(world.bridge.mqttUrl, topicOf('worker'))
    const agent = await world.startAgent({ id: 'worker', telemetryS: 1 }, undefined, device.host)
    const answer = await postJson(`${agent.apiUrl}/v1/completions`, {
      model: 'brim',
      prompt: 'Where is the mill, and who is the miller of it?',
      max_tokens: 16,
    })
    expect(answer.status).toBe(200)
    await answer.text()
    const last = () => samplesIn(watcher.messages.map(({ text }) => text)).at(-1)?.answers
    const decodeTokensPerS = { 'tiny-llama': expect.any(Number) }
    await expect.poll(last).toEqual({ underWay: 0, decodeTokensPerS, prefillTokensPerS: {} })
    await agent.close()
    await watcher[Symbol.asyncDispose]()
  })

  it('marks its times as unknown while the clock is not set', async () => {
    const topics = await watchTopic(world.bridge.mqttUrl, 'brim/v1/default/device/no-rtc/+')
    vi.useFakeTimers({ toFake: ['Date'], now: 0 })
    try {
      const agent = await world.startAgent({ id: 'no-rtc', telemetryS: 1 })
      const messagesOn = (leaf: string) =>
        topics.messages.filter(({ topic }) => topic.endsWith(leaf)).map(({ text }) => JSON.parse(text))
      await expect.poll(() => messagesOn('telemetry').at(-1)).toMatchObject({ clockIsSet: false, birth: 1 })
      expect(messagesOn('state')[0]).toMatchObject({ clockIsSet: false, state: 'ready' })
      await agent.close()
    } finally {
      vi.useRealTimers()
      await topics[Symbol.asyncDispose]()
    }
  })

  it('reports the small model and its jobs', async () => {
    const slm = await buildSlmBundle(world.dir)
    const watcher = await watchTopic(world.bridge.mqttUrl, topicOf('small'))
    const agent = await world.startAgent({ id: 'small', telemetryS: 1, slms: [slm] })
    const submit = (body: object) => postJson(`${world.bridge.httpUrl}/v1/jobs`, body)
    const input = { prompt: 'Where is the mill, and who is the miller of it?', maxTokens: 16 }
    await isKnown(world.bridge, 'small')
    expect((await submit({ kind: 'slm.generate', input, device: 'small' })).status).toBe(202)
    const reports = () => samplesIn(watcher.messages.map(({ text }) => text))
    await expect
      .poll(() => reports().at(-1))
      .toMatchObject({
        bundles: { llm: { name: 'tiny-llama' }, slm: { name: 'tiny-slm', modelId: expect.stringMatching(/^[0-9a-f]{64}$/) } },
        answers: {
          underWay: 0,
          decodeTokensPerS: { 'tiny-slm': expect.any(Number) },
          prefillTokensPerS: { 'tiny-slm': expect.any(Number) },
        },
        jobs: { waiting: 0, running: 0 },
      })
    await agent.close()
    await watcher[Symbol.asyncDispose]()
  })

  it('cannot be configured to be sent more than once a second', () => {
    const read = (telemetryS: number) => readAgentConfig({ id: 'a', bundle: 'b', stateDir: 's', telemetryS })
    expect(read(1).telemetryS).toBe(1)
    expect(() => read(0.5)).toThrow('telemetryS: must be from 1 to 86400, or 0')
    expect(() => read(-1)).toThrow('telemetryS: must be from 1 to 86400, or 0')
    expect(() => read(1e9)).toThrow('telemetryS: must be from 1 to 86400, or 0')
  })
  it('accepts dead bands only for existing figures', () => {
    const read = (deadBands: object) => readAgentConfig({ id: 'a', bundle: 'b', stateDir: 's', deadBands } as AgentSettings)
    const bands = { hottestC: { amount: 2 }, decodeTokensPerS: { part: 0.5 }, W: { amount: 1 } }
    expect(read(bands).deadBands).toEqual({
      hottestC: { amount: 2, part: 0 },
      decodeTokensPerS: { amount: 0, part: 0.5 },
      W: { amount: 1, part: 0 },
    })
    for (const name of ['hotestC', 'degrees', '']) expect(() => read({ [name]: { amount: 1 } })).toThrow('no figure')
    expect(() => read({ W: { amount: -1 } })).toThrow('deadBands.W.amount')
    expect(['hottestC=2', 'W=20%', 'levelPercent=0.5'].map((text) => DeadBandOption.parse(text))).toEqual([
      ['hottestC', { amount: 2 }],
      ['W', { part: 0.2 }],
      ['levelPercent', { amount: 0.5 }],
    ])
    for (const text of ['', 'W', 'W=', '=2', 'W=x', 'W=-1', 'W=1C']) expect(DeadBandOption.safeParse(text).success).toBe(false)
  })
})
