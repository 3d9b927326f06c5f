import { once } from 'node:events'
import { connect } from 'node:net'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from '../../../agent/agent.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import type { JobDetails, StoredJobEvent } from '../../../core/wire/protocol/http/jobs.ts'
import { DeviceProfile } from '../../../core/wire/protocol/profile.ts'
import { deviceTopic } from '../../../core/wire/protocol/topics.ts'
import { registerAbsentDevice } from '../../support/absent-device.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { closed, mqttClient } from '../../support/broker.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
let slm: string
let able: Agent
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
  able = await world.startAgent({ id: 'jetson-02', slms: [slm] })
})

const url = (path = '') => `${world.bridge.httpUrl}/v1/jobs${path}`
async function post(path: string, body: object = {}, more: Record<string, string> = {}) {
  const response = await postJson(url(path), body, more)
  return { status: response.status, body: (await response.json()) as { id: string; isNew: boolean; error: { message: string } } }
}
const submit = async (body: object) => (await post('', body)).body.id
const show = async (id: string) => (await (await fetch(url(`/${id}`))).json()) as JobDetails
async function eventsOf(id: string): Promise<StoredJobEvent[]> {
  return ((await (await fetch(url(`/${id}/events`))).json()) as { events: StoredJobEvent[] }).events
}
async function stateOf(device: string): Promise<string | undefined> {
  const response = await fetch(`${world.bridge.httpUrl}/v1/devices`)
  const { devices } = (await response.json()) as { devices: { id: string; state: string }[] }
  return devices.find(({ id }) => id === device)?.state
}
const hasEnded = (id: string) =>
  expect.poll(async () => (await show(id)).state).toMatch(/SUCCEEDED|FAILED|REJECTED|TIMED_OUT|CANCELED/)

const question = { prompt: 'Can you book a table', maxTokens: 12, seed: 3 }

describe('jobs between a bridge and its devices', () => {
  it.each(['slm.generate', 'hat.generate'])('a %s job returns its result and its history', async (kind) => {
    const id = await submit({ kind, input: question })
    await hasEnded(id)
    const job = await show(id)
    expect(job).toMatchObject({ state: 'SUCCEEDED', attempt: 1, result: { finishReason: 'length', tokens: 12 } })
    const types = (await eventsOf(id)).map(({ type }) => type)
    expect(types.filter((type) => type !== 'text')).toEqual(['sent', 'accepted', 'running', 'succeeded'])
  })

  it('a job and the API of the device give the same answer to the same prompt', async () => {
    const id = await submit({ kind: 'hat.generate', input: question, device: 'jetson-01' })
    await hasEnded(id)
    const body = { prompt: question.prompt, max_tokens: 12, temperature: 0, seed: 3 }
    const response = await postJson(`${world.agent.apiUrl}/v1/completions`, body)
    const { choices } = (await response.json()) as { choices: { text: string }[] }
    expect((await show(id)).result).toMatchObject({ text: choices[0]?.text })
  })

  it('a client that watches without reading blocks no other client', async () => {
    await registerAbsentDevice(world.bridge, 'absent')
    const live = await submit({ kind: 'slm.generate', input: question, device: 'absent' })
    const done = await submit({ kind: 'slm.generate', input: question, device: 'absent' })
    await post(`/${done}/cancel`)
    const { hostname, port } = new URL(world.bridge.httpUrl)
    const socket = connect(Number(port), hostname)
    const get = (id: string) =>
      `GET /v1/jobs/${id}/events HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAccept: text/event-stream\r\n\r\n`
    // The second response is complete, but must wait for the end of the first.
    socket.write(get(live) + get(done))
    await once(socket, 'data')
    for (let again = 0; again < 3; again++) await post(`/${done}/cancel`)
    expect((await show(live)).state).toBe('QUEUED')
    socket.destroy()
    await post(`/${live}/cancel`)
    expect((await show(live)).state).toBe('CANCELED')
  })

  it('a profile job measures the models of the named device', async () => {
    const id = await submit({ kind: 'profile', input: {}, device: 'jetson-02' })
    await hasEnded(id)
    const { state, result } = await show(id)
    expect({ state, result }).toMatchObject({
      state: 'SUCCEEDED',
      result: {
        llm: { model: 'tiny-llama' },
        slm: { model: 'tiny-slm' },
        models: [{ model: 'tiny-slm', bytes: expect.any(Number), tokensPerLlmToken: 1 }],
        c: expect.any(Number),
      },
    })
    const { llm, slm, c } = result as Record<'llm' | 'slm', Record<string, number>> & { c: number }
    for (const { ttftMs, tpotMs, prefillTokensPerS, decodeTokensPerS } of [llm, slm]) {
      expect(ttftMs).toBeGreaterThan(0)
      expect(prefillTokensPerS).toBeCloseTo(64_000 / ttftMs!)
      expect(decodeTokensPerS).toBeCloseTo(1_000 / tpotMs!)
    }
    const [small] = DeviceProfile.parse(result).models
    expect(small?.loadMs).toBeGreaterThan(0)
    expect(small?.parallel.map(([sequences]) => sequences)).toEqual([2, 4, 8, 16])
    expect(c).toBeCloseTo((slm.ttftMs! + 127 * slm.tpotMs!) / (llm.ttftMs! + 127 * llm.tpotMs!))
  })

  it('a job of a kind that its device does not support is REJECTED with the reason', async () => {
    const id = await submit({ kind: 'slm.generate', input: question, device: 'jetson-01' })
    await hasEnded(id)
    expect(await show(id)).toMatchObject({
      state: 'REJECTED',
      attempt: 1,
      error: { code: 'REQUEST_INVALID', message: expect.stringContaining('this device does not support slm.generate') },
    })
  })

  it('an expansion is REJECTED with the kinds that the device supports', async () => {
    const input = { sketches: [{ prompt: 'What is a lamp?', sketch: ['It gives light.'], expectedTokens: 60 }] }
    const id = await submit({ kind: 'pice.expand', input, device: 'jetson-01' })
    await hasEnded(id)
    expect(await show(id)).toMatchObject({
      state: 'REJECTED',
      error: { message: expect.stringMatching(/^this device does not support pice\.expand; it supports hat\.generate/) },
    })
  })

  it('a job whose prompt is too long is REJECTED without a second attempt', async () => {
    const id = await submit({ kind: 'hat.generate', input: { prompt: 'far '.repeat(4_000) } })
    await hasEnded(id)
    expect(await show(id)).toMatchObject({ state: 'REJECTED', attempt: 1, error: { code: 'CONTEXT_OVERFLOW' } })
  })

  it('a repeated idempotency key returns the same job', async () => {
    const body = { kind: 'slm.generate', input: question }
    const first = await post('', body, { 'idempotency-key': 'order-7' })
    const again = await post('', body, { 'idempotency-key': 'order-7' })
    expect(first).toMatchObject({ status: 202, body: { isNew: true } })
    expect(again.body).toMatchObject({ id: first.body.id, isNew: false })
  })

  it('a client that watches gets every event after its last one once, and the end', async () => {
    const id = await submit({ kind: 'slm.generate', input: question })
    const watch = async (after: number) => {
      const response = await fetch(url(`/${id}/events`), {
        headers: { accept: 'text/event-stream', 'last-event-id': String(after) },
      })
      const seen: { seq?: number; type: string }[] = []
      for await (const data of readSse(response.body!)) seen.push(JSON.parse(data) as { type: string })
      return seen
    }
    const all = await watch(0)
    expect(all.at(-1)).toMatchObject({ type: 'end', job: { state: 'SUCCEEDED' } })
    expect(all.slice(0, -1).map(({ seq }) => seq)).toEqual(all.slice(0, -1).map((_, i) => i + 1))
    expect((await watch(2)).map(({ seq }) => seq)).toEqual(all.slice(2).map(({ seq }) => seq))
  })

  it('a canceled job stops at its device, which then runs the next job', async () => {
    const long = await submit({ kind: 'slm.generate', input: { prompt: 'Can you', maxTokens: 240 } })
    await expect.poll(async () => (await show(long)).state).toMatch(/RUNNING|SUCCEEDED/)
    await post(`/${long}/cancel`)
    const next = await submit({ kind: 'slm.generate', input: question })
    await hasEnded(next)
    expect((await show(long)).state).toMatch(/CANCELED|SUCCEEDED/)
    expect((await show(next)).state).toBe('SUCCEEDED')
  })

  it('a job waits for a device that supports it; an ended job can be retried', async () => {
    await able.close()
    await expect.poll(() => stateOf('jetson-02')).toBe('disconnected')
    const id = await submit({ kind: 'slm.generate', input: question })
    expect((await show(id)).state).toBe('QUEUED')
    expect((await post(`/${id}/retry`)).status).toBe(400)
    able = await world.startAgent({ id: 'jetson-02', slms: [slm] })
    await hasEnded(id)
    expect((await show(id)).state).toBe('SUCCEEDED')
    const again = (await post(`/${id}/retry`)).body.id
    await hasEnded(again)
    expect(await show(again)).toMatchObject({ state: 'SUCCEEDED', retryOf: id })
  })

  it.each([
    ['an unknown kind', '', { kind: 'make.coffee', input: {} }, 400, '"kind"'],
    ['a wrong input', '', { kind: 'slm.generate', input: { prompt: '' } }, 400, '"input.prompt"'],
    ['a large input', '', { kind: 'slm.generate', input: { prompt: 'é'.repeat(100_000) } }, 400, 'the limit is 131072'],
    ['an unknown job', '/00000000-9/cancel', {}, 404, 'there is no job'],
    ['an unknown path', '/00000000-9/cancel/now', {}, 404, 'no such path'],
  ])('%s is refused with the reason', async (_, path, body, status, words) => {
    const response = await post(path, body)
    expect(response.status).toBe(status)
    expect(response.body.error.message).toContain(words)
  })

  it('a device that publishes an oversized packet loses its connection, and no other device is affected', async () => {
    const client = await mqttClient(world.bridge.mqttUrl, 'device-loud')
    const cut = closed(client)
    client.publish(deviceTopic('default', 'loud', 'events'), 'x'.repeat(300_000))
    await cut
    const id = await submit({ kind: 'slm.generate', input: question })
    await hasEnded(id)
    expect((await show(id)).state).toBe('SUCCEEDED')
  })

  it('lists jobs by state, and dead letters', async () => {
    const list = async (query: string) => ((await (await fetch(url(`?${query}`))).json()) as { jobs: JobDetails[] }).jobs
    const rejected = await list('state=REJECTED')
    expect(rejected.length).toBeGreaterThan(0)
    expect(new Set(rejected.map(({ state }) => state))).toEqual(new Set(['REJECTED']))
    expect((await list('dead=true')).map(({ id }) => id)).toEqual(rejected.map(({ id }) => id))
    expect((await fetch(url('?state=LOST'))).status).toBe(400)
  })
})
