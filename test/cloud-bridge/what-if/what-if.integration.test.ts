import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../../agent/agent.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { WhatIfEvent, WhatIfSituation } from '../../../core/wire/protocol/http/what-if.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { startTestBridge, type TestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { recordRequests } from '../../support/record-requests.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

const ownRequests = 40
const deviceRequests = 4

let dir: TempDir
let bridge: TestBridge
let agent: Agent

beforeAll(async () => {
  dir = tempDir()
  bridge = await startTestBridge({ bundle: await ensureDemoBundle(), stateDir: join(dir.path, 'bridge') })
  agent = await startAgent({
    id: 'jetson-01',
    stateDir: join(dir.path, 'agent'),
    bundle: await ensureDemoBundle(),
    slms: [await ensureDemoBundle('slm-deep')],
    bridges: [bridge.mqttUrl],
    apiPort: 0,
    threads: 1,
    logLevel: 'silent',
    telemetryS: 1,
  })
  await recordRequests(bridge, ownRequests)
}, 120_000)
afterAll(async () => {
  await agent?.close()
  await bridge?.close()
  dir[Symbol.dispose]()
})

const situationOf = async ({ httpUrl }: Pick<TestBridge, 'httpUrl'>) =>
  WhatIfSituation.parse(await (await fetch(`${httpUrl}/v1/what-if`)).json())

/** All events of a simulation, until its end. @param onEvent called with each one */
async function simulate(body: object, onEvent: (event: WhatIfEvent) => void = () => {}, at: TestBridge = bridge) {
  const response = await postJson(`${at.httpUrl}/v1/what-if`, body)
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  let last: WhatIfEvent = {}
  for await (const data of readSse(response.body!)) {
    last = WhatIfEvent.parse(JSON.parse(data))
    onEvent(last)
  }
  return last
}

/** Processes of the simulator that this process has started. */
function simulators(): number[] {
  const tasks = readdirSync('/proc/self/task')
  const children = tasks.flatMap((task) => {
    try {
      return readFileSync(`/proc/self/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)
    } catch {
      return []
    }
  })
  return children.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('\0simulate\0')
    } catch {
      return false
    }
  })
}

/** The first process of the simulator that there is. */
async function simulatorPid(): Promise<number> {
  await expect.poll(simulators, { interval: 10, timeout: 30_000 }).not.toEqual([])
  return simulators()[0]!
}

const noSimulator = () => expect.poll(simulators, { timeout: 30_000 }).toEqual([])

/** Long enough to be ended early. */
const long = { settings: { devices: '2000' } }

describe('a simulation of the fleet', { timeout: 300_000 }, () => {
  it('takes what the bridge and its devices have measured, and says what it assumes', async () => {
    for (const mode of ['private', 'private', 'private', 'private', 'local']) {
      const asked = { messages: [{ role: 'user', content: 'What is a lamp?' }], max_tokens: 6, brim: { mode } }
      const response = await postJson(`${agent.apiUrl}/v1/chat/completions`, asked)
      expect(response.status, await response.text()).toBe(200)
    }
    const measured = async () =>
      (await situationOf(bridge)).facts.flatMap(({ option, basis }) => (basis === 'measured' ? [option] : []))
    await expect.poll(measured, { timeout: 30_000 }).toEqual(expect.arrayContaining(['gpu', 'board', 'devices', 'up']))
    const requests = async () => (await situationOf(bridge)).requests
    await expect.poll(requests, { timeout: 10_000 }).toBeGreaterThanOrEqual(ownRequests + deviceRequests)
    const recorded = await requests()

    const progress: string[] = []
    const { result, error } = await simulate({ goal: 'latency', settings: { rtt: '33' } }, (event) =>
      progress.push(event.progress?.what ?? ''),
    )
    expect(error).toBeUndefined()
    expect(progress.slice(0, 2)).toEqual(['fitting the bridge', 'fitting the device'])
    const { best, tried, facts, files } = result!
    const basisOf = Object.fromEntries(facts.map(({ option, value, basis }) => [option, `${basis} ${value}`]))
    expect(basisOf).toMatchObject({
      model: 'configured brim-demo',
      gpu: 'measured bridge.yaml',
      'small-model': 'configured brim-demo-slm-deep',
      board: 'measured device.yaml',
      devices: 'measured 1',
      rtt: 'chosen 33',
      replicas: 'assumed 1',
    })
    expect(tried.map(({ name }) => name)).toEqual(expect.arrayContaining([best, 'cloud', 'private (HAT)', 'local', 'cheap']))
    // A device may have measured itself meanwhile.
    expect(tried[0]!.all.requests).toBeGreaterThanOrEqual(recorded)
    for (const { all } of tried) {
      expect(all.requests).toBe(tried[0]!.all.requests)
      expect(all.ttftMs.mean).toBeGreaterThan(0)
    }
    expect(files.agent).toContain('is best for latency')
    await noSimulator()
  })

  it('is one at a time, and ends when its reader leaves', async () => {
    const leaves = new AbortController()
    const first = await postJson(`${bridge.httpUrl}/v1/what-if`, long, {}, leaves.signal)
    expect(first.status).toBe(200)
    await simulatorPid()
    await expect(simulate({})).rejects.toThrow(/^429 .*runs one at a time/)
    leaves.abort()
    await noSimulator()
    // The bridge may still be ending it.
    const next = () => simulate({ settings: { gpu: 'h1000' } }).catch(() => undefined)
    await expect
      .poll(next, { timeout: 120_000 })
      .toMatchObject({ error: { code: 'USAGE', message: expect.stringContaining('"h1000"') } })
  })

  it('tells its reader when its process was killed', async () => {
    const ended = simulate(long)
    process.kill(await simulatorPid(), 'SIGKILL')
    const { error } = await ended
    expect(error).toMatchObject({ code: 'RUNTIME_FAILED', message: 'the simulator has ended with SIGKILL' })
  })

  it('takes names of presets and figures alone', async () => {
    for (const settings of [{ gpu: 'x.yaml' }, { board: '/etc/passwd' }, { model: '--help' }, { devices: 5 }, { trace: 'x' }])
      await expect(simulate({ settings })).rejects.toThrow('400')
    expect(simulators()).toEqual([])
  })

  it('ends with its bridge', async () => {
    const other = await startTestBridge({ bundle: await ensureDemoBundle(), stateDir: join(dir.path, 'other') })
    await recordRequests(other, 20)
    const ended = simulate(long, () => {}, other).catch(() => undefined)
    await simulatorPid()
    await other.close()
    await noSimulator()
    await ended
  })
})

describe('a bridge that requires keys', { timeout: 60_000 }, () => {
  it('simulates for operators alone, with an audit line, and says what is missing', async () => {
    const stateDir = join(dir.path, 'guarded')
    const upstream = { url: 'http://127.0.0.1:9/v1', model: 'none' }
    await using guarded = await startTestBridge({ stateDir, auth: true, upstream })
    const store = openIdentityStore(stateDir)
    const headersOf = (role: 'viewer' | 'operator') => ({
      authorization: `Bearer ${store.createKey('operator:test', `a-${role}`, role).key}`,
    })
    const url = `${guarded.httpUrl}/v1/what-if`
    const viewer = headersOf('viewer')
    expect((await fetch(url, { headers: viewer })).status).toBe(403)
    expect((await postJson(url, {}, viewer)).status).toBe(403)
    const operator = headersOf('operator')
    expect(await (await fetch(url, { headers: operator })).json()).toMatchObject({ requests: 0, minRequests: 20 })
    const refused = await postJson(url, { goal: 'cost' }, operator)
    expect(refused.status).toBe(400)
    expect(await refused.text()).toContain('0 requests were recorded since the start of the bridge; a simulation needs 20')
    const lines = () =>
      store.audit(20).flatMap(({ action, outcome, subject }) => (action.includes('what-if') ? [[action, outcome, subject]] : []))
    await expect.poll(lines, { timeout: 10_000 }).toEqual([
      ['what-if.run', 'refused', 'cost'],
      ['POST /v1/what-if', 'refused', '/v1/what-if'],
    ])
    store.close()
  })
})
