import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import type { BridgeSettings } from '../../../cloud-bridge/config.ts'
import type { Clock } from '../../../core/kit/base/clock.ts'
import { freePort } from '../../../lab/cluster/free-port.ts'
import { onLoopback } from '../../../lab/cluster/loopback-server.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { postJson } from '../../support/post-json.ts'
import { failing, finish, piece, scriptedUpstream, startStream, streamed } from '../../support/scripted-upstream.ts'
import { tempDir } from '../../support/temp-dir.ts'

type Script = Parameters<typeof scriptedUpstream>[number]

const dir = tempDir()
afterAll(() => dir[Symbol.dispose]())
const opened: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

async function upstream(...scripts: Script[]) {
  const server = await scriptedUpstream(...scripts)
  opened.push(server)
  return server
}

async function bridgeOf(url: string | string[], settings: Partial<BridgeSettings> = {}, clock?: Clock): Promise<TestBridge> {
  const stateDir = join(dir.path, `${Math.random()}`)
  const bridge = await startTestBridge({ upstream: { url, model: 'large' }, answerMode: 'full', stateDir, ...settings }, clock)
  opened.push(bridge)
  return bridge
}

const post = ({ httpUrl }: TestBridge, fields: object = {}) =>
  postJson(`${httpUrl}/v1/chat/completions`, {
    messages: [{ role: 'user', content: 'Where does the river rise?' }],
    max_tokens: 8,
    ...fields,
  })

interface Response {
  readonly choices: { readonly message: { readonly content: string } }[]
  readonly error: { readonly code: string; readonly message: string }
}

async function answerOf(bridge: TestBridge, fields: object = {}) {
  const response = await post(bridge, fields)
  const { choices, error } = (await response.json()) as Response
  return { status: response.status, text: choices?.[0]?.message.content, error, retryAfter: response.headers.get('retry-after') }
}

const times = <Item>(count: number, make: (nth: number) => Item) => Array.from({ length: count }, (_, nth) => make(nth))

/** Of one upstream, by the end of their names. */
async function metricsOf({ httpUrl }: TestBridge, { url }: { readonly url: string }) {
  const text = await (await fetch(`${httpUrl}/metrics`)).text()
  const of = text.matchAll(/^brim_bridge_upstream_(\w+)\{upstream="([^"]+)"\} (\d+)$/gm)
  return Object.fromEntries(
    [...of].filter(([, , upstream]) => upstream === url).map(([, name, , value]) => [name, Number(value)]),
  )
}

async function problemsOf({ httpUrl }: TestBridge) {
  const { problems } = (await (await fetch(`${httpUrl}/v1/fleet`)).json()) as { problems: object[] }
  return problems
}

/** Accepts connections, and says nothing. */
async function silentServer() {
  let connections = 0
  const server = createServer((socket) => {
    socket.on('error', () => {})
    connections += 1
  })
  const open = await onLoopback(server)
  opened.push(open)
  return {
    url: `http://127.0.0.1:${open.port}/v1`,
    get connections() {
      return connections
    },
  }
}

describe('several upstreams', () => {
  it('share the requests for a model by their weights', async () => {
    const [a, b] = [await upstream(streamed('a')), await upstream(streamed('b'))]
    const bridge = await bridgeOf([`${a.url} weight=3`, b.url])
    for (let nth = 0; nth < 40; nth++) expect((await answerOf(bridge)).status).toBe(200)
    const ofA = a.requests.length
    expect(Math.abs(ofA - 30)).toBeLessThanOrEqual(1)
    expect(ofA + b.requests.length).toBe(40)
    expect(await metricsOf(bridge, a)).toEqual({ outstanding: 0, requests_total: ofA, failures_total: 0, circuit_state: 0 })
  })

  it('get the requests for their own models, with their own keys', async () => {
    const keyFile = join(dir.path, 'key')
    writeFileSync(keyFile, 'secret-key', { mode: 0o600 })
    const [a, b] = [await upstream(streamed('a')), await upstream(streamed('b'))]
    const bridge = await bridgeOf([`${a.url} model=small,both`, `${b.url} model=both,large key-file=${keyFile}`])
    const { data } = (await (await fetch(`${bridge.httpUrl}/v1/models`)).json()) as { data: { id: string }[] }
    expect(data.map(({ id }) => id)).toEqual(['small', 'both', 'large', 'brim'])
    for (const [model, text] of [
      ['small', 'a'],
      ['large', 'b'],
      ['brim', 'a'],
    ])
      for (const _ of times(3, () => 0)) expect(await answerOf(bridge, { model })).toMatchObject({ status: 200, text })
    const both = new Set((await Promise.all(times(6, () => answerOf(bridge, { model: 'both' })))).map(({ text }) => text))
    expect(both).toEqual(new Set(['a', 'b']))
    expect(new Set(a.requests.map(({ body }) => body.model))).toEqual(new Set(['small', 'both']))
    expect(new Set(b.requests.map(({ headers }) => headers.authorization))).toEqual(new Set(['Bearer secret-key']))
    expect(new Set(a.requests.map(({ headers }) => headers.authorization))).toEqual(new Set([undefined]))
    expect(await answerOf(bridge, { model: 'absent' })).toMatchObject({ status: 404 })
  })

  it('get the beginning of an answer where one of them goes on after it', async () => {
    const [a, b] = [await upstream(streamed('a')), await upstream(streamed('b'))]
    const bridge = await bridgeOf([a.url, `${b.url} continues=true`])
    const messages = [
      { role: 'user', content: 'Where does the river rise?' },
      { role: 'assistant', content: 'In the' },
    ]
    for (const _ of times(3, () => 0)) {
      const fields = { messages, continue_final_message: true, add_generation_prompt: false }
      expect(await answerOf(bridge, fields)).toMatchObject({ status: 200, text: 'b' })
    }
  })
})

const closing: Script = (response) => {
  startStream(response, ': nothing yet\n\n')
  response.end()
}

describe('an upstream that fails before the first token is replaced by another one', () => {
  it('where it is killed with requests under way: only answers that have begun fail', async () => {
    const begun: Script = (response) => startStream(response, piece('one'))
    const a = await upstream(...times(12, (nth): Script => (nth % 2 === 0 ? begun : () => {})))
    let release = () => {}
    const killed = new Promise<void>((resolve) => {
      release = resolve
    })
    const b = await upstream(async (response, request) => {
      await killed
      await streamed('two')(response, request)
    })
    const bridge = await bridgeOf([a.url, b.url])
    const asked = times(24, () => post(bridge, { stream: true }).then((response) => response.text()))
    await expect.poll(() => [a.requests.length, b.requests.length]).toEqual([12, 12])
    await a[Symbol.asyncDispose]()
    release()
    const texts = await Promise.all(asked)
    const broken = texts.filter((text) => text.includes('UPSTREAM_FAILED'))
    expect(broken).toHaveLength(6)
    expect(broken.every((text) => text.includes('"content":"one"'))).toBe(true)
    expect(texts.filter((text) => text.includes('"content":"two"') && text.includes('[DONE]'))).toHaveLength(18)
    for (const _ of times(8, () => 0)) expect(await answerOf(bridge)).toMatchObject({ status: 200, text: 'two' })
    await expect.poll(() => problemsOf(bridge)).toMatchObject([{ kind: 'upstream', detail: expect.stringContaining(a.url) }])
  })

  it.each<[string, Script]>([
    ['responds with status 200 and closes', closing],
    ['closes the connection', (response) => void response.destroy()],
    ['responds with status 500', failing(500)],
    ['does not accept the key', failing(401)],
    ['has no such model', failing(404, {}, '{"error":{"message":"no such model"}}')],
    ['responds with a page', (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
  ])('where it %s', async (_, script) => {
    const [a, b] = [await upstream(script), await upstream(streamed('b'))]
    const bridge = await bridgeOf([a.url, b.url], {}, fakeClock(1_000))
    for (const _ of times(12, () => 0)) expect(await answerOf(bridge)).toMatchObject({ status: 200, text: 'b' })
    // Then its circuit is open.
    expect(a.requests).toHaveLength(3)
    expect(await metricsOf(bridge, a)).toMatchObject({ failures_total: 3, circuit_state: 2 })
  })

  it('where it is silent, and does not answer a probe', async () => {
    const clock = fakeClock(1_000)
    const [a, b] = [await silentServer(), await upstream(streamed('b'))]
    const bridge = await bridgeOf([a.url, b.url], {}, clock)
    const answers = times(6, () => answerOf(bridge))
    await expect.poll(() => a.connections + b.requests.length).toBe(6)
    const before = a.connections
    expect(before).toBeGreaterThan(0)
    await clock.advance(5_000)
    await expect.poll(() => a.connections).toBe(before + 1)
    await clock.advance(5_000)
    for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ status: 200, text: 'b' })
    expect(await problemsOf(bridge)).toMatchObject([
      { kind: 'upstream', detail: `${a.url} gets no requests for large: upstream 1 does not respond within 5 s` },
    ])
  })

  it('but not where the request is at fault, nor after its first token', async () => {
    const breaking: Script = (response) => {
      startStream(response, piece('one'))
      setTimeout(() => response.destroy(), 20)
    }
    const of = async (script: Script) => [await upstream(script), await upstream(script)] as const
    const refusing = await of(failing(400))
    const bridge = await bridgeOf(refusing.map(({ url }) => url))
    expect(await answerOf(bridge)).toMatchObject({ status: 400, error: { code: 'REQUEST_INVALID' } })
    expect(refusing.flatMap(({ requests }) => requests)).toHaveLength(1)
    expect(await metricsOf(bridge, refusing[0])).toMatchObject({ failures_total: 0 })
    const broken = await of(breaking)
    const events = await (await post(await bridgeOf(broken.map(({ url }) => url)), { stream: true })).text()
    expect(events).toContain('"content":"one"')
    expect(events).toContain('"code":"UPSTREAM_FAILED"')
    expect(broken.flatMap(({ requests }) => requests)).toHaveLength(1)
  })
})

describe('an upstream that asks for a wait', () => {
  it('gets no requests until it is over, and then one', async () => {
    const clock = fakeClock(1_000)
    const [a, b] = [await upstream(failing(429, { 'retry-after': '60' }), streamed('a')), await upstream(streamed('b'))]
    const bridge = await bridgeOf([a.url, b.url], {}, clock)
    for (const _ of times(6, () => 0)) expect(await answerOf(bridge)).toMatchObject({ text: 'b' })
    expect(a.requests).toHaveLength(1)
    expect([await metricsOf(bridge, a), await problemsOf(bridge)]).toMatchObject([{ circuit_state: 2 }, []])
    await clock.advance(60_000)
    const texts = new Set<unknown>()
    for (const _ of times(4, () => 0)) texts.add((await answerOf(bridge)).text)
    expect(texts).toEqual(new Set(['a', 'b']))
  })

  it('leaves clients with its wait where no other one answers', async () => {
    const [a, b] = [await upstream(failing(429, { 'retry-after': '60' })), await upstream(failing(429, { 'retry-after': '30' }))]
    const bridge = await bridgeOf([a.url, b.url])
    for (const _ of times(2, () => 0)) {
      const { status, retryAfter, error } = await answerOf(bridge)
      expect([status, retryAfter]).toEqual([429, '30'])
      expect(error).toMatchObject({
        code: 'QUEUE_FULL',
        message: 'no upstream of large answers: upstream 1 has too many requests; upstream 2 has too many requests',
      })
    }
    expect([a.requests.length, b.requests.length]).toEqual([1, 1])
  })
})

describe('upstreams that are all down', () => {
  it('leave clients with what failed at each, and operators with the addresses', async () => {
    const a = { url: `http://127.0.0.1:${await freePort()}/v1` }
    const b = await upstream(failing(503, {}, '{"error":{"message":"loading model"}}'))
    const bridge = await bridgeOf([a.url, b.url], { limits: { upstreamRetries: 0 } })
    const { status, error } = await answerOf(bridge)
    expect([status, error.code]).toEqual([502, 'UPSTREAM_FAILED'])
    expect(error.message).toContain(
      'no upstream of large answers: upstream 1 cannot be reached; upstream 2 responds with status 503: loading model',
    )
    expect(error.message).not.toContain('127.0.0.1')
    await expect
      .poll(() => problemsOf(bridge))
      .toMatchObject([
        {
          kind: 'upstream',
          detail: `${a.url} gets no requests for large: upstream 1 cannot be reached`,
          fix: expect.stringContaining('start'),
        },
      ])
    expect(await metricsOf(bridge, a)).toMatchObject({ requests_total: 1, failures_total: 1, circuit_state: 2 })
  })

  it('get one request when they are back, and those that wait after its first token', async () => {
    const clock = fakeClock(1_000)
    let answer = () => {}
    const back: Script = (response) =>
      new Promise((resolve) => {
        answer = () => {
          startStream(response, piece('back'), finish)
          response.end()
          resolve()
        }
      })
    const server = await upstream(failing(500), failing(500), failing(500), back, streamed('all'))
    const bridge = await bridgeOf(server.url, {}, clock)
    const waiting = times(3, () => answerOf(bridge))
    await expect.poll(() => metricsOf(bridge, server)).toMatchObject({ failures_total: 3, circuit_state: 2 })
    waiting.push(...times(17, () => answerOf(bridge)))
    await expect.poll(() => bridge.status).toContain('20 answers in progress')
    await clock.advance(2_000)
    await expect.poll(() => server.requests.length).toBe(4)
    await clock.advance(1_000)
    expect(await metricsOf(bridge, server)).toMatchObject({ requests_total: 4, circuit_state: 1 })
    answer()
    const texts = (await Promise.all(waiting)).map(({ text }) => text)
    expect(texts.filter((text) => text === 'back')).toHaveLength(1)
    expect(texts.filter((text) => text === 'all')).toHaveLength(19)
  })
})
