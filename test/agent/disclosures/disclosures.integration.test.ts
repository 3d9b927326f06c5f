import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import { disclosureTables } from '../../../agent/disclosures/ledger.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import type { Disclosure, DisclosureList } from '../../../core/wire/protocol/disclosures.ts'
import { Cluster } from '../../../lab/cluster/cluster.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { ask, linked } from '../../support/asking-agent.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { failing, scriptedUpstream, streamed } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'
import { mountMissing, smallDisk } from '../../support/small-disk.ts'

const world = shared(startAgentWorld)
let slm: string
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
})

const question = 'Where is the river?'
async function listOf({ apiUrl }: Pick<Agent, 'apiUrl'>, query = ''): Promise<DisclosureList> {
  return (await (await fetch(`${apiUrl}/v1/disclosures?limit=1000${query}`)).json()) as DisclosureList
}
/** Without jobs, such as the bridge's own measurement of a device that is new to it. */
const ofClients = async (agent: Pick<Agent, 'apiUrl'>) =>
  (await listOf(agent)).disclosures.filter(({ reason }) => reason !== 'job')
const last = async (agent: Pick<Agent, 'apiUrl'>) => (await ofClients(agent)).at(-1)!
/** All entries of the last answer. */
async function lastAnswer(agent: Pick<Agent, 'apiUrl'>): Promise<Disclosure[]> {
  const entries = await ofClients(agent)
  return entries.filter(({ answer }) => answer === entries.at(-1)!.answer)
}
const hostOf = (url: string) => new URL(url).host

describe('the ledger of an agent', () => {
  let agent: Agent
  beforeAll(async () => {
    agent = await world.startAgent({ id: 'phone', slms: [slm], server: { at: 'bridge' } })
    await linked(agent)
  })

  it('says what went where for each mode, and why', async () => {
    const { report } = (await ask(agent, {})) as unknown as { report: { bytesUp: number } }
    const states = await last(agent)
    expect(await lastAnswer(agent)).toHaveLength(1)
    expect(states).toMatchObject({
      content: 'states',
      way: 'hat',
      mode: 'private',
      reason: 'default',
      rule: null,
      state: 'ended',
    })
    expect(states.destination).toBe(hostOf(world.bridge.dataUrl))
    // A row for each token of prompt and answer but the last; control messages and headers of the socket are no content.
    expect(states.rows).toBeGreaterThan(12)
    expect(states.bytes).toBeLessThan(report.bytesUp)
    expect(states.bytes).toBeGreaterThan(report.bytesUp / 2)

    await ask(agent, { mode: 'local' })
    expect(await last(agent)).toMatchObject({ content: 'counts', way: null, mode: 'local', reason: 'client', rows: 0, bytes: 0 })

    await ask(agent, { mode: 'cloud' })
    const text = await last(agent)
    expect(text).toMatchObject({ content: 'text', way: 'bridge', mode: 'cloud', reason: 'client', requests: 1, tokens: 12 })
    expect([text.destination, text.characters]).toEqual([hostOf(world.bridge.httpUrl), question.length])

    await ask(agent, { mode: 'sketch' })
    expect(await last(agent)).toMatchObject({ content: 'text', way: 'sketches', mode: 'sketch', characters: question.length })

    await ask(agent, { mode: 'auto' })
    expect(await last(agent)).toMatchObject({ mode: 'auto', reason: 'auto' })
    await ask(agent, { mode: 'auto', private: true })
    for (const { content } of await lastAnswer(agent)) expect(['states', 'counts']).toContain(content)
  })

  it('has the server of a race, whichever side wins it', async () => {
    await ask(agent, { mode: 'fast' })
    const raced = await lastAnswer(agent)
    expect(raced).toMatchObject([{ content: 'text', way: 'bridge', mode: 'fast' }])
  })

  it('records jobs of the bridge: the states that they cost, and the text that goes back', async () => {
    const body = JSON.stringify({ kind: 'hat.generate', device: 'phone', input: { prompt: 'Can you', maxTokens: 2 } })
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
    const { id } = (await (await fetch(`${world.bridge.httpUrl}/v1/jobs`, init)).json()) as { id: string }
    const state = async () => ((await (await fetch(`${world.bridge.httpUrl}/v1/jobs/${id}`)).json()) as { state: string }).state
    await expect.poll(state).toBe('SUCCEEDED')
    const jobs = async () =>
      (await listOf(agent)).disclosures.filter(({ reason, state }) => reason === 'job' && state === 'ended')
    await expect.poll(async () => (await jobs()).map(({ way }) => way)).toEqual(expect.arrayContaining(['hat', 'job']))
    expect((await jobs()).find(({ way }) => way === 'job')).toMatchObject({
      content: 'text',
      destination: hostOf(world.bridge.mqttUrl),
      mode: null,
    })
  })

  it('is shown by the command line, as text, as JSON, and as it happens', async () => {
    const run = async (...words: string[]) => {
      const { io, out, err } = captureIo()
      await brim(['agent', 'disclosures', '--api', agent.apiUrl, ...words], io)
      return { out: out(), err: err() }
    }
    const { out } = await run()
    expect(out).toMatch(/^TIME +ANSWER +MODE +WHY +LEFT THE DEVICE +TO$/m)
    expect(out).toMatch(/ private +default +states of \d+ tokens, [\d,]+ bytes +bridge 127\.0\.0\.1:\d+$/m)
    expect(out).toMatch(/ cloud +client +text of 19 characters, [\d,]+ bytes, 12 tokens of the answer +bridge 127\.0\.0\.1:\d+$/m)
    expect(out).toMatch(/ local +client +sums of tokens, in telemetry +127\.0\.0\.1:\d+$/m)
    const { disclosures } = JSON.parse((await run('--json', '--since', '1h', '--lines', '2')).out) as DisclosureList
    expect(disclosures).toHaveLength(2)
    await expect(run('--since', 'soon')).rejects.toMatchObject({ code: 'USAGE' })

    const stop = new AbortController()
    const { io, out: followed } = captureIo({ signal: stop.signal })
    const following = brim(['agent', 'disclosures', '--api', agent.apiUrl, '--lines', '1', '--follow', '--json'], io)
    await expect.poll(followed).not.toBe('')
    await ask(agent, { mode: 'local' })
    const lines = () => followed().trim().split('\n')
    await expect.poll(() => lines().length).toBe(2)
    stop.abort()
    await following.catch(() => {})
    expect(JSON.parse(lines()[1]!)).toMatchObject({ mode: 'local', state: 'ended' })
  })

  it('rejects a query that it does not understand', async () => {
    expect((await fetch(`${agent.apiUrl}/v1/disclosures?since=yesterday`)).status).toBe(400)
    expect((await fetch(`${agent.apiUrl}/v1/disclosures?limit=0`)).status).toBe(400)
  })

  it('has no word of a prompt or an answer on disk', async () => {
    const secret = 'Eleanora Vandermeer has a biopsy'
    const asked = { messages: [{ role: 'user', content: secret }] }
    const answers = [await ask(agent, { mode: 'cloud' }, asked), await ask(agent, {}, asked)]
    const folder = join(world.dir, 'phone')
    const files = readdirSync(folder).filter((name) => name.startsWith('disclosures.sqlite'))
    expect(files.length).toBeGreaterThan(0)
    for (const name of files) {
      const content = readFileSync(join(folder, name)).toString('latin1')
      for (const text of ['Eleanora', 'biopsy', ...answers.map((answer) => answer.text)]) expect(content).not.toContain(text)
    }
  })

  it('says that nothing leaves where no telemetry is reported', async () => {
    const silent = await world.startAgent({ id: 'silent', slms: [slm], telemetryS: 0 })
    await ask(silent, { mode: 'local' })
    expect(await lastAnswer(silent)).toMatchObject([{ content: 'nothing', destination: null }])
  })
})

describe('the ledger of an agent with another server', () => {
  it('counts repeated requests, and has none for a server that cannot be reached', async () => {
    await using upstream = await scriptedUpstream(failing(503, { 'retry-after': '0' }), streamed('It', ' is'))
    const server = { at: upstream.url, model: 'large' }
    const agent = await world.startAgent({ id: 'elsewhere', slms: [slm], server })
    expect(await ask(agent, { mode: 'cloud' })).toMatchObject({ status: 200, text: 'It is' })
    const sent = upstream.requests.map(({ body }) => JSON.stringify(body).length)
    expect(sent).toHaveLength(2)
    expect(await lastAnswer(agent)).toMatchObject([
      { way: 'server', destination: hostOf(upstream.url), requests: 2, bytes: sent[0]! + sent[1]!, tokens: 2, state: 'ended' },
    ])
    const lost = await world.startAgent({ id: 'lost', slms: [slm], server: { at: 'http://127.0.0.1:1/v1', model: 'large' } })
    expect((await ask(lost, { mode: 'cloud', fallback: 'slm' })).status).toBe(200)
    expect(await lastAnswer(lost)).toMatchObject([{ content: 'text', mode: 'cloud', requests: 0, bytes: 0 }])
  })
})

it('has an entry for each bridge that an answer moves to', async () => {
  const start = (id: string) => startTestBridge({ id, bundle: world.bundle, stateDir: join(world.dir, id) })
  const first = await start('bridge-1')
  await using second = await start('bridge-2')
  const agent = await world.startAgent({ id: 'mover', bridges: [first.mqttUrl, second.mqttUrl] })
  await linked(agent)
  const body = JSON.stringify({ prompt: [5, 6, 7], max_tokens: 400, temperature: 0, stream: true, ignore_eos: true })
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  const events = readSse((await fetch(`${agent.apiUrl}/v1/completions`, init)).body!)
  await events.next()
  const { destination } = await last(agent)
  const used = [first, second].find(({ dataUrl }) => hostOf(dataUrl) === destination)!
  await used.close()
  for await (const _ of events);
  const other = used === first ? second : first
  const entries = await lastAnswer(agent)
  expect(entries.map((entry) => entry.destination)).toEqual([hostOf(used.dataUrl), hostOf(other.dataUrl)])
  for (const { rows, state } of entries) expect([rows > 3, state]).toEqual([true, 'ended'])
  if (used !== first) await first.close()
})

it('an agent that is killed in the middle of an answer has hidden nothing', { timeout: 60_000 }, async () => {
  await using cluster = await Cluster.create({ bundle: world.bundle, env: process.env })
  const bridge = await cluster.startBridge()
  const agent = await cluster.startAgent({ id: 'killed', bridges: [bridge.ready.mqttUrl] })
  const body = JSON.stringify({ prompt: [5, 6, 7], max_tokens: 400, temperature: 0, stream: true, ignore_eos: true })
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  const events = readSse((await fetch(`${agent.ready.apiUrl}/v1/completions`, init)).body!)
  let received = 0
  for (; received < 20; received++) await events.next()
  await agent.kill()
  const store = openDatabase(join(cluster.stateDir('killed'), 'disclosures.sqlite'), [disclosureTables])
  const rows = store.prepare('SELECT state, body FROM disclosures ORDER BY id DESC').all() as { state: string; body: string }[]
  const entries = rows.map(({ state, body }) => ({ ...(JSON.parse(body) as Disclosure), state }))
  const entry = entries.find(({ reason }) => reason !== 'job')
  store.close()
  expect(entry).toMatchObject({ state: 'open', content: 'states', destination: hostOf(bridge.ready.dataUrl) })
  expect(entry!.rows).toBeGreaterThanOrEqual(received)
  await agent.restart()
  expect(await last(agent.ready)).toMatchObject({ state: 'interrupted', rows: entry!.rows })
})

const missing = mountMissing()
describe.skipIf(missing !== undefined)('an agent whose disk is full', () => {
  it('sends no text, goes on with private and local answers, says so, and writes their entries once there is space', async () => {
    using disk = smallDisk(24)
    await using upstream = await scriptedUpstream(streamed('It is'))
    const server = { at: upstream.url, model: 'large' }
    const base = {
      bundle: world.bundle,
      slms: [slm],
      bridges: [world.bridge.mqttUrl],
      apiPort: 0,
      threads: 1,
      logLevel: 'silent' as const,
    }
    const agent = await startAgent({ id: 'full', stateDir: disk.path, server, ...base })
    try {
      await linked(agent)
      expect((await ask(agent, { mode: 'cloud' })).status).toBe(200)
      disk.fill()
      expect(await ask(agent, { mode: 'cloud' })).toMatchObject({ status: 503, error: { code: 'DISCLOSURE_UNRECORDED' } })
      expect((await ask(agent, {})).status).toBe(200)
      expect((await ask(agent, { mode: 'local' })).status).toBe(200)
      // The other side answers for the one that may not be asked.
      expect((await ask(agent, { mode: 'fast' })).status).toBe(200)
      expect(upstream.requests).toHaveLength(1)
      const { recording } = await listOf(agent)
      expect(recording.failure).toMatch(/full/)
      expect(recording.unstored).toBeGreaterThanOrEqual(2)
      const { io, err } = captureIo()
      await brim(['agent', 'disclosures', '--api', agent.apiUrl], io)
      expect(err()).toContain(`${recording.unstored} entries are not on disk`)
      disk.free()
      expect((await ask(agent, { mode: 'cloud' })).status).toBe(200)
      const after = await listOf(agent)
      expect(after.recording).toEqual({ failure: null, unstored: 0 })
      const ofClient = after.disclosures.filter(({ reason }) => reason !== 'job')
      expect(ofClient.map(({ content }) => content)).toEqual(['text', 'counts', 'states', 'counts', 'counts', 'text'])
    } finally {
      await agent.close()
    }
  })
})
