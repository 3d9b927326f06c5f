import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rolloutRoutes } from '../../cloud-bridge/api/rollouts.ts'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import type { AuditLine } from '../../core/wire/protocol/http/admin.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { enrolDevice } from '../support/enrol-device.ts'
import { startTestHttp } from '../support/http.ts'
import { postJson } from '../support/post-json.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = tempDir()
let bridge: TestBridge
let store: IdentityStore
const keys: Record<string, string> = {}

beforeAll(async () => {
  const stateDir = join(dir.path, 'bridge')
  bridge = await startTestBridge({ stateDir, auth: true, upstream: { url: 'http://127.0.0.1:9/v1', model: 'none' } })
  store = openIdentityStore(stateDir)
  for (const role of ['viewer', 'operator', 'admin'] as const) keys[role] = store.createKey('operator:test', role, role).key
  await enrolDevice({ dir: dir.path, bridge }, store, 'orin')
})
afterAll(async () => {
  store.close()
  await bridge.close()
  dir[Symbol.dispose]()
})

async function post(role: string, path: string, body: unknown) {
  const response = await postJson(bridge.httpUrl + path, body, { authorization: `Bearer ${keys[role]}` })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const textOf = async (role: string, path: string) =>
  (await fetch(bridge.httpUrl + path, { headers: { authorization: `Bearer ${keys[role]}` } })).text()

const software = { version: '0.1.0', archiveSha256: 'a'.repeat(64), url: 'https://releases.example.com/old.tar.gz?api=s3cret' }
const job = { kind: 'software.install', device: 'orin', input: software }
const bundle = { modelId: 'a'.repeat(64), manifestSha256: 'b'.repeat(64), url: 'https://models.example.com/qwen' }
const downgrade = { kind: 'bundle.install', input: { ...bundle, allowDowngrade: true } }
const harmless = { kind: 'profile', device: 'orin', input: {} }

describe('an operator cannot install software on devices', () => {
  it.each([
    ['a job', '/v1/jobs', job],
    ['one job of a batch', '/v1/jobs', { jobs: [harmless, job] }],
    ['a rollout', '/v1/rollouts', { kind: 'software.install', input: software, selector: { devices: ['orin'] } }],
  ])('by %s', async (_, path, body) => {
    expect(await post('operator', path, body)).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' } } })
    expect((await post('admin', path, body)).status).toBe(202)
  })

  it.each([
    ['a job', '/v1/jobs', { ...downgrade, device: 'orin' }],
    ['a rollout', '/v1/rollouts', { ...downgrade, selector: { devices: ['orin'] } }],
  ])('and cannot make them go back to an older bundle, by %s', async (_, path, body) => {
    expect(await post('operator', path, body)).toMatchObject({ status: 403, body: { error: { code: 'FORBIDDEN' } } })
    expect((await post('admin', path, body)).status).toBe(202)
    const [line] = (JSON.parse(await textOf('admin', '/v1/admin/audit?limit=1')) as { audit: AuditLine[] }).audit
    expect(line).toMatchObject({ outcome: 'ok', detail: { allowDowngrade: true } })
  })

  it("by the retry of an admin's job", async () => {
    const { id } = (await post('admin', '/v1/jobs', job)).body
    expect((await post('operator', `/v1/jobs/${id}/cancel`, {})).status).toBe(200)
    expect((await post('operator', `/v1/jobs/${id}/retry`, {})).status).toBe(403)
    expect((await post('admin', `/v1/jobs/${id}/retry`, {})).status).toBe(202)
  })
})

it('a secret in the URL of an installation is shown to neither viewers nor operators', async () => {
  const { id } = (await post('admin', '/v1/jobs', job)).body
  const shown = [await textOf('viewer', '/v1/rollouts'), await textOf('operator', `/v1/jobs/${id}`)]
  for (const text of shown) {
    expect(text).toContain('https://releases.example.com/old.tar.gz?…')
    expect(text).not.toContain('s3cret')
  }
})

it('the retry of a rollout gives the devices the whole URL again', async () => {
  const rollout = { kind: 'bundle.install', input: { ...bundle, url: software.url }, pace: {} }
  let given: unknown
  const rollouts = {
    find: () => rollout,
    devices: () => [{ device: 'orin' }],
    create(submission: { input: unknown }) {
      given = submission.input
      return { ...rollout, id: 'again' }
    },
  }
  const fleet = { devices: () => [{ id: 'orin', state: 'ready', identity: null }] }
  const offered = { requireBundle: async () => {}, requireRelease: async () => {} }
  await using http = await startTestHttp([rolloutRoutes({ rollouts, fleet, ...offered } as never)])
  const response = await http.post('/v1/rollouts/first/retry', {})
  expect(await response.text()).not.toContain('s3cret')
  expect(given).toMatchObject({ url: software.url })
})
