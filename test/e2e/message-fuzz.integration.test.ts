import { isUtf8 } from 'node:buffer'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import type { z } from 'zod'
import { createDeviceJobs } from '../../agent/jobs/device-jobs.ts'
import { JobLedger, ledgerMigrations } from '../../agent/jobs/ledger.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { identityOperations } from '../../core/wire/protocol/http/identity.ts'
import type { JobDetails } from '../../core/wire/protocol/http/jobs.ts'
import { EnrolRequest, GrantRequest } from '../../core/wire/protocol/identity.ts'
import { JobAck, JobAddress, JobEvent, ToJobDevice } from '../../core/wire/protocol/jobs.ts'
import { BridgeState, DeviceState, DeviceTelemetry, MessageFault, ToBridge, ToDevice } from '../../core/wire/protocol/messages.ts'
import { readMessage } from '../../core/wire/protocol/read-message.ts'
import { bridgeStateTopic, type DeviceTopic, deviceTopic } from '../../core/wire/protocol/topics.ts'
import { schemaOf } from '../../scripts/docs/asyncapi.ts'
import { isKnown, registerAbsentDevice } from '../support/absent-device.ts'
import { startAgentWorld } from '../support/agent-world.ts'
import { mqttClient, startBroker, watchTopic } from '../support/broker.ts'
import { mutated, secret, valid } from '../support/messages.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { tempDir } from '../support/temp-dir.ts'

const world = shared(startAgentWorld)

const { telemetrySampleBytes } = BridgeLimits.parse({})

/** The same samples for the same seed, so that a failure can be repeated. The broker's packet limit is 256 KiB. */
function samples(messages: fc.Arbitrary<unknown>, count: number, seed: number): Buffer[] {
  return fc
    .sample(mutated(messages), { numRuns: count * 2, seed })
    .filter(({ length }) => length < 200_000)
    .slice(0, count)
}
const samplesOf = (schema: z.ZodType, count: number, seed: number) => samples(valid(schemaOf(schema)), count, seed)
const topicOf = (device: string, leaf: DeviceTopic) => deviceTopic('default', device, leaf)
const headers = { 'content-type': 'application/json' }

/** Submits a job. @returns a function that reads the job */
async function submitted(job: object): Promise<() => Promise<JobDetails>> {
  const url = `${world.bridge.httpUrl}/v1/jobs`
  const response = await postJson(url, job)
  const { id } = (await response.json()) as { id: string }
  return async () => (await (await fetch(`${url}/${id}`)).json()) as JobDetails
}

/** Checks that bridge and device still complete a job. */
async function expectWorking(): Promise<void> {
  const input = { prompt: 'Can you', maxTokens: 8 }
  const job = await submitted({ kind: 'hat.generate', device: 'jetson-01', priority: 9, input })
  await expect.poll(() => job().then(({ state }) => state)).toBe('SUCCEEDED')
}

describe('a bridge that receives invalid messages', () => {
  it('keeps working on MQTT, and reports each unreadable message to its device', async () => {
    const schemas = { state: DeviceState, telemetry: DeviceTelemetry, events: JobEvent } as const
    let refused = 0
    for (let at = 0; at < 6; at++) {
      const device = `fuzz-${at}`
      const expected: string[] = []
      await using faults = await watchTopic(world.bridge.mqttUrl, topicOf(device, 'faults'))
      const client = await mqttClient(world.bridge.mqttUrl, `device-${device}`)
      for (const [leaf, schema] of Object.entries(schemas) as [keyof typeof schemas, z.ZodType][])
        for (const payload of samplesOf(schema, 9, at)) {
          await client.publishAsync(topicOf(device, leaf), payload, { qos: 1 })
          const read = readMessage(schema, payload)
          if (leaf === 'telemetry' && payload.length > telemetrySampleBytes)
            expected.push(`${leaf}: ${payload.length} bytes; the limit is ${telemetrySampleBytes}`)
          // An empty state only clears the retained one.
          else if (read.kind === 'unreadable' && !(leaf === 'state' && payload.length === 0))
            expected.push(`${leaf}: ${read.reason}`)
        }
      await expect.poll(() => faults.messages.length).toBe(expected.length)
      const reported = faults.messages.map(({ text }) => MessageFault.parse(JSON.parse(text)))
      expect(reported.map(({ leaf, reason }) => `${leaf}: ${reason}`).sort()).toEqual(expected.sort())
      refused += reported.length
      await client.endAsync()
    }
    expect(refused).toBeGreaterThan(60)
    await expectWorking()
  })

  it('limits its reports about repeated messages', async () => {
    await using faults = await watchTopic(world.bridge.mqttUrl, topicOf('parrot', 'faults'))
    const client = await mqttClient(world.bridge.mqttUrl, 'device-parrot')
    for (let again = 0; again < 30; again++) await client.publishAsync(topicOf('parrot', 'telemetry'), '{"v":2}', { qos: 1 })
    await client.publishAsync(topicOf('parrot', 'events'), 'last', { qos: 1 })
    await expect.poll(() => faults.messages.at(-1)?.text).toContain('"events"')
    // Ten reports about telemetry, and one about events.
    expect(faults.messages.length).toBe(11)
    await client.endAsync()
  })

  it('accepts each HTTP request, or responds with the reason', async () => {
    await registerAbsentDevice(world.bridge, 'absent')
    const submissions = fc.constantFrom(
      { kind: 'hat.generate', input: { prompt: 'Can you', maxTokens: 4, stop: ['.'] }, device: 'absent', priority: 7 },
      {
        kind: 'hat.verify',
        input: { prompt: 'Can you', continuation: ' book' },
        device: 'absent',
        timeouts: { runS: 9 },
      },
    )
    const paths = [
      { path: '/v1/jobs', bodies: samples(submissions, 60, 1) },
      { path: identityOperations.enrol.path, bodies: samplesOf(EnrolRequest, 30, 2) },
      { path: identityOperations.session.path, bodies: samplesOf(GrantRequest, 30, 3) },
    ]
    let refused = 0
    for (const { path, bodies } of paths)
      for (const body of bodies) {
        const response = await fetch(`${world.bridge.httpUrl}${path}`, { method: 'POST', headers, body: new Uint8Array(body) })
        expect([200, 202, 400, 401, 403, 413], body.toString().slice(0, 200)).toContain(response.status)
        const result = (await response.json()) as { error?: { code: string; message: string } }
        expect(result.error === undefined).toBe(response.ok)
        if (!result.error) continue
        refused += 1
        expect(result.error.message).toMatch(/^[^\n]{5,400}$/)
        expect(JSON.stringify(result)).not.toContain(secret)
      }
    expect(refused).toBeGreaterThan(80)
    await expectWorking()
  })

  it('closes its WebSocket with 1007 on text that is not UTF-8 (RFC 6455)', async () => {
    const socket = new WebSocket(world.bridge.dataUrl)
    await once(socket, 'open')
    socket.send(Buffer.from([0x7b, 0xff, 0x7d]), { binary: false })
    expect(await once(socket, 'close')).toMatchObject([1007, expect.anything()])
  })

  it('sends the reason before it closes its WebSocket', async () => {
    for (const [at, payload] of samplesOf(ToBridge, 60, 4).filter(isUtf8).entries()) {
      const socket = new WebSocket(world.bridge.dataUrl)
      const received: ToDevice[] = []
      socket.on('message', (data: Buffer) => received.push(ToDevice.parse(JSON.parse(data.toString()))))
      const closed = once(socket, 'close')
      await once(socket, 'open')
      if (at % 2 === 0) socket.send(JSON.stringify({ type: 'hello', v: 1, device: 'fuzz', birth: 1 }))
      socket.send(payload, { binary: false })
      // At the latest the second hello is invalid.
      socket.send(JSON.stringify({ type: 'hello', v: 1, device: 'fuzz', birth: 1 }))
      socket.send(JSON.stringify({ type: 'hello', v: 1, device: 'fuzz', birth: 1 }))
      await closed
      const refusal = received.findLast(({ type }) => type === 'refused')
      const read = readMessage(ToBridge, payload)
      const reason =
        payload.length > 4096
          ? 'longer than 4096 bytes'
          : read.kind === 'unreadable'
            ? read.reason
            : 'hello must be the first message'
      expect(refusal).toMatchObject({ type: 'refused', message: expect.stringContaining(reason) })
    }
    await expectWorking()
  })
})

describe('a device that receives invalid messages', () => {
  it('keeps working on MQTT, and refuses each unreadable job with the reason', async () => {
    // A broker where any client may be a bridge.
    await using open = await startBroker({ limits: { mqttRetainedMessageBytes: 256 * 1024 } })
    await world.startAgent({ id: 'jetson-02', bridges: [world.bridge.mqttUrl, open.url] })
    await using states = await watchTopic(open.url, topicOf('jetson-02', 'state'))
    await expect.poll(() => states.messages.length).toBeGreaterThan(0)
    await using events = await watchTopic(open.url, topicOf('jetson-02', 'events'))
    const client = await mqttClient(open.url, 'bridge-fuzz')
    const expected = new Map<string, string>()
    const readable = new Set<string>()
    for (const payload of samplesOf(ToJobDevice, 120, 5)) {
      await client.publishAsync(topicOf('jetson-02', 'jobs'), payload, { qos: 1 })
      const read = readMessage(ToJobDevice, payload)
      const address = JobAddress.safeParse(read.kind === 'unreadable' ? read.json : read.message).data
      const key = JSON.stringify(address)
      if (read.kind === 'message') readable.add(key)
      else if (address && !readable.has(key)) expected.set(key, read.reason)
    }
    for (const payload of samplesOf(JobAck, 40, 6)) await client.publishAsync(topicOf('jetson-02', 'acks'), payload, { qos: 1 })
    for (const payload of samplesOf(MessageFault, 40, 7)) await client.publishAsync(topicOf('jetson-02', 'faults'), payload)
    for (const payload of samplesOf(BridgeState, 40, 8))
      await client.publishAsync(bridgeStateTopic('default', 'fuzz'), payload, { qos: 1, retain: true })
    await client.publishAsync(bridgeStateTopic('default', 'fuzz'), '', { qos: 1, retain: true })
    expect(expected.size).toBeGreaterThan(15)
    const refused = () =>
      new Map(
        events.messages.flatMap(({ text }) => {
          const event = JobEvent.parse(JSON.parse(text))
          const cannot = /^the device cannot read the job: (.*)$/s
          const [, reason] = (event.type === 'failed' && cannot.exec(event.error.message)) || []
          return reason === undefined ? [] : [[JSON.stringify(JobAddress.parse(event)), reason] as const]
        }),
      )
    await expect.poll(() => [...refused()].sort()).toEqual([...expected].sort())
    await client.endAsync()
    await expectWorking()
  })

  it('rejects a job of a newer protocol version with the reason', async () => {
    using dir = tempDir()
    const store = openDatabase(join(dir.path, 'jobs.sqlite'), ledgerMigrations)
    const jobs = createDeviceJobs({ ledger: new JobLedger(store), clock: systemClock, logger: silentLogger() })
    const { handlers, onConnection } = jobs.service('mqtt://bridge')
    const client = await mqttClient(world.bridge.mqttUrl, 'device-older')
    const publish = (_leaf: string, event: string) =>
      client.publishAsync(topicOf('older', 'events'), event, { qos: 1 }).then(() => true)
    onConnection({ publish, publishState: async () => true })
    client.on('message', (_, payload) => handlers.jobs(Buffer.from(payload.toString().replace('"v":1', '"v":2'))))
    await client.subscribeAsync(topicOf('older', 'jobs'), { qos: 1 })
    const ready: DeviceState = { v: 1, state: 'ready', birth: 1, at: new Date(0).toISOString(), jobs: ['profile'] }
    await client.publishAsync(topicOf('older', 'state'), JSON.stringify(ready), { qos: 1, retain: true })
    await isKnown(world.bridge, 'older')
    const job = await submitted({ kind: 'profile', device: 'older', input: {} })
    await expect.poll(() => job().then(({ state }) => state)).toBe('REJECTED')
    expect((await job()).error).toMatchObject({
      code: 'PROTOCOL_VERSION',
      message: expect.stringContaining('supports version 1'),
    })
    store.close()
    await client.endAsync()
  })

  it('connects its WebSocket in spite of them', async () => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
    await once(server, 'listening')
    // A reply to `hello` would end the handshake.
    const noise = samplesOf(ToDevice, 80, 9).filter((payload) => {
      const read = readMessage(ToDevice, payload)
      const isReply = read.kind === 'message' && (read.message.type === 'welcome' || read.message.type === 'refused')
      return isUtf8(payload) && !isReply
    })
    expect(noise.length).toBeGreaterThan(40)
    const greeted = new Promise<void>((resolve) => {
      server.on('connection', (socket) => {
        socket.on('message', (data: Buffer, isBinary) => {
          if (isBinary || !data.toString().includes('"hello"')) return
          for (const payload of noise) socket.send(payload, { binary: false })
          socket.send(
            JSON.stringify({ type: 'welcome', v: 1, bridge: 'bridge-1', modelId: world.bridge.modelId } satisfies ToDevice),
          )
          resolve()
        })
      })
    })
    const dataUrl = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/v1/data`
    const agent = await world.startAgent({ id: 'listener', dataUrl })
    await greeted
    await expect
      .poll(async () => ((await (await fetch(`${agent.apiUrl}/health`)).json()) as { bridge: string }).bridge)
      .toBe('connected')
    await agent.close()
    server.close()
    for (const client of server.clients) client.terminate()
  })
})
