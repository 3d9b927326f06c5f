import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { projectRoot } from '../../core/kit/base/version.ts'
import { readSse } from '../../core/wire/openai/sse-reader.ts'
import { ensureDemoBundle } from '../../lab/cluster/demo-bundles.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const cli = fileURLToPath(new URL('dist/brim.js', projectRoot))
const question = 'Please tell me how to grow roses in the garden.'

/** Of pino. */
const infoLevel = 30

interface Service {
  readonly child: ChildProcess
  readonly ready: Readonly<Record<'mqttUrl' | 'httpUrl' | 'apiUrl', string>>
  /** Messages of its log so far, without warnings, which depend on the machine. */
  readonly story: string[]
  readonly log: () => string
  /** Exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
}

const started: ChildProcess[] = []
const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await ensureDemoBundle()
})
afterAll(() => {
  for (const child of started) child.kill('SIGKILL')
})

/** As the units start it. */
async function start(noun: 'agent' | 'bridge', ...options: string[]): Promise<Service> {
  const args = [noun, 'run', '--bundle', bundle, '--log-level', 'info', '--state-dir', join(dir.path, noun), ...options, '--json']
  const child = spawn(process.execPath, [cli, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  started.push(child)
  const story: string[] = []
  let log = ''
  createInterface({ input: child.stderr }).on('line', (line) => {
    log += `${line}\n`
    const { level, msg } = JSON.parse(line) as { level: number; msg: string }
    if (level === infoLevel) story.push(msg)
  })
  const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
  return { child, ready: JSON.parse(line) as Service['ready'], story, log: () => log, ended }
}

const ask = (url: string, fields: object) =>
  postJson(`${url}/v1/chat/completions`, { messages: [{ role: 'user', content: question }], temperature: 0, ...fields })

/** Begins an answer that is in progress for a while. @returns the number of its events, once it has ended */
async function beginAnswer(url: string): Promise<() => Promise<number>> {
  const response = await ask(url, { stream: true, max_tokens: 300, ignore_eos: true })
  expect(response.status).toBe(200)
  const events = readSse(response.body!)[Symbol.asyncIterator]()
  await events.next()
  return async () => {
    let count = 1
    for (let next = await events.next(); next.done !== true; next = await events.next()) count += 1
    return count
  }
}

describe('an agent and a bridge at --log-level info', () => {
  it('tell their story in a line per event, and end answers in progress before they stop', async () => {
    const bridge = await start('bridge', '--mqtt-port', '0', '--http-port', '0')
    const { mqttUrl, httpUrl } = bridge.ready
    const agent = await start('agent', '--id', 'jetson-01', '--api-port', '0', '--bridge', mqttUrl)
    const { apiUrl } = agent.ready
    const stateOfDevice = async () => {
      const { devices } = (await (await fetch(`${httpUrl}/v1/devices`)).json()) as { devices: { state: string }[] }
      return devices[0]?.state
    }
    await expect.poll(stateOfDevice).toBe('ready')
    for (let count = 0; count < 3; count++) expect((await ask(apiUrl, { max_tokens: 4 })).status).toBe(200)
    const input = { prompt: question, maxTokens: 4 }
    const submitted = await postJson(`${httpUrl}/v1/jobs`, { kind: 'hat.generate', input })
    expect(submitted.status).toBeLessThan(300)
    await expect.poll(() => bridge.story.includes('job ended')).toBe(true)

    const rest = await beginAnswer(apiUrl)
    agent.child.kill('SIGTERM')
    await expect.poll(stateOfDevice, { interval: 10 }).toBe('draining')
    const refused = await ask(apiUrl, {})
    expect(refused.status).toBe(503)
    expect(refused.headers.get('retry-after')).toBe('5')
    expect(await refused.json()).toMatchObject({
      error: { code: 'SESSION_REFUSED', message: expect.stringContaining('shutting down') },
    })
    expect(await rest()).toBeGreaterThan(100)
    expect(await agent.ended).toBe(143)
    expect(await stateOfDevice()).toBe('disconnected')

    // The bridge answers too; a second signal does not wait.
    const cut = await beginAnswer(httpUrl)
    bridge.child.kill('SIGTERM')
    await expect.poll(() => bridge.story.includes('bridge draining')).toBe(true)
    expect((await ask(httpUrl, {})).status).toBe(503)
    bridge.child.kill('SIGTERM')
    expect(await bridge.ended).toBe('SIGTERM')
    await expect(cut()).rejects.toThrow()

    expect(agent.story).toEqual([
      'API listening',
      'agent ready',
      'control plane connected',
      'data plane connected',
      ...Array.from({ length: 3 }, () => 'answered'),
      'job ended',
      'agent draining',
      'answered',
      'agent drained',
    ])
    // Lines about the device arrive on two connections: their order is not fixed.
    const expected = [
      'bridge ready',
      'device state',
      'device connected',
      ...Array.from({ length: 4 }, () => 'session ended'),
      'job ended',
      'device state',
      'session ended',
      'device state',
      'device disconnected',
      'bridge draining',
    ]
    expect([...bridge.story].sort()).toEqual(expected.sort())
    expect(agent.log() + bridge.log()).not.toContain('roses')
  })
})
