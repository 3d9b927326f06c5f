import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { projectRoot } from '../../core/kit/base/version.ts'
import { type AgentNode, type BridgeNode, Cluster } from '../../lab/cluster/cluster.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { startOpenBroker } from '../support/served-broker.ts'
import { tempDir } from '../support/temp-dir.ts'

// The packages of the release before are this one's: what changed on the wire is in Brim's own code.
const previous = '0.2.0'
const dir = tempDir()
let cluster: Cluster
let bundle: string
let old: string

beforeAll(async () => {
  const root = join(dir.path, `brim-${previous}`)
  const archive = fileURLToPath(new URL(`test/fixtures/releases/brim-${previous}.tgz`, projectRoot))
  execFileSync('tar', ['-xzf', archive, '-C', dir.path])
  symlinkSync(fileURLToPath(new URL('node_modules', projectRoot)), join(root, 'node_modules'))
  old = join(root, 'dist/brim.js')
  mkdirSync(join(dir.path, 'cluster'))
  bundle = await buildTextBundle(dir.path, { adapter: false, coded: true })
  cluster = await Cluster.create({ bundle, folder: join(dir.path, 'cluster'), env: process.env })
}, 60_000)

afterAll(async () => {
  await cluster?.[Symbol.asyncDispose]()
  dir[Symbol.dispose]()
})

const post = async (url: string, body: object) => {
  const response = await postJson(url, body)
  return (await response.json()) as Record<string, unknown>
}
const getJson = async (url: string) => (await (await fetch(url)).json()) as Record<string, unknown>

/** A private answer of the device, which needs the bridge. */
async function answer({ ready }: AgentNode): Promise<string> {
  const request = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 8, temperature: 0 }
  const { choices, error } = await post(`${ready.apiUrl}/v1/chat/completions`, request)
  expect(error).toBeUndefined()
  return (choices as { message: { content: string } }[])[0]!.message.content
}

interface AnyBridge {
  readonly ready: { readonly httpUrl: string }
}

/** A job of the bridge for the device. @returns the text of its result */
async function jobText({ ready }: AnyBridge, device: string): Promise<unknown> {
  const input = { messages: [{ role: 'user', content: 'Hello' }], maxTokens: 8 }
  const { id } = await post(`${ready.httpUrl}/v1/jobs`, { kind: 'hat.generate', device, input, timeouts: { acceptS: 1 } })
  let job: Record<string, unknown> = {}
  const read = async () => {
    job = await getJson(`${ready.httpUrl}/v1/jobs/${String(id)}`)
    return job.state
  }
  await vi.waitUntil(async () => (await read()) === 'SUCCEEDED', { timeout: 30_000, interval: 100 })
  return (job.result as { text: string }).text
}

/** The version of the agent that the bridge knows, once it has a sample of its telemetry. */
async function reportedVersion({ ready }: AnyBridge, device: string): Promise<unknown> {
  let shown: Record<string, unknown> = {}
  const read = async () => {
    shown = await getJson(`${ready.httpUrl}/v1/devices/${device}`)
    return (shown.telemetry ?? null) !== null
  }
  await vi.waitUntil(read, { timeout: 30_000, interval: 100 })
  return shown.agent
}

const agentOptions = ['--telemetry', '1', '--reconnect-max', '1']
const startAgent = (id: string, bridge: BridgeNode, program?: string) =>
  cluster.startAgent({ id, bridges: [bridge.ready.mqttUrl], args: agentOptions, program })

describe.concurrent(`beside release ${previous}`, () => {
  it.each([
    ['bridge', 'an agent of this one'],
    ['agent', 'a bridge of this one'],
  ] as const)(
    'its %s works with %s: answers, jobs, telemetry, and after a restart',
    async (which, _beside) => {
      const bridge = await cluster.startBridge({ id: `with-${which}`, program: which === 'bridge' ? old : undefined })
      const device = `old-${which}`
      const agent = await startAgent(device, bridge, which === 'agent' ? old : undefined)
      const text = await answer(agent)
      expect(text.length).toBeGreaterThan(0)
      expect(await jobText(bridge, device)).toBe(text)
      const version = await reportedVersion(bridge, device)
      expect(String(version).startsWith(previous)).toBe(which === 'agent')
      await bridge.restart()
      expect(await answer(agent)).toBe(text)
      if (which === 'bridge') return
      // Its state folder is read by this release, and by that one again: no database has changed since then.
      for (const program of [undefined, old]) {
        await agent.kill()
        const next = await startAgent(device, bridge, program)
        expect(await answer(next)).toBe(text)
        await next.kill()
      }
    },
    60_000,
  )

  it('its agent does the jobs of a bridge of this one at a broker of its own', async () => {
    await using broker = await startOpenBroker()
    const at = { id: 'shared', bundle, stateDir: join(dir.path, 'shared'), broker: { url: broker.url } }
    await using bridge = await startTestBridge(at)
    const agent = await cluster.startAgent({ id: 'old-shared', bridges: [broker.url], args: agentOptions, program: old })
    const text = await answer(agent)
    expect(String(await reportedVersion({ ready: bridge }, 'old-shared')).startsWith(previous)).toBe(true)
    expect(await jobText({ ready: bridge }, 'old-shared')).toBe(text)
  }, 60_000)

  it('an agent answers at a bridge of this one that serves another bundle before its own', async () => {
    const other = await buildTextBundle(dir.path, { adapter: false, format: 'fp16' })
    const bridge = await cluster.startBridge({ id: 'with-two', args: ['--bundle', other] })
    const agent = await startAgent('old-beside-new', bridge, old)
    expect((await answer(agent)).length).toBeGreaterThan(0)
  }, 60_000)
})
