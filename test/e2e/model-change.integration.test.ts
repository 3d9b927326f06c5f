import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import type { Rollout } from '../../core/wire/protocol/http/rollouts.ts'
import { freePort } from '../../lab/cluster/free-port.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { brim } from '../support/brim.ts'
import { captureIo } from '../support/captured-io.ts'
import { postJson } from '../support/post-json.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = tempDir()
const agents: Agent[] = []
const ports = { mqttPort: 0, httpPort: 0 }
let bridge: TestBridge
let before: { folder: string; modelId: string }
let after: { folder: string; modelId: string }

const start = async (...bundle: string[]) => {
  const limits = { rolloutSoakS: 1 }
  bridge = await startTestBridge({ bundle, stateDir: join(dir.path, 'bridge'), limits, ...ports })
}
async function startDevice(id: string): Promise<Agent> {
  const common = { bundle: before.folder, bridges: [bridge.mqttUrl], apiPort: 0, threads: 1, logLevel: 'silent' as const }
  const agent = await startAgent({ ...common, id, stateDir: join(dir.path, id), reconnectMaxS: 1 })
  agents.push(agent)
  return agent
}
const bundleOf = async (folder: string) => ({ folder, modelId: (await readManifest(folder)).modelId })

beforeAll(async () => {
  ports.mqttPort = await freePort()
  ports.httpPort = await freePort()
  before = await bundleOf(await buildTextBundle(dir.path, { adapter: false }))
  after = await bundleOf(await buildTextBundle(dir.path, { adapter: false, format: 'fp16' }))
  mkdirSync(join(dir.path, 'bridge', 'bundles'), { recursive: true })
  cpSync(after.folder, join(dir.path, 'bridge', 'bundles', 'pushed'), { recursive: true })
  await start(before.folder)
  for (const id of ['jetson-01', 'jetson-02']) await startDevice(id)
})
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.close()))
  await bridge.close()
  dir[Symbol.dispose]()
})

const post = (url: string, body: object) => postJson(url, body)
const ask = (url: string, model?: string) =>
  post(`${url}/v1/completions`, { prompt: 'Where?', max_tokens: 3, temperature: 0, model })
const areReady = async () => {
  const statuses = await Promise.all(agents.map(async ({ apiUrl }) => (await fetch(`${apiUrl}/ready`)).status))
  return statuses.every((status) => status === 200)
}
const rollout = async (...devices: string[]) => {
  const { io, out, err } = captureIo()
  const words = ['rollout', 'create', 'bundle', '--model', after.folder, ...devices, '--watch', '--bridge-url', bridge.httpUrl]
  const error = await brim([...words, '--json'], io).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  const last = out().trim().split('\n').at(-1)
  return { error, err: err(), rollout: last ? (JSON.parse(last) as Rollout) : undefined }
}

describe("a change of the fleet's model", () => {
  it('is refused while the bridge does not serve the new one, with the command that does', async () => {
    await expect.poll(areReady).toBe(true)
    expect((await rollout('--all')).error).toMatchObject({
      code: 'BUNDLE_MISMATCH',
      message: expect.stringContaining('this bridge does not serve "tiny-llama"'),
      hint: expect.stringMatching(/brim bridge run --bundle \S+pushed --bundle/),
    })
  })

  it('goes on while all devices answer, from a bridge that serves both', async () => {
    await bridge.close()
    await start(after.folder, before.folder)
    await expect.poll(areReady).toBe(true)
    expect(agents.map(({ modelId }) => modelId)).toEqual([before.modelId, before.modelId])
    const asking = { goOn: true, statuses: [] as number[] }
    const application = async ({ apiUrl }: Agent) => {
      for (; asking.goOn; await sleep(20)) asking.statuses.push((await ask(apiUrl)).status)
    }
    const applications = agents.map(application)
    const done = await rollout('--all')
    asking.goOn = false
    await Promise.all(applications)
    expect(done).toMatchObject({ error: undefined, rollout: { state: 'completed', devices: { succeeded: 2 } } })
    expect(asking.statuses.length).toBeGreaterThan(4)
    expect(new Set(asking.statuses)).toEqual(new Set([200]))
    expect(agents.map(({ modelId }) => modelId)).toEqual([after.modelId, after.modelId])
  })

  it('lets clients of the bridge choose among both meanwhile', async () => {
    const { data } = (await (await fetch(`${bridge.httpUrl}/v1/models`)).json()) as { data: { id: string }[] }
    expect(data.map(({ id }) => id)).toEqual(['tiny-llama', before.modelId, 'brim'])
    const textOf = async (model?: string) => {
      const { choices } = (await (await ask(bridge.httpUrl, model)).json()) as { choices: { text: string }[] }
      return choices[0]!.text
    }
    expect(await textOf()).toBe(await textOf(after.modelId))
    expect((await ask(bridge.httpUrl, before.modelId)).status).toBe(200)
    const health = (await (await fetch(`${bridge.httpUrl}/health`)).json()) as object
    expect(health).toMatchObject({ modelId: after.modelId, modelIds: [after.modelId, before.modelId] })
  })

  it('ends with a bridge that serves the new one alone', async () => {
    await bridge.close()
    await start(after.folder)
    await expect.poll(areReady).toBe(true)
    for (const { apiUrl } of agents) expect((await ask(apiUrl)).status).toBe(200)
  })

  it('is made up for by a device that was away', async () => {
    const late = await startDevice('late')
    await expect.poll(async () => (await fetch(`${late.apiUrl}/ready`)).json()).toMatchObject({ reasons: ['BUNDLE_MISMATCH'] })
    const known = async () => (await fetch(`${bridge.httpUrl}/v1/devices/late`)).status
    await expect.poll(known).toBe(200)
    expect((await rollout('--device', 'late')).rollout).toMatchObject({ state: 'completed', devices: { succeeded: 1 } })
    expect((await ask(late.apiUrl)).status).toBe(200)
  })
})

it('a bridge refuses two bundles of one model', async () => {
  const copy = join(dir.path, 'copy')
  cpSync(before.folder, copy, { recursive: true })
  const twice = startTestBridge({ bundle: [before.folder, copy], stateDir: join(dir.path, 'twice') })
  await expect(twice).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('are of one model') })
})
