import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { type Manifest, manifestFile } from '../../../core/model/bundle/manifest.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { buildSlmBundle, buildTextBundle } from '../../support/agent-world.ts'
import { healthOf, startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const question = { model: 'brim', messages: [{ role: 'user', content: 'Where does the river rise?' }] }
const greedy = { ...question, temperature: 0, max_tokens: 60, ignore_eos: true, stream: true }
/** Its text cannot end before the tokens do. */
const structured = {
  ...greedy,
  ignore_eos: false,
  temperature: 0.9,
  seed: 3,
  structured_outputs: { regex: '([a-z]{1,8} ){100,}' },
}
const sampled = { ...greedy, temperature: 0.9, seed: 7, presence_penalty: 0.4 }

const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path, { adapter: false })
})

interface Received {
  readonly text: string
  readonly lastId: string | undefined
  readonly finish: string | undefined
  readonly usage: { completion_tokens: number } | undefined
}

/** Reads a streamed answer. @param events after so many with text `stop` is aborted */
async function read(response: Response, stop: AbortController, events = Number.POSITIVE_INFINITY): Promise<Received> {
  let text = ''
  let lastId: string | undefined
  let finish: string | undefined
  let usage: Received['usage']
  let left = events
  try {
    for await (const data of readSse(response.body!, { onId: (id) => (lastId = id) })) {
      if (data === '[DONE]') break
      const event = JSON.parse(data)
      const piece = event.choices?.[0]?.delta?.content ?? ''
      text += piece
      finish = event.choices?.[0]?.finish_reason ?? finish
      usage = event.usage ?? usage
      if (piece !== '' && --left === 0) stop.abort()
    }
  } catch (error) {
    // The bridge was killed, or the test has dropped the connection.
    if (!stop.signal.aborted && !(error instanceof TypeError)) throw error
  }
  return { text, lastId, finish, usage }
}

const headersOf = (key?: string): Record<string, string> => (key === undefined ? {} : { authorization: `Bearer ${key}` })

/** Its response has begun: the first token is certain. */
function post(url: string, body: object, key?: string, signal: AbortSignal | null = null): Promise<Response> {
  return postJson(`${url}/v1/chat/completions`, body, headersOf(key), signal)
}

async function ask(url: string, body: object, events?: number, key?: string): Promise<Received> {
  const stop = new AbortController()
  return read(await post(url, body, key, stop.signal), stop, events)
}

const answerOf = (eventId: string | undefined) => eventId!.slice(0, eventId!.lastIndexOf('/'))

function reconnect(url: string, lastId: string | undefined, key?: string, signal?: AbortSignal): Promise<Response> {
  const headers = { ...headersOf(key), 'last-event-id': lastId! }
  return fetch(`${url}/v1/answers/${answerOf(lastId)}/events`, { headers, signal: signal ?? null })
}

async function rest(url: string, lastId: string | undefined, events?: number, key?: string): Promise<Received> {
  const stop = new AbortController()
  const response = await reconnect(url, lastId, key, stop.signal)
  expect(response.status).toBe(200)
  return read(response, stop, events)
}

it('an answer goes on with its own model where the bridge serves two of one name', async () => {
  const other = await buildSlmBundle(dir.path)
  const file = join(other, manifestFile)
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as Manifest
  writeFileSync(file, JSON.stringify({ ...manifest, card: { ...manifest.card, name: 'tiny-llama' } }))
  const stateDir = join(dir.path, 'two')
  await using bridge = await startTestBridge({ bundle: [bundle, other], stateDir, limits: { answerGraceS: 30 } })
  const texts: string[] = []
  for (const model of [bridge.modelId, manifest.modelId]) {
    const body = { ...greedy, model }
    const whole = await ask(bridge.httpUrl, body)
    const first = await ask(bridge.httpUrl, body, 3)
    expect(first.text + (await rest(bridge.httpUrl, first.lastId)).text).toBe(whole.text)
    texts.push(whole.text)
  }
  expect(texts[0]).not.toBe(texts[1])
})

describe('a streamed answer whose connection is lost', () => {
  let bridge: TestBridge
  beforeAll(async () => {
    bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'lost'), limits: { answerGraceS: 30 } })
  })
  afterAll(() => bridge.close())

  it.each([
    ['greedy', greedy],
    ['sampled', sampled],
    ['of log probabilities', { ...sampled, logprobs: true, top_logprobs: 2 }],
    ['of a grammar', structured],
    ['with stop strings', { ...sampled, stop: ['zzzz', 'e'.repeat(40)] }],
  ])('goes on with exactly the rest, however often: %s', async (_, asked) => {
    const body = { ...asked, stream_options: { include_usage: true } }
    const whole = await ask(bridge.httpUrl, body)
    expect(whole.finish).toBe('length')
    const parts = [await ask(bridge.httpUrl, body, 3)]
    for (const events of [1, 5, undefined]) parts.push(await rest(bridge.httpUrl, parts.at(-1)!.lastId, events))
    expect(parts.map(({ text }) => text).join('')).toBe(whole.text)
    expect(parts.slice(0, -1).every(({ finish }) => finish === undefined)).toBe(true)
    expect(parts.at(-1)).toMatchObject({ finish: 'length', usage: whole.usage })
  })

  it('is given as a whole to a client that names no event', async () => {
    const first = await ask(bridge.httpUrl, sampled, 4)
    const response = await fetch(`${bridge.httpUrl}/v1/answers/${answerOf(first.lastId)}/events`)
    expect((await read(response, new AbortController())).text).toBe((await ask(bridge.httpUrl, sampled)).text)
  })

  it('belongs to the last connection: an older one ends', async () => {
    const long = { ...sampled, max_tokens: 300 }
    const first = await ask(bridge.httpUrl, long, 2)
    const older = await reconnect(bridge.httpUrl, first.lastId)
    const newer = await rest(bridge.httpUrl, first.lastId)
    expect(newer.finish).toBe('length')
    expect((await read(older, new AbortController())).finish).toBeUndefined()
    expect(first.text + newer.text).toBe((await ask(bridge.httpUrl, long)).text)
  })

  it('is there after it was sent completely: the network may have lost the end of it', async () => {
    const { text, lastId } = await ask(bridge.httpUrl, greedy)
    expect(await rest(bridge.httpUrl, lastId)).toMatchObject({ text: '', finish: 'length' })
    const half = `${answerOf(lastId)}/30`
    const { text: end } = await rest(bridge.httpUrl, half)
    expect(end.length).toBeGreaterThan(0)
    expect(text.slice(-end.length)).toBe(end)
  })

  it.each(['x', '/', 'other/3', 'chatcmpl-1/-1', 'chatcmpl-1/1e3'])('refuses the event id "%s"', async (id) => {
    const response = await fetch(`${bridge.httpUrl}/v1/answers/chatcmpl-1/events`, { headers: { 'last-event-id': id } })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
  })
})

it('waits for its client no longer than the grace time, and for no other client', async () => {
  const stateDir = join(dir.path, 'grace')
  const limits = { answerGraceS: 4, detachedAnswers: 2 }
  await using bridge = await startTestBridge({ bundle, stateDir, auth: true, limits })
  const store = openIdentityStore(stateDir)
  const keys = ['a', 'b'].map((name) =>
    store.createKey('operator:test', name, 'client', { requestsPerMinute: null, jobsPerDay: null }),
  )
  store.close()
  const [own, other] = keys.map(({ key }) => key)
  const dropped: Received[] = []
  for (let nth = 0; nth < 3; nth++) dropped.push(await ask(bridge.httpUrl, greedy, 2, own))
  const statusOf = async ({ lastId }: Received, key?: string) => {
    const response = await reconnect(bridge.httpUrl, lastId, key)
    await response.text()
    return response.status
  }
  expect(await statusOf(dropped[1]!, other)).toBe(404)
  expect(await statusOf(dropped[1]!)).toBe(401)
  // The bridge has noticed all three; a reconnect would make an answer wait anew.
  await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
  // Only two wait.
  expect(await statusOf(dropped[0]!, own)).toBe(404)
  expect(await statusOf(dropped[1]!, own)).toBe(200)
  await sleep(4_200)
  expect(await statusOf(dropped[2]!, own)).toBe(404)
})

it.each([
  ['with its KV in files', ['--kv-slow', 'file']],
  ['without', ['--kv-slow', 'none']],
])('survives a killed bridge %s, greedy, sampled and of a grammar; our own client reconnects by itself', async (name, kv) => {
  const [stateDir, port] = [join(dir.path, name), String(await freePort())]
  const options = ['--state-dir', stateDir, '--mqtt-port', '0', '--http-port', port, '--threads', '1', ...kv]
  const start = () => startBrim(['bridge', 'run', '--bundle', bundle, ...options], { env: process.env })
  const url = `http://127.0.0.1:${port}`
  const first = await start()
  const bodies = [greedy, sampled, structured].map((body) => ({ ...body, max_tokens: 200 }))
  const dropped = await Promise.all(bodies.map((body, at) => ask(url, body, 6 + at)))
  // Under way when the bridge is killed.
  const underWay = bodies.map(async (body) => read(await post(url, body), new AbortController()))
  const heard: string[] = []
  const notices: string[] = []
  const answer = streamAnswerFrom({ server: 'bridge', url }, bodies[1]!, new AbortController().signal, {
    onText: (piece) => heard.push(piece),
    onNotice: (notice) => notices.push(notice),
  })
  await expect.poll(() => heard.length).toBeGreaterThan(3)
  await first.kill()
  const cut = await Promise.all(underWay)
  const second = await start()
  try {
    const { text, usage } = await answer
    expect(notices).toContainEqual(expect.stringContaining('was lost'))
    expect([heard.join(''), usage?.completion_tokens]).toEqual([text, 200])
    for (const [at, body] of bodies.entries()) {
      const whole = await ask(url, body)
      if (body === bodies[1]) expect(text).toBe(whole.text)
      for (const { text, lastId } of [dropped[at]!, cut[at]!]) {
        expect(text.length).toBeGreaterThan(0)
        expect(text.length).toBeLessThan(whole.text.length)
        expect(text + (await rest(url, lastId)).text).toBe(whole.text)
      }
    }
    const loaded = /^brim_kv_loaded_bytes_total (\d+)/m.exec(await (await fetch(`${url}/metrics`)).text())
    expect(Number(loaded?.[1]) > 0).toBe(kv.includes('file'))
  } finally {
    await second.stop()
  }
})
