import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import type { AgentSettings } from '../../../agent/config.ts'
import type { Host } from '../../../agent/device/host.ts'
import type { Spending } from '../../../core/wire/protocol/spending.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { askStreaming, question } from '../../support/ask-streaming.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { fixtureHost } from '../../support/device-fixture.ts'
import { postJson } from '../../support/post-json.ts'
import { failing, finish, piece, scriptedUpstream, sse, startStream, streamed } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

type Script = Parameters<typeof scriptedUpstream>[number]

const dir = shared(tempDir)
let slm: string
let agent: Agent
let upstream: Awaited<ReturnType<typeof scriptedUpstream>>
/** How the server responds to the next requests. */
let respond: Script
/** Or to those for one model. */
const byModel = new Map<unknown, Script>()
beforeAll(async () => {
  // Its texts have words.
  slm = await ensureDemoBundle('slm-deep')
  upstream = await scriptedUpstream((response, received) => (byModel.get(received.body.model) ?? respond)(response, received))
  agent = await startDevice({
    server: { at: upstream.url, model: 'large', price: '0.1/0.2' },
    // Dearer than the server.
    budget: { energyPrice: 1e6 },
  })
})
afterAll(async () => {
  await agent.close()
  await upstream[Symbol.asyncDispose]()
})

let started = 0
/** With a small model, and without a bridge. */
function startDevice(settings: Partial<AgentSettings>, host?: Host): Promise<Agent> {
  const id = `device-${started++}`
  const options = { apiPort: 0, threads: 1, logLevel: 'silent' as const, bridges: ['mqtt://127.0.0.1:1'], slms: [slm] }
  const limits = { serverRetries: 0, serverFirstTokenS: 1, serverIdleS: 0.5 }
  return startAgent({ id, stateDir: join(dir.path, id), ...options, limits, ...settings }, undefined, host)
}

/** What the small model writes after a text. */
async function writtenAfter(text: string, tokens: number): Promise<string> {
  const begun = { messages: [...question, { role: 'assistant', content: text }], continue_final_message: true }
  return (await askStreaming(agent, { mode: 'local' }, { max_tokens: tokens, ...(text !== '' && begun) })).text
}

const silent: Script = () => {}
const dead: Script = (response) => void response.destroy()
const begun = [piece('The'), piece(' river')]
/** Begins, and ends with these events. */
const broken =
  (...events: (string | Buffer)[]): Script =>
  (response) => {
    startStream(response, ...begun)
    for (const event of events) response.write(event)
    response.end()
  }
const dying = (response: ServerResponse) => {
  startStream(response, ...begun)
  setTimeout(() => response.destroy(), 20)
}
const tooLong = failing(400, {}, JSON.stringify({ error: { code: 'context_length_exceeded', message: 'at most 8 tokens' } }))
const isLeft = () => expect.poll(() => upstream.connections).toBe(0)

describe('a server that accepts and never answers', () => {
  it('loses the race, and its connection is closed', async () => {
    respond = silent
    const { sources, report } = await askStreaming(agent, { mode: 'fast' })
    expect([sources, report.fallback]).toEqual([['slm'], null])
    await isLeft()
  })

  it('is given up at its limit: the small model answers if the request allows it', async () => {
    respond = silent
    const { text, sources, report } = await askStreaming(agent, { mode: 'cloud', fallback: 'slm' })
    expect([sources, report.fallback]).toMatchObject([['slm'], { code: 'UPSTREAM_FAILED' }])
    expect(text).toBe(await writtenAfter('', 24))
    const refused = await askStreaming(agent, { mode: 'cloud' })
    expect(refused).toMatchObject({
      text: '',
      error: { code: 'UPSTREAM_FAILED', message: expect.stringContaining('sent no token within 1 s') },
    })
    await isLeft()
  })

  it('is late for a reader who allows the small model: that begins, before the server is given up', async () => {
    const server = { at: upstream.url, model: 'large' }
    const patient = await startDevice({ server, dispatch: { autoPatienceS: 0.2 }, limits: {} })
    try {
      respond = silent
      const { sources, report } = await askStreaming(patient, { mode: 'cloud', fallback: 'slm', tokens_per_s: 100 })
      expect([sources, report.fallback]).toEqual([['slm'], null])
      expect(report.disco).toMatchObject({ startMs: { device: 200, server: 0 }, winner: 'device' })
      await isLeft()
    } finally {
      await patient.close()
    }
  })

  it('is not waited for in mode auto, where it is the one that should answer', async () => {
    const server = { at: upstream.url, model: 'large' }
    const patient = await startDevice({ server, dispatch: { constrained: 'device', share: 0.2 }, limits: {} })
    try {
      respond = streamed('The', ' river')
      await askStreaming(patient, { mode: 'cloud' })
      respond = silent
      const { sources, report } = await askStreaming(patient, { mode: 'auto', tokens_per_s: 0 })
      expect(sources).toEqual(['slm'])
      expect(report.disco).toMatchObject({ constrained: 'device', winner: 'device', migrations: [] })
    } finally {
      await patient.close()
    }
  })
})

it('a server that was silent three times in a row is not waited for any longer, until it answers again', async () => {
  const server = { at: upstream.url, model: 'large' }
  const dispatch = { constrained: 'device', share: 0.2, autoPatienceS: 0.5 } as const
  const patient = await startDevice({ server, dispatch, limits: {} })
  try {
    const deviceStartMs = async () => {
      const { report } = await askStreaming(patient, { mode: 'auto', tokens_per_s: 0 }, { max_tokens: 4 })
      return (report.disco.startMs as { device: number }).device
    }
    respond = streamed('The', ' river')
    for (let request = 0; request < 10; request++) await askStreaming(patient, { mode: 'cloud' })
    expect(await deviceStartMs()).toBeGreaterThan(0)
    respond = silent
    for (let request = 0; request < 3; request++)
      await askStreaming(patient, { mode: 'cloud', fallback: 'slm', tokens_per_s: 100 }, { max_tokens: 4 })
    respond = streamed('The', ' river')
    expect(await deviceStartMs()).toBe(0)
    await askStreaming(patient, { mode: 'cloud' })
    expect(await deviceStartMs()).toBeGreaterThan(0)
  } finally {
    await patient.close()
  }
})

it('a client that leaves while a server is silent frees its connection, and what was reserved', async () => {
  respond = silent
  const before = upstream.requests.length
  const leaving = new AbortController()
  const request = postJson(
    `${agent.apiUrl}/v1/chat/completions`,
    { messages: question, stream: true, brim: { mode: 'cloud', fallback: 'slm' } },
    {},
    leaving.signal,
  )
  await expect.poll(() => upstream.requests.length).toBe(before + 1)
  leaving.abort()
  await expect(request).rejects.toThrow()
  await isLeft()
  const reserved = async () => (await (await fetch(`${agent.apiUrl}/budget`)).json()) as Spending
  await expect.poll(reserved).toMatchObject({ server: { reservedDollars: 0 }, slm: { reservedJoules: 0 } })
})

describe('a server that fails in the middle of an answer', () => {
  it.each<[string, Script]>([
    ['its connection breaks', dying],
    ['its stream ends', broken()],
    ['it falls silent', (response) => startStream(response, ...begun)],
    ['it sends broken JSON', broken('data: {"choices": [\n\n')],
    ['it sends what is none of the API', broken(sse({ choices: 'x' }))],
    ['it ends within a character', broken(Buffer.from('data: {"choices": [{"delta": {"content": "👑').subarray(0, -2))],
    ['it reports an error', broken(sse({ error: { message: 'no memory' } }))],
    ['it gives up', broken(sse({ choices: [{ delta: {}, finish_reason: 'abort' }] }))],
    ['it sends an event of megabytes', broken(`data: ${'x'.repeat(2 ** 21)}`)],
  ])('(%s) is replaced by the small model, which goes on with its text', async (_, script) => {
    respond = script
    const { text, sources, report } = await askStreaming(agent, { mode: 'cloud', fallback: 'slm' })
    expect([sources, report.fallback]).toMatchObject([['upstream', 'slm'], { code: 'UPSTREAM_FAILED' }])
    expect(report.sources).toMatchObject([{ from: 0, tokens: 2 }, { from: 2 }])
    expect(text).toBe(`The river${await writtenAfter('The river', 22)}`)
    expect(text).not.toContain('\ufffd')
    // Without permission to change the model the reader keeps what it has.
    expect(await askStreaming(agent, { mode: 'cloud' })).toMatchObject({ text: 'The river', error: { code: 'UPSTREAM_FAILED' } })
    await isLeft()
  })

  it('is replaced before its last word is read, where the reader has a rate', async () => {
    respond = dying
    const { text, sources } = await askStreaming(agent, { mode: 'cheap', tokens_per_s: 4 }, { max_tokens: 5 })
    expect(sources).toEqual(['upstream', 'slm'])
    expect(text).toBe(`The${await writtenAfter('The', 4)}`)
  })
})

describe('a server that stops sending in the middle of an answer', () => {
  /** Sends a word each 20 ms, and nothing after the eighth. */
  const halting: Script = async (response) => {
    startStream(response)
    for (const word of ['The', ' king', ' had', ' a', ' lamp', ' in', ' the', ' tower']) {
      response.write(piece(word))
      await new Promise((next) => setTimeout(next, 20))
    }
  }

  it.each([0, 20])('is replaced within a second (reader: %i tokens/s)', async (tokensPerS) => {
    const patient = await startDevice({ server: { at: upstream.url, model: 'large', price: '0.1/0.2' }, limits: {} })
    try {
      respond = halting
      const { text, sources, report, arrivedMs } = await askStreaming(patient, {
        mode: 'cloud',
        fallback: 'slm',
        tokens_per_s: tokensPerS,
      })
      expect(sources).toEqual(['upstream', 'slm'])
      expect(report.disco.migrations).toMatchObject([{ from: 'server', to: 'device', reason: 'silence', succeeded: true }])
      expect(report.fallback).toMatchObject({ code: 'UPSTREAM_FAILED' })
      expect(text.startsWith('The king had a lamp in the')).toBe(true)
      const gaps = arrivedMs.map((ms, at) => ms - (arrivedMs[at - 1] ?? ms))
      expect(Math.max(...gaps)).toBeLessThan(1_500)
      await isLeft()
    } finally {
      await patient.close()
    }
  })
})

describe('a server that repeats its events, and names another model', () => {
  it('is read once, and reported by the name that it gives itself', async () => {
    const named = (id: number, content: string) => `id: ${id}\n${sse({ model: 'small', choices: [{ delta: { content } }] })}`
    respond = (response) => {
      startStream(response, named(1, 'The'), named(1, 'The'), named(2, ' river'), named(2, ' river'), finish)
      response.end()
    }
    const { text, report } = await askStreaming(agent, { mode: 'cloud' })
    expect(text).toBe('The river')
    expect(report.sources).toEqual([{ from: 0, tokens: 2, source: 'upstream', model: 'small' }])
  })
})

describe('a prompt that is too long', () => {
  const long = { messages: [{ role: 'user', content: 'Where is the river? '.repeat(400) }] }

  it('for the server is answered by the small model, and the other way round', async () => {
    respond = tooLong
    for (const mode of ['fast', 'cheap']) {
      const { sources } = await askStreaming(agent, { mode, tokens_per_s: 0 })
      expect(sources).toEqual(['slm'])
    }
    respond = streamed('Far', ' away.')
    for (const mode of ['fast', 'cheap', 'auto']) {
      const { sources, text } = await askStreaming(agent, { mode, tokens_per_s: 0 }, long)
      expect([sources, text]).toEqual([['upstream'], 'Far away.'])
    }
    expect((await askStreaming(agent, { mode: 'local' }, long)).error).toMatchObject({ code: 'CONTEXT_OVERFLOW' })
  })

  it('for both is an error that says so', async () => {
    respond = tooLong
    for (const mode of ['fast', 'cheap', 'auto', 'cloud'])
      expect((await askStreaming(agent, { mode, fallback: 'slm' }, long)).error).toMatchObject({ code: 'CONTEXT_OVERFLOW' })
  })
})

describe('an answer that is to move to a server', () => {
  /** A device whose tokens are so dear that answers begin there, and move to a server that continues them. */
  async function movingTo(model: string, script: Script) {
    const moving = await startDevice({
      server: { at: upstream.url, model, price: '0.1/0.2', continues: true },
      budget: { energyPrice: 1e6 },
      dispatch: { constrained: 'server', share: 0 },
      limits: { serverRetries: 0 },
    })
    try {
      // So that it is known how soon the server begins, and how long answers are.
      byModel.set(model, streamed(...Array<string>(24).fill(' word')))
      for (let request = 0; request < 2; request++) await askStreaming(moving, { mode: 'cloud' })
      byModel.set(model, script)
      const { report, ...answer } = await askStreaming(moving, { mode: 'auto', tokens_per_s: 5 }, { max_tokens: 14 })
      const [asked] = upstream.requests.filter(({ body }) => body.model === model).slice(2)
      const messages = (asked?.body.messages ?? []) as { content: string }[]
      const migrations = report.disco.migrations.map(({ to, succeeded }) => [to, succeeded])
      const delayedTokens = report.disco.migrations.map((migration) => migration.delayedTokens)
      return { ...answer, fallback: report.fallback, begun: messages.at(-1)?.content ?? '', migrations, delayedTokens }
    } finally {
      await moving.close()
    }
  }

  it('is finished where it began, without a trace, if the server does not take it', async () => {
    const faults: Record<string, Script> = {
      silent,
      dead,
      refusing: failing(400, {}, '{"error":{"message":"no continue_final_message"}}'),
      busy: failing(429, { 'retry-after': '60' }),
      'no-stream': failing(200, { 'content-type': 'text/html' }, '<html>'),
    }
    const whole = await writtenAfter('', 14)
    const answers = await Promise.all(
      Object.entries(faults).map(async ([name, script]) => [name, await movingTo(name, script)] as const),
    )
    for (const [name, { text, sources, fallback, migrations, delayedTokens }] of answers) {
      expect([name, text, sources, fallback, migrations[0]]).toEqual([name, whole, ['slm'], null, ['server', false]])
      expect(migrations.length).toBeLessThanOrEqual(2)
      // Those that fail at once cost the reader nothing, however slow this machine is.
      if (name !== 'silent') expect([name, ...delayedTokens]).toEqual([name, ...delayedTokens.map(() => 0)])
    }
    await isLeft()
  })

  it('goes on there after what it has been told, and comes back if the server dies', async () => {
    const [there, back] = await Promise.all([movingTo('good', streamed(' and', ' so', ' on.')), movingTo('dying', dying)])
    expect(there.sources).toEqual(['slm', 'upstream'])
    expect(there.text).toBe(`${there.begun} and so on.`)
    expect((await writtenAfter('', 14)).startsWith(there.begun)).toBe(true)
    expect(back.sources).toEqual(['slm', 'upstream', 'slm'])
    expect(back.migrations).toEqual([
      ['server', true],
      ['device', true],
    ])
    expect(back.text.startsWith(`${back.begun}The`)).toBe(true)
  })
})

describe('without a price, and with a battery that cannot be read', () => {
  it('costs are unknown, the server is limited, and answers come all the same', async () => {
    using phone = fixtureHost('termux')
    let reads = 0
    const host = { ...phone.host, run: async () => void reads++ } as unknown as Host
    const poor = await startDevice({ server: { at: upstream.url, model: 'large' }, telemetryS: 1 }, host)
    try {
      respond = streamed('The', ' river')
      const { report } = await askStreaming(poor, { mode: 'cloud' })
      expect(report.disco.cost.server).toMatchObject({ tokens: 2, dollars: null })
      for (const mode of ['cheap', 'auto', 'fast'])
        expect((await askStreaming(poor, { mode, tokens_per_s: 0 })).error).toBeUndefined()
      await expect.poll(() => reads).toBeGreaterThan(0)
      const { io, out } = captureIo()
      await brim(['agent', 'budget', '--json', '--api', poor.apiUrl], io)
      expect(JSON.parse(out())).toMatchObject({
        server: { dollars: null, maxDollars: null },
        slm: { energySource: 'flops', energyReason: 'unknown' },
        auto: { constrained: 'server' },
      })
    } finally {
      await poor.close()
    }
  })
})
