import { once } from 'node:events'
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import type { AgentSettings } from '../../agent/config.ts'
import type { Bridge } from '../../cloud-bridge/bridge.ts'
import { buildBundle } from '../../core/model/bundle/build.ts'
import { readManifest } from '../../core/model/bundle/bundle.ts'
import type { JobDetails } from '../../core/wire/protocol/http/jobs.ts'
import { buildSlmBundle, buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { sha256Of } from '../support/sha256-of.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = shared(tempDir)
let bundle: string
let bridge: Bridge
let versions: Record<'llm' | 'slm', { modelId: string; manifestSha256: string }>
let agent: Agent | undefined

async function versionOf(folder: string): Promise<{ modelId: string; manifestSha256: string }> {
  const { modelId } = await readManifest(folder)
  return { modelId, manifestSha256: sha256Of(join(folder, 'manifest.json')) }
}

beforeAll(async () => {
  bundle = await buildTextBundle(dir.path)
  const bundles = join(dir.path, 'bundles')
  mkdirSync(bundles)
  const slm = await buildSlmBundle(dir.path)
  renameSync(slm, join(bundles, 'small'))
  versions = { llm: await versionOf(bundle), slm: await versionOf(join(bundles, 'small')) }
  bridge = await startTestBridge({ bundle, bundles, stateDir: join(dir.path, 'bridge'), chunkTokens: 16 })
})
afterAll(() => bridge.close())
afterEach(async () => {
  await agent?.close()
  agent = undefined
})

async function start(id: string, settings: Partial<AgentSettings> = {}): Promise<Agent> {
  const defaults = { bridges: [bridge.mqttUrl], apiPort: 0, threads: 1, logLevel: 'silent' as const }
  agent = await startAgent({ id, stateDir: join(dir.path, id), ...defaults, ...settings })
  return agent
}

async function ask({ apiUrl }: Agent): Promise<{ status: number; body: unknown }> {
  const response = await postJson(`${apiUrl}/v1/completions`, { prompt: 'Can you', max_tokens: 4, temperature: 0 })
  return { status: response.status, body: await response.json() }
}

const health = async ({ apiUrl }: Agent) => (await (await fetch(`${apiUrl}/health`)).json()) as Record<string, unknown>

/** The deadline ends jobs that the device never takes. */
async function jobEnd(device: string, kind: string, input: object): Promise<JobDetails> {
  const post = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const body = JSON.stringify({ kind, input, device, deadlineS: 60 })
  await expect.poll(async () => (await fetch(`${bridge.httpUrl}/v1/devices/${device}`)).status).toBe(200)
  const { id } = (await (await fetch(`${bridge.httpUrl}/v1/jobs`, { ...post, body })).json()) as { id: string }
  const show = async () => (await (await fetch(`${bridge.httpUrl}/v1/jobs/${id}`)).json()) as JobDetails
  await expect.poll(async () => (await show()).state, { timeout: 30_000 }).toMatch(/SUCC|FAIL|REJ|TIMED|CANC|DEAD/)
  return show()
}

const install = (device: string, role: 'llm' | 'slm', activate = true) =>
  jobEnd(device, 'bundle.install', { ...versions[role], activate })

const answered = { status: 200, body: { choices: [{ text: expect.any(String) }] } }

describe('an agent without a bundle', () => {
  it('starts, refuses questions, and answers with the first bundle that a job activates, also after a restart', async () => {
    const empty = await start('empty')
    expect(empty.modelId).toBeUndefined()
    expect(await ask(empty)).toMatchObject({
      status: 503,
      body: { error: { code: 'MODEL_MISSING', hint: expect.stringContaining('bundle.install') } },
    })
    const degraded = { status: 'degraded', reasons: [{ code: 'MODEL_MISSING' }], modelId: null, slm: null }
    await expect.poll(() => health(empty)).toMatchObject(degraded)
    expect((await fetch(`${empty.apiUrl}/ready`)).status).toBe(503)
    expect((await fetch(`${empty.apiUrl}/v1/models`)).status).toBe(503)

    const { modelId } = versions.llm
    expect(await install('empty', 'llm')).toMatchObject({ state: 'SUCCEEDED', result: { modelId, activated: true } })
    await expect.poll(() => ask(empty)).toMatchObject(answered)
    expect(empty.modelId).toBe(modelId)
    await expect.poll(() => health(empty)).toMatchObject({ status: 'ok', modelId })
    const generate = await jobEnd('empty', 'hat.generate', { prompt: 'Can you', maxTokens: 4 })
    expect(generate).toMatchObject({ state: 'SUCCEEDED', result: { tokens: 4 } })

    await empty.close()
    const again = await start('empty')
    expect(again.modelId).toBe(modelId)
    await expect.poll(() => ask(again)).toMatchObject(answered)
  })

  it('reports its model and the kinds of jobs that it supports as they change', async () => {
    await start('kinds')
    const supports = async () => {
      const response = await fetch(`${bridge.httpUrl}/v1/devices/kinds`)
      return ((await response.json()) as { modelId: string | null }).modelId
    }
    await expect.poll(supports).toBeNull()
    await install('kinds', 'llm', false)
    expect(agent!.modelId).toBeUndefined()
    await install('kinds', 'llm')
    await expect.poll(supports).toBe(versions.llm.modelId)
    expect(await install('kinds', 'slm')).toMatchObject({ state: 'SUCCEEDED', result: { activated: true } })
    const shown = { provider: expect.any(String), reason: expect.any(String) }
    const computing = { llm: shown, slm: shown }
    expect(await health(agent!)).toMatchObject({ modelId: versions.llm.modelId, slm: 'tiny-slm', computing })
    const small = await jobEnd('kinds', 'slm.generate', { prompt: 'Can you', maxTokens: 4 })
    expect(small).toMatchObject({ state: 'SUCCEEDED', result: { tokens: 4 } })
  })

  it('starts also where the activated bundle is damaged, says why, and is repaired by another job', async () => {
    const first = await start('damaged')
    await install('damaged', 'llm')
    await first.close()
    const weights = join(dir.path, 'damaged', 'bundles', versions.llm.modelId, 'input.weights')
    writeFileSync(weights, 'no weights')
    const second = await start('damaged')
    expect(await ask(second)).toMatchObject({
      status: 503,
      body: { error: { code: 'BUNDLE_CORRUPT', message: expect.stringContaining(weights) } },
    })
    expect(await install('damaged', 'llm')).toMatchObject({ state: 'SUCCEEDED', result: { wasInstalled: false } })
    await expect.poll(() => ask(second)).toMatchObject(answered)
  })

  it('answers with the bundle of a later --bundle instead of an activated one', async () => {
    const first = await start('configured')
    await install('configured', 'llm')
    await first.close()
    // Without the installed copy, only the configured folder can be what answers.
    rmSync(join(dir.path, 'configured', 'bundles'), { recursive: true })
    const second = await start('configured', { bundle })
    expect(second.modelId).toBe(versions.llm.modelId)
  })
})

describe('an activation of a model that is open in another version', () => {
  it('opens the version that was installed since', async () => {
    const device = await start('versions')
    await install('versions', 'llm')
    const folder = join(dir.path, 'other-version')
    cpSync(bundle, folder, { recursive: true })
    const path = join(folder, 'manifest.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as { card: { name: string } }
    manifest.card.name = 'renamed'
    writeFileSync(path, JSON.stringify(manifest))
    await device.close()
    const installed = join(dir.path, 'versions', 'bundles', versions.llm.modelId)
    const again = await start('versions')
    // As after a job without activation: the version on disk has changed since it was opened.
    cpSync(path, join(installed, 'manifest.json'))
    const version = await versionOf(folder)
    const url = `${bridge.httpUrl}/v1/bundles/${version.modelId}`
    const job = await jobEnd('versions', 'bundle.install', { ...version, url, activate: true })
    expect(job).toMatchObject({ state: 'SUCCEEDED', result: { wasInstalled: true, activated: true } })
    const models = (await (await fetch(`${again.apiUrl}/v1/models`)).json()) as { data: { id: string }[] }
    expect(models.data[0]).toMatchObject({ id: 'renamed' })
  })
})

describe('an activation while an answer is in progress', () => {
  /** Another version of the same model, and another model, which the bridge does not serve. */
  async function others() {
    const renamed = join(dir.path, 'renamed')
    cpSync(bundle, renamed, { recursive: true })
    const path = join(renamed, 'manifest.json')
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as { card: { name: string } }
    manifest.card.name = 'renamed'
    writeFileSync(path, JSON.stringify(manifest))
    await buildSlmBundle(join(dir.path, 'foreign'), 3)
    const foreign = join(dir.path, 'foreign', 'split')
    const checkpoint = join(dir.path, 'foreign', 'slm-checkpoint')
    await buildBundle({ checkpoint, split: 1, format: 'fp32', name: 'foreign', out: foreign })
    return { renamed: await versionOf(renamed), foreign: await versionOf(foreign), folders: { renamed, foreign } }
  }

  it('goes to the new bundle at once, and only if it answers', async () => {
    const { renamed, foreign, folders } = await others()
    const files = createServer(({ url = '' }, response) => void response.end(readFileSync(join(dir.path, url))))
    await once(files.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(files.address() as AddressInfo).port}`
    const at = (folder: string) => `${url}${folder.slice(dir.path.length)}`
    const busy = await start('busy', { bundle, bundleSources: [url] })
    await expect.poll(() => ask(busy)).toMatchObject(answered)
    const ask100 = { prompt: 'Can you', max_tokens: 100, temperature: 0, stream: true }
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${busy.apiUrl}/v1/completions`, { method: 'POST', headers, body: JSON.stringify(ask100) })
    const streamed = response.text()
    const asked = { activate: true, probe: { prompt: 'Can you', maxTokens: 2 } }
    const job = await jobEnd('busy', 'bundle.install', { ...renamed, url: at(folders.renamed), ...asked })
    expect(job).toMatchObject({ state: 'SUCCEEDED', result: { activated: true, activation: 'beside', signedBy: null } })
    expect(await streamed).toContain('[DONE]')
    const model = async () => ((await (await fetch(`${busy.apiUrl}/v1/models`)).json()) as { data: { id: string }[] }).data[0]?.id
    expect(await model()).toBe('renamed')
    expect(await ask(busy)).toMatchObject(answered)
    const failed = await jobEnd('busy', 'bundle.install', { ...foreign, url: at(folders.foreign), ...asked })
    expect(failed).toMatchObject({
      state: 'REJECTED',
      attempt: 1,
      error: { code: 'HEALTH_CHECK_FAILED', message: expect.stringContaining('serves') },
    })
    expect([await model(), (await ask(busy)).status]).toEqual(['renamed', 200])
    expect(readdirSync(join(dir.path, 'busy', 'bundles')).filter((name) => !name.startsWith('.'))).toEqual([renamed.modelId])
    files.close()
  })
})
