import { existsSync, readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openSlowTier } from '../../cloud-bridge/serving/open-slow-tier.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { type BrimProcess, startBrim } from '../../lab/cluster/processes.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { healthOf, startTestBridge, type TestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { tempDir } from '../support/temp-dir.ts'

const question = { messages: [{ role: 'user', content: 'Where does the river rise?' }], temperature: 0, max_tokens: 8 }

const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path, { adapter: false })
})

const post = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  postJson(`${url}/v1/chat/completions`, body, headers)

async function textOf(url: string, body: object = question): Promise<string> {
  const response = await post(url, body)
  expect(response.status).toBe(200)
  return ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message.content
}

describe('hostile clients of a bridge that answers', () => {
  let bridge: TestBridge
  let expected: string
  beforeAll(async () => {
    const limits = { waitingAnswers: 16 }
    bridge = await startTestBridge({
      bundle,
      stateDir: join(dir.path, 'state'),
      servingPolicy: 'tokenflow',
      prefixKeepS: 0,
      limits,
    })
    expected = await textOf(bridge.httpUrl)
  })
  afterAll(() => bridge.close())

  /** Nothing is held for any client, and an honest client is answered. */
  async function expectIdle(): Promise<void> {
    await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
    expect(await textOf(bridge.httpUrl)).toBe(expected)
  }

  it.each([-1, 5e-324, 1e9, Number.POSITIVE_INFINITY, '5', 'NaN'])(
    'a rate of %s is refused by name, in the body and as a header',
    async (rate) => {
      const json = rate === Number.POSITIVE_INFINITY ? '1e400' : JSON.stringify(rate)
      const inBody = await post(
        bridge.httpUrl,
        `{"messages": [{"role": "user", "content": "x"}], "brim": {"tokens_per_s": ${json}}}`,
      )
      expect([inBody.status, (await inBody.json()) as unknown]).toMatchObject([400, { error: { param: 'brim.tokens_per_s' } }])
      if (rate === '5') return
      const inHeader = await post(bridge.httpUrl, question, { 'x-brim-tokens-per-s': String(rate) })
      expect([inHeader.status, (await inHeader.json()) as unknown]).toMatchObject([
        400,
        { error: { param: 'x-brim-tokens-per-s' } },
      ])
    },
  )

  it('the slowest and the fastest rate, and none at all, get the same answer, without delay', async () => {
    for (const tokens_per_s of [0, 0.001, 10_000])
      expect(await textOf(bridge.httpUrl, { ...question, brim: { tokens_per_s } })).toBe(expected)
  })

  it('clients that never read hold no KV memory', async () => {
    const body = JSON.stringify({
      ...question,
      max_tokens: 200,
      ignore_eos: true,
      stream: true,
      n: 12,
      logprobs: true,
      top_logprobs: 20,
    })
    const head = `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
    const socket = connect(Number(new URL(bridge.httpUrl).port), '127.0.0.1').on('error', () => {})
    socket.pause()
    socket.write(head + body)
    await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBeGreaterThan(0)
    await expectIdle()
    socket.destroy()
  })

  it('clients that read and vanish, again and again, hold no memory', async () => {
    const endless = { ...question, max_tokens: 400, ignore_eos: true, stream: true }
    for (let round = 0; round < 2; round++) {
      const readers = Array.from({ length: 4 }, async () => (await post(bridge.httpUrl, endless)).body!.getReader())
      for (const reader of await Promise.all(readers)) {
        await reader.read()
        await reader.cancel()
      }
    }
    await expectIdle()
  })
})

describe('a burst', () => {
  it('of 1,000 requests: those beyond the queue are told when to return, the others get their answers', async () => {
    // Memory for a few answers, which end more slowly than requests come.
    await using bridge = await startTestBridge({
      bundle,
      stateDir: join(dir.path, 'burst'),
      kvBudgetBytes: 512 * 1_024,
      chunkTokens: 16,
      prefixKeepS: 0,
      limits: { waitingAnswers: 16 },
    })
    const brief = { ...question, max_tokens: 24, ignore_eos: true }
    const text = await textOf(bridge.httpUrl, brief)
    const before = process.memoryUsage().rss
    const responses = await Promise.all(Array.from({ length: 1_000 }, () => post(bridge.httpUrl, brief)))
    const statuses = responses.map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200, 429]))
    const served = responses.filter(({ status }) => status === 200)
    expect(served.length).toBeGreaterThanOrEqual(16)
    for (const response of served) expect(await response.json()).toMatchObject({ choices: [{ message: { content: text } }] })
    for (const response of responses) {
      if (response.status === 200) continue
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await response.json()).toMatchObject({ error: { code: 'QUEUE_FULL' } })
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(512 * 2 ** 20)
    await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
    expect(await textOf(bridge.httpUrl, brief)).toBe(text)
  })
})

describe('a request larger than the fast tier', () => {
  it('is refused, as a context overflow, and one that names no length ends where the memory does', async () => {
    await using small = await startTestBridge({
      bundle,
      stateDir: join(dir.path, 'small'),
      kvBudgetBytes: 128 * 1_024,
      chunkTokens: 16,
    })
    const words = { ...question, messages: [{ role: 'user', content: 'river '.repeat(400) }] }
    for (const body of [words, { ...question, max_tokens: 100_000 }]) {
      const refused = await post(small.httpUrl, body)
      expect([refused.status, (await refused.json()) as unknown]).toMatchObject([
        400,
        { error: { code: 'context_length_exceeded' } },
      ])
    }
    const long = await post(small.httpUrl, { ...question, max_tokens: null, ignore_eos: true })
    expect((await long.json()) as unknown).toMatchObject({ choices: [{ finish_reason: 'length' }] })
    expect(await textOf(small.httpUrl)).not.toBe('')
    const { kvBytes } = await healthOf(small)
    expect(kvBytes).toBe(0)
  })
})

describe('a bridge that is killed while it writes KV to files', () => {
  const started: BrimProcess[] = []
  afterAll(() => Promise.all(started.map((process) => process.kill())))

  const start = async (...more: string[]) => {
    const stateDir = join(dir.path, 'killed')
    const common = ['--bundle', bundle, '--state-dir', stateDir, '--mqtt-port', '0', '--http-port', '0', '--threads', '1']
    const flow = ['--serving-policy', 'tokenflow', '--kv-slow', 'file']
    const process_ = await startBrim(['bridge', 'run', ...common, ...flow, ...more], { env: process.env })
    started.push(process_)
    return { url: String(process_.ready.httpUrl), kill: process_.kill }
  }
  const folder = () => join(dir.path, 'killed', 'kv')

  it('gives the same answers then, and deletes the KV of the killed process where none is to be kept', async () => {
    const killed = await start()
    const expected = await textOf(killed.url)
    const endless = { ...question, max_tokens: 400, ignore_eos: true }
    const cut = Promise.allSettled(Array.from({ length: 8 }, (_, at) => post(killed.url, { ...endless, user: `u${at}` })))
    await expect.poll(() => existsSync(folder()) && readdirSync(folder()).length).toBeGreaterThan(1)
    await killed.kill()
    await cut
    const left = readdirSync(folder())
    expect(left.length).toBeGreaterThan(0)
    const next = await start()
    expect(left).toEqual(expect.arrayContaining(readdirSync(folder())))
    expect(await textOf(next.url)).toBe(expected)
    await next.kill()
    const without = await start('--prefix-keep', '0')
    expect(readdirSync(folder())).toEqual([])
    expect(await textOf(without.url)).toBe(expected)
    await without.kill()
    openSlowTier(
      {
        kvSlow: 'none',
        kvSlowBudgetBytes: 1,
        stateDir: join(dir.path, 'killed'),
        prefixKeepS: 0,
        limits: { deviceKvPercent: 50 },
      },
      { clock: systemClock, logger: silentLogger() },
      [],
    )
    expect(existsSync(folder())).toBe(false)
  })
})
