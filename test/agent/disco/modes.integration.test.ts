import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Agent } from '../../../agent/agent.ts'
import { onLoopback } from '../../../lab/cluster/loopback-server.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { ask, health, linked, sourcesOf, stream } from '../../support/asking-agent.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { failing, scriptedUpstream, streamed } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'

const world = shared(startAgentWorld)
let slm: string
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
})

/** Counts connections and never answers. */
async function startListener() {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.on('error', () => {})
  })
  const { port, ...open } = await onLoopback(server)
  return { ...open, url: `http://127.0.0.1:${port}/v1`, connections: () => connections }
}

describe('an agent whose server is its bridge', () => {
  let agent: Agent
  beforeAll(async () => {
    agent = await world.startAgent({ id: 'phone', slms: [slm], server: { at: 'bridge', price: '1/2' } })
    await linked(agent)
  })

  it('answers in each mode by the models of that mode', async () => {
    const privately = await ask(agent, { token_ids: true })
    expect(privately).toMatchObject({ status: 200, report: { disco: { mode: 'private', winner: 'server' } } })
    expect(sourcesOf(privately)).toEqual(['hat'])
    expect(sourcesOf(await ask(agent, { mode: 'local' }))).toEqual(['slm'])
    const cloud = await ask(agent, { mode: 'cloud', token_ids: true })
    expect(sourcesOf(cloud)).toEqual(['bridge'])
    // HAT and the bridge compute the same model.
    expect(cloud.report.tokenIds).toEqual(privately.report.tokenIds)
    expect(cloud.report.disco.cost.server.dollars).toBeCloseTo((cloud.report.disco.cost.server.promptTokens + 2 * 12) / 1e6)
    for (const mode of ['cheap', 'fast', 'auto']) expect((await ask(agent, { mode })).report.disco.mode).toBe(mode)
  })

  it('starts both sides at once in mode fast, and one of them writes', async () => {
    const { report } = await ask(agent, { mode: 'fast' })
    expect(report.disco.startMs).toEqual({ device: 0, server: 0 })
    expect(report.sources).toHaveLength(1)
    expect(report.sources[0]?.tokens).toBe(12)
  })

  it('delivers a stream at the rate of its reader, and a whole answer at once', async () => {
    const { events, report } = await stream(agent, { mode: 'local', tokens_per_s: 20 }, { max_tokens: 8, ignore_eos: true })
    expect(events.at(-1)!.atMs - events[0]!.atMs).toBeGreaterThan((1_000 * 6) / 20)
    expect(report.disco).toMatchObject({ tokensPerS: 20 })
    expect((await ask(agent, { mode: 'local', tokens_per_s: 20 })).report.disco).toMatchObject({ tokensPerS: 0 })
  })

  it('serves many requests at once, of which its small model takes as many as it holds', async () => {
    // So long that the first are under way when the last arrive, on a slow machine too.
    const asked = { max_tokens: 16, ignore_eos: true }
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask(agent, { mode: 'fast' }, asked)))
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
    const racing = answers.filter(({ report }) => report.disco.startMs.device === 0)
    expect(racing.length).toBeLessThan(50)
    expect(answers.filter((answer) => sourcesOf(answer)[0] === 'bridge').length).toBeGreaterThan(0)
  })

  it('tells where tokens came from, and what they cost, on stderr', async () => {
    const { io, out, err } = captureIo()
    const question = ['ask', 'Where is the mill?', '--max-tokens', '9', '--api', agent.apiUrl]
    await brim([...question, '--mode', 'cloud', '--tokens-per-s', '0'], io)
    expect(out().length).toBeGreaterThan(1)
    expect(err()).toMatch(/mode cloud: 9 by tiny-llama \(bridge\) · cost \$0\.0000\d+/)
    const { io: json, out: document } = captureIo()
    await brim([...question, '--mode', 'local', '--json'], json)
    expect(JSON.parse(document())).toMatchObject({ disco: { mode: 'local' }, sources: [{ source: 'slm', tokens: 9 }] })
  })

  it('says what each way would take, and keeps private text from the bridge in mode auto', async () => {
    const explained = (await ask(agent, { mode: 'auto', explain: true })).report.disco.ways!
    expect(explained.map(({ way }) => way)).toEqual(['slm', 'bridge', 'sketches', 'hat'])
    for (let at = 0; at < 6; at += 1) {
      const { report } = await ask(agent, { mode: 'auto', private: true, explain: at === 0 })
      expect(report.disco.cost.server.dollars ?? 0).toBe(0)
      for (const { source } of report.sources) expect(['slm', 'hat']).toContain(source)
      const refused = at === 0 ? report.disco.ways!.filter(({ way }) => way === 'bridge' || way === 'sketches') : []
      for (const { reason } of refused) expect(reason).toMatch(/private/)
    }
    expect(await ask(agent, { mode: 'cloud', private: true })).toMatchObject({ status: 400 })
    const { io, err } = captureIo()
    await brim(['ask', 'Where is the mill?', '--max-tokens', '9', '--api', agent.apiUrl, '--mode', 'auto', '--explain'], io)
    expect(err()).toMatch(/first text +complete +cost/)
    expect(err()).toMatch(/HAT \(tiny-llama\)/)
    const { io: private_, err: privateErr } = captureIo()
    await brim(['ask', 'Where?', '--max-tokens', '3', '--api', agent.apiUrl, '--private', '--explain'], private_)
    expect(privateErr()).toMatch(/\* HAT \(tiny-llama\) .* starts at once/)
  })

  it('plans by what its bridge announces of itself, until it has asked it', async () => {
    await ask(agent, { mode: 'cloud' })
    const server = { at: 'bridge' as const, price: '0/0' }
    const dispatch = { constrained: 'device', share: 0.01 } as const
    const first = await world.startAgent({ id: 'newcomer', slms: [slm], server, dispatch })
    await linked(first)
    const { report } = await ask(first, { mode: 'auto' })
    expect(report.disco.startMs).toEqual({ server: 0, device: expect.any(Number) })
    // What a device waits for a server of which it knows nothing.
    expect(report.disco.startMs.device).not.toBeCloseTo(2_000)
  })

  it('remembers its server and its prompts over a restart', async () => {
    const settings = { id: 'restarted', slms: [slm], server: { at: 'bridge' as const } }
    const first = await world.startAgent(settings)
    expect(await health(first)).toMatchObject({
      mode: 'private',
      server: { at: 'bridge', model: 'tiny-llama', ttftMs: { p50: null } },
    })
    await linked(first)
    await ask(first, { mode: 'cloud' })
    await first.close()
    expect(await health(await world.startAgent(settings))).toMatchObject({ server: { ttftMs: { p50: expect.any(Number) } } })
  })
})

describe('an agent without its bridge', () => {
  it.each([
    ['cloud', 'degraded'],
    ['auto', 'ok'],
  ] as const)('in mode %s is %s', async (mode, status) => {
    const bridges = ['mqtt://127.0.0.1:1']
    const server = { at: 'bridge' as const }
    const agent = await world.startAgent({ id: `away-${mode}`, bridges, slms: [slm], server, dispatch: { mode } })
    expect(await health(agent)).toMatchObject({ status })
    expect((await ask(agent, {})).status).toBe(mode === 'cloud' ? 503 : 200)
  })
})

describe('an agent whose server is a URL', () => {
  it.each(['private', 'local'])('contacts nothing but its bridge in mode %s', async (mode) => {
    await using listener = await startListener()
    const server = { at: listener.url, model: 'spy' }
    const agent = await world.startAgent({
      id: `alone-${mode}`,
      slms: [slm],
      server,
      limits: { serverFirstTokenS: 0.2, serverRetries: 0 },
    })
    await ask(agent, { mode })
    await stream(agent, { mode, fallback: 'slm', tokens_per_s: 0 })
    await ask(agent, {})
    await health(agent)
    expect(listener.connections()).toBe(0)
    // The listener does count.
    const cloud = await ask(agent, { mode: 'cloud', fallback: 'slm' })
    expect([listener.connections(), sourcesOf(cloud), cloud.report.fallback]).toEqual([
      1,
      ['slm'],
      expect.objectContaining({ code: 'UPSTREAM_FAILED' }),
    ])
  })

  it('a private answer that loses its bridge stays on the device', async () => {
    await using listener = await startListener()
    const agent = await world.startAgent({
      id: 'cut-off',
      bridges: ['mqtt://127.0.0.1:1'],
      slms: [slm],
      server: { at: listener.url, model: 'spy' },
    })
    expect(sourcesOf(await ask(agent, { fallback: 'slm' }))).toEqual(['slm'])
    expect(await ask(agent, {})).toMatchObject({ status: 503, error: { code: 'BRIDGE_UNREACHABLE' } })
    expect(listener.connections()).toBe(0)
  })

  it('answers without a split model, by the server, the small model, or both', async () => {
    await using upstream = await scriptedUpstream(streamed('The ', 'river ', 'rises.'))
    const agent = await world.startAgent({
      id: 'without-llm',
      bundle: undefined,
      slms: [slm],
      server: { at: upstream.url, model: 'large', price: '0.1/0.2' },
      dispatch: { mode: 'auto' },
    })
    expect(await health(agent)).toMatchObject({ status: 'ok', mode: 'auto' })
    expect((await ask(agent, { mode: 'cloud' })).text).toBe('The river rises.')
    expect(sourcesOf(await ask(agent, {}))).toEqual(['slm'])
    expect((await ask(agent, { mode: 'fast' })).status).toBe(200)
    expect(await ask(agent, { mode: 'private' })).toMatchObject({ status: 503, error: { code: 'MODEL_MISSING' } })
  })

  it('goes on with the small model where the server fails, and says what failed', async () => {
    await using upstream = await scriptedUpstream(failing(500))
    const agent = await world.startAgent({
      id: 'failing-server',
      slms: [slm],
      server: { at: upstream.url, model: 'large' },
      limits: { serverRetries: 0 },
    })
    const alone = await ask(agent, { mode: 'cloud' })
    expect(alone).toMatchObject({ status: 502, error: { code: 'UPSTREAM_FAILED' } })
    const { report } = await ask(agent, { mode: 'cloud', fallback: 'slm' })
    expect(report.sources).toMatchObject([{ source: 'slm' }])
    expect(report.fallback).toMatchObject({ code: 'UPSTREAM_FAILED' })
  })

  it('asks it with its key, and to go on with an answer only where the owner says that it can', async () => {
    await using upstream = await scriptedUpstream(streamed(' rises.'))
    const keyFile = join(world.dir, 'server.key')
    await writeFile(keyFile, 'sk-owner', { mode: 0o600 })
    const server = { at: upstream.url, model: 'large', keyFile }
    const begun = [
      { role: 'user', content: 'Where is the river?' },
      { role: 'assistant', content: 'The river' },
    ]
    const more = { messages: begun, continue_final_message: true, add_generation_prompt: false }
    const goesOn = await world.startAgent({ id: 'goes-on', server: { ...server, continues: true } })
    expect(await ask(goesOn, { mode: 'cloud' }, more)).toMatchObject({ status: 200, text: ' rises.' })
    expect(upstream.requests[0]).toMatchObject({ headers: { authorization: 'Bearer sk-owner' }, body: { messages: begun } })
    const begins = await world.startAgent({ id: 'begins', server })
    expect(await ask(begins, { mode: 'cloud' }, more)).toMatchObject({ status: 400, error: { param: 'brim.mode' } })
    expect(upstream.requests).toHaveLength(1)
  })

  it('names what a mode lacks', async () => {
    const agent = await world.startAgent({ id: 'bare' })
    for (const [mode, hint] of [
      ['local', /--slm/],
      ['cloud', /--server/],
      ['fast', /--slm/],
    ] as const) {
      const { status, error } = await ask(agent, { mode })
      expect([status, error]).toEqual([400, expect.objectContaining({ param: 'brim.mode', hint: expect.stringMatching(hint) })])
    }
    await using upstream = await scriptedUpstream(streamed('text'))
    const withServer = await world.startAgent({ id: 'text-only', server: { at: upstream.url, model: 'large' } })
    const { status, error } = await ask(withServer, { mode: 'cloud', token_ids: true })
    expect([status, error?.param]).toEqual([400, 'brim.mode'])
  })
})
