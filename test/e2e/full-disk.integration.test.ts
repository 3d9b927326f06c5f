import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Agent, startAgent } from '../../agent/agent.ts'
import { openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { jobTables } from '../../cloud-bridge/queue/job-tables.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import type { FleetStatus } from '../../core/wire/protocol/http/devices.ts'
import type { JobDetails } from '../../core/wire/protocol/http/jobs.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge, type TestBridge } from '../support/bridge.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'
import { mountMissing, type SmallDisk, smallDisk } from '../support/small-disk.ts'
import { tempDir } from '../support/temp-dir.ts'

const missing = mountMissing()
if (missing !== undefined) console.log(`skipped: full disk: ${missing}`)

const dir = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(dir.path, { adapter: false })
})

let disk: SmallDisk
let key: string
beforeEach(() => {
  key = ''
  if (missing === undefined) disk = smallDisk(24)
})
afterEach(() => disk?.[Symbol.dispose]())

const openBridge = () => startTestBridge({ bundle, stateDir: disk.path })
async function request<T>({ httpUrl }: TestBridge, path: string, body?: object): Promise<{ status: number; body: T }> {
  const headers = { ...(key && { authorization: `Bearer ${key}` }), 'content-type': 'application/json' }
  const response = await fetch(`${httpUrl}${path}`, {
    headers,
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
  })
  return { status: response.status, body: (await response.json()) as T }
}
const submit = (bridge: TestBridge) =>
  request<{ id: string; error?: object }>(bridge, '/v1/jobs', { kind: 'slm.generate', input: { prompt: 'Is it far?' } })
const problems = async (bridge: TestBridge) =>
  (await request<FleetStatus>(bridge, '/v1/fleet')).body.problems.map(({ kind }) => kind)
const jobs = async (bridge: TestBridge) =>
  (await request<{ jobs: { id: string }[] }>(bridge, '/v1/jobs')).body.jobs.map(({ id }) => id)
const answers = async (bridge: TestBridge) =>
  (await request(bridge, '/v1/completions', { model: 'tiny-llama', prompt: 'Where', max_tokens: 2 })).status

function createKey(): void {
  const identities = openIdentityStore(disk.path)
  key = identities.createKey('operator:test', 'test', 'operator').key
  identities.close()
}

describe.skipIf(missing !== undefined)('a bridge on a full disk', () => {
  it('refuses jobs with STORAGE_FULL, says so, and takes them again once there is space', async () => {
    createKey()
    await using bridge = await openBridge()
    const before = await submit(bridge)
    expect(before.status).toBe(202)
    disk.fill()
    const refused = { code: 'STORAGE_FULL', hint: expect.stringContaining('free space') }
    expect(await submit(bridge)).toMatchObject({ status: 507, body: { error: refused } })
    expect(await problems(bridge)).toEqual(['storage-full'])
    expect(await jobs(bridge)).toEqual([before.body.id])
    expect(await answers(bridge)).toBe(200)
    disk.free()
    await expect.poll(async () => (await submit(bridge)).status).toBe(202)
    expect(await problems(bridge)).toEqual([])
  })

  it('starts, shows what it has, answers, and says what is wrong', async () => {
    createKey()
    const before = await openBridge()
    const { body } = await submit(before)
    await before.close()
    const store = openDatabase(join(disk.path, 'jobs.sqlite'), jobTables)
    store.exec(`UPDATE jobs SET state = 'SENT', attempt = 1, holder = 'a', devices = '["a"]'`)
    store.close()
    disk.fill()
    const bridge = await openBridge()
    expect(await jobs(bridge)).toEqual([body.id])
    expect(await problems(bridge)).toEqual(['storage-full'])
    expect(await submit(bridge)).toMatchObject({ status: 507, body: { error: { code: 'STORAGE_FULL' } } })
    expect(await answers(bridge)).toBe(200)
    disk.free()
    await expect.poll(async () => (await submit(bridge)).status).toBe(202)
    expect(await problems(bridge)).toEqual([])
    await bridge.close()
    // From its next start on, other processes can open its databases again.
    await using next = await openBridge()
    createKey()
    expect(await jobs(next)).toContain(body.id)
  })

  it('names the reason where it has never started there', async () => {
    disk.fill()
    await expect(openBridge()).rejects.toMatchObject({ code: 'STORAGE_FULL' })
  })
})

describe.skipIf(missing !== undefined)('an agent on a full disk', () => {
  let bridge: TestBridge
  beforeEach(async () => {
    bridge = await startTestBridge({ bundle, stateDir: join(dir.path, `bridge-${disk.path.replaceAll('/', '-')}`) })
  })
  afterEach(() => bridge?.close())

  const open = () =>
    startAgent({ id: 'orin', bundle, bridges: [bridge.mqttUrl], apiPort: 0, stateDir: disk.path, logLevel: 'silent' })
  const failureOf = async ({ apiUrl }: Agent) =>
    ((await (await fetch(`${apiUrl}/health`)).json()) as { storageFailure: string | null }).storageFailure
  const device = async () => (await request<FleetStatus>(bridge, '/v1/fleet')).body.devices[0]
  const jobOf = async (id: string) => (await request<JobDetails>(bridge, `/v1/jobs/${id}`)).body

  it('starts, answers, says what is wrong, is sent no jobs, and gets them once there is space', async () => {
    await (await open()).close()
    disk.fill()
    const agent = await open()
    try {
      expect(await failureOf(agent)).toContain('full')
      await expect.poll(device).toMatchObject({ state: 'ready', problems: [{ kind: 'disk-full' }] })
      const response = await postJson(`${agent.apiUrl}/v1/completions`, { prompt: 'Where', max_tokens: 2 })
      expect(response.status).toBe(200)
      const { body } = await request<{ id: string }>(bridge, '/v1/jobs', { kind: 'profile', device: 'orin', input: {} })
      await systemClock.sleep(500)
      expect(await jobOf(body.id)).toMatchObject({ state: 'QUEUED', attempt: 0 })
      disk.free()
      await expect.poll(async () => (await jobOf(body.id)).state).toBe('SUCCEEDED')
      expect(await failureOf(agent)).toBeNull()
    } finally {
      await agent.close()
    }
  })
})
