import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import type { Manifest } from '../../../core/model/bundle/manifest.ts'
import { modelIdOf } from '../../../core/model/bundle/model-id.ts'
import { keyRoles } from '../../../core/wire/protocol/http/admin.ts'
import type { JobDetails } from '../../../core/wire/protocol/http/jobs.ts'
import { startBrim } from '../../../lab/cluster/processes.ts'
import { isKnown } from '../../support/absent-device.ts'
import { type AgentWorld, buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { postJson } from '../../support/post-json.ts'
import { sha256Of } from '../../support/sha256-of.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = shared(tempDir)
let slm: string
let small: Manifest
let smallVersion: { modelId: string; manifestSha256: string }
beforeAll(async () => {
  slm = await buildSlmBundle(dir.path)
  small = await readManifest(slm)
  smallVersion = { modelId: small.modelId, manifestSha256: sha256Of(join(slm, 'manifest.json')) }
  cpSync(slm, join(dir.path, 'bundles', 'small'), { recursive: true })
})

/** The bridge's job API. */
function jobsAt(world: AgentWorld, secret?: string) {
  const headers = { 'content-type': 'application/json', ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }) }
  const at = async (path: string, init: RequestInit = {}) =>
    (await (await fetch(`${world.bridge.httpUrl}/v1/jobs${path}`, { ...init, headers })).json()) as JobDetails
  return {
    submit: async (body: object) => (await at('', { method: 'POST', body: JSON.stringify(body) })).id,
    show: (id: string) => at(`/${id}`),
    ended: async (id: string) => {
      await expect.poll(async () => (await at(`/${id}`)).state, { timeout: 30_000 }).toMatch(/SUCC|FAIL|REJ|TIMED|CANC/)
      return at(`/${id}`)
    },
  }
}

describe('a bridge that serves bundles and requires authentication', () => {
  const world = shared(() => startAgentWorld({ bridge: { auth: true, bundles: join(dir.path, 'bundles') } }))
  let secret: string
  beforeAll(async () => {
    const store = openIdentityStore(join(world.dir, 'bridge'))
    await enrolDevice(world, store, 'orin')
    // The highest role.
    secret = store.createKey('operator:test', 'ci', keyRoles.at(-1)!).key
    store.close()
  })

  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${world.bridge.httpUrl}/v1/bundles${path}`, { headers: { authorization: `Bearer ${secret}`, ...headers } })

  it('lets an enrolled device install a model, which then answers', async () => {
    const jobs = jobsAt(world, secret)
    const first = await world.startAgent({ id: 'orin', bridges: undefined })
    const id = await jobs.submit({ kind: 'bundle.install', input: smallVersion, device: 'orin' })
    expect(await jobs.ended(id)).toMatchObject({ state: 'SUCCEEDED', result: { name: 'tiny-slm', wasInstalled: false } })
    // Another model, of which only the manifest is present.
    const broken = { ...small, card: { ...small.card, name: 'broken' }, tokens: { ...small.tokens, eos: [7] } }
    const brokenId = modelIdOf(broken)
    const brokenAt = join(world.dir, 'orin', 'bundles', brokenId)
    mkdirSync(brokenAt)
    writeFileSync(join(brokenAt, 'manifest.json'), JSON.stringify({ ...broken, modelId: brokenId }))
    const profiled = await jobs.ended(await jobs.submit({ kind: 'profile', input: {}, device: 'orin' }))
    const installed = { model: 'tiny-slm', modelId: small.modelId, c: expect.any(Number), decodeTokensPerS: expect.any(Number) }
    expect(profiled).toMatchObject({
      state: 'SUCCEEDED',
      result: { slm: null, c: null, models: [installed], unfit: [{ modelId: brokenId }] },
    })
    await first.close()
    const again = await world.startAgent({ id: 'orin', bridges: undefined, slms: [small.modelId.slice(0, 12)] })
    expect(again.slm).toBe('tiny-slm')
    expect(await (await fetch(`${again.apiUrl}/health`)).json()).toMatchObject({ profile: profiled.result })
    const answer = await jobs.submit({ kind: 'slm.generate', input: { prompt: 'Can you', maxTokens: 4 }, device: 'orin' })
    expect(await jobs.ended(answer)).toMatchObject({ state: 'SUCCEEDED', result: { tokens: 4 } })
  })

  it('refuses the installation of a bundle that it does not offer, unless the job names another source', async () => {
    const jobs = jobsAt(world, secret)
    const submit = (input: object) =>
      postJson(
        `${world.bridge.httpUrl}/v1/jobs`,
        { kind: 'bundle.install', input, device: 'orin' },
        { authorization: `Bearer ${secret}` },
      )
    for (const [other, why] of [
      [{ modelId: '0'.repeat(64) }, 'has no bundle of model 0000'],
      [{ manifestSha256: '0'.repeat(64) }, 'another bundle of model'],
    ] as const) {
      const refused = await submit({ ...smallVersion, ...other })
      expect([refused.status, await refused.json()]).toMatchObject([
        404,
        { error: { code: 'MODEL_UNKNOWN', message: expect.stringContaining(why) } },
      ])
    }
    const input = { ...smallVersion, modelId: '0'.repeat(64), url: `${world.bridge.httpUrl}/v1/bundles/${'0'.repeat(64)}` }
    const elsewhere = (await (await submit(input)).json()) as { id: string }
    expect(await jobs.ended(elsewhere.id)).toMatchObject({ state: 'REJECTED', attempt: 1, error: { code: expect.any(String) } })
  })

  it('lists its own bundle and those of its folder, and sends their files from any byte', async () => {
    const { bundles } = (await (await get('')).json()) as { bundles: { modelId: string; name: string }[] }
    expect(bundles.map(({ name }) => name).sort()).toEqual(['tiny-llama', 'tiny-slm'])
    const whole = readFileSync(join(slm, 'manifest.json'))
    const rest = await get(`/${small.modelId}/manifest.json`, { range: 'bytes=100-' })
    expect(rest.status).toBe(206)
    expect(rest.headers.get('content-range')).toBe(`bytes 100-${whole.length - 1}/${whole.length}`)
    expect(Buffer.from(await rest.arrayBuffer())).toEqual(whole.subarray(100))
    expect((await get(`/${small.modelId}/manifest.json`, { range: `bytes=${whole.length}-` })).status).toBe(416)
  })

  it('sends nothing without a token, and no file that no manifest lists', async () => {
    expect((await fetch(`${world.bridge.httpUrl}/v1/bundles`)).status).toBe(401)
    expect((await fetch(`${world.bridge.httpUrl}/v1/bundles/${small.modelId}/manifest.json`)).status).toBe(401)
    expect((await get(`/${small.modelId}`)).status).toBe(405)
    for (const path of ['/..%2f..%2fbridge.sqlite', '/nothing', '/tokenizer'])
      expect((await get(`/${small.modelId}${path}`)).status).toBe(404)
  })
})

describe('an agent that is killed while it installs', () => {
  let server: Server
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })

  it('resumes the download after the last byte that it has stored', { timeout: 60_000 }, async () => {
    await using world = await startAgentWorld()
    const jobs = jobsAt(world)
    const [large] = [...small.files].sort((a, b) => b.bytes - a.bytes)
    const ranges: (string | undefined)[] = []
    let onHalfSent = () => {}
    const half = new Promise<void>((resolve) => {
      onHalfSent = resolve
    })
    server = createServer(({ url, headers: { range } }, response) => {
      const body = readFileSync(join(slm, url!))
      const isLarge = url === `/${large!.path}`
      if (isLarge) ranges.push(range)
      if (isLarge && range === undefined) {
        response.writeHead(200, { 'content-length': body.length })
        response.write(body.subarray(0, body.length >> 1), () => onHalfSent())
        return
      }
      const from = Number(/\d+/.exec(range ?? '')?.[0] ?? 0)
      const head = from === 0 ? {} : { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` }
      response.writeHead(from === 0 ? 200 : 206, head).end(body.subarray(from))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const run = [
      'agent',
      'run',
      '--id',
      'nano',
      '--bundle',
      world.bundle,
      '--state-dir',
      join(world.dir, 'nano'),
      '--bundle-source',
      url,
    ]
    const agent = () =>
      startBrim([...run, '--api-port', '0', '--bridge', world.bridge.mqttUrl, '--threads', '1'], { env: process.env })
    const first = await agent()
    await isKnown(world.bridge, 'nano')
    const id = await jobs.submit({ kind: 'bundle.install', input: { ...smallVersion, url }, device: 'nano' })
    await half
    const partial = join(world.dir, 'nano', 'bundles', '.partial')
    const downloadedBytes = () => {
      const [name] = existsSync(partial) ? readdirSync(partial) : []
      const path = join(partial, name ?? '', large!.path)
      return name !== undefined && existsSync(path) ? statSync(path).size : 0
    }
    await expect.poll(downloadedBytes).toBe(large!.bytes >> 1)
    process.kill(first.pid, 'SIGKILL')
    await first.stop()
    const second = await agent()
    try {
      expect(await jobs.ended(id)).toMatchObject({ state: 'SUCCEEDED', attempt: 2, failures: { interrupted: 1 } })
      expect(ranges).toEqual([undefined, `bytes=${large!.bytes >> 1}-`])
    } finally {
      await second.stop()
    }
  })
})
