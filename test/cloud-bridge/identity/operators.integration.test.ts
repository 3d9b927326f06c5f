import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { enrol } from '../../../agent/identity/enrolment.ts'
import type { Bridge } from '../../../cloud-bridge/bridge.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import type { AuditLine } from '../../../core/wire/protocol/http/admin.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { runBrim } from '../../support/run-brim.ts'
import { fresh, shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const bundles = shared(tempDir)
let bundle: string
beforeAll(async () => {
  bundle = await buildTextBundle(bundles.path, { adapter: false })
})

const dir = fresh(tempDir)
let bridge: Bridge
beforeEach(async () => {
  bridge = await start()
})
afterEach(async () => {
  vi.useRealTimers()
  await bridge.close()
})

const bridgeDir = () => join(dir.path, 'bridge')
const start = (auth = true) => startTestBridge({ bundle, stateDir: bridgeDir(), auth })

/** A command of a person whose home directory is not the bridge's. */
const brimOf = (person: string, words: string[], stdin = '') =>
  runBrim(words, { env: { HOME: join(dir.path, person), USER: person }, stdin })
const at = (person: string) => {
  async function json<T>(words: string[], stdin = ''): Promise<T> {
    const { code, out, err } = await brimOf(person, [...words, '--json'], stdin)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    return JSON.parse(out) as T
  }
  return { json, brim: (...words: string[]) => brimOf(person, words) }
}
interface MadeKey {
  id: string
  key: string
}
/** Creates a key on the bridge's machine, as for the first admin. */
const createLocalKey = (name: string, role: string, ...quota: string[]) =>
  at('root').json<MadeKey>(['bridge', 'key', 'create', '--name', name, '--role', role, ...quota, '--state-dir', bridgeDir()])
/** @returns the commands of an operator who has logged in */
async function loggedIn(name: string, role: string, ...quota: string[]) {
  const { key } = await createLocalKey(name, role, ...quota)
  await at(name).json(['login', '--bridge', bridge.httpUrl], `${key}\n`)
  return { ...at(name), key }
}
const get = (path: string, key: string) => fetch(bridge.httpUrl + path, { headers: { authorization: `Bearer ${key}` } })
const post = (path: string, body: unknown, key?: string) =>
  postJson(bridge.httpUrl + path, body, { ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) })
const job = (key?: string) => ({ kind: 'slm.generate', input: { prompt: 'Hello' }, ...(key === undefined ? {} : { key }) })
const auditOf = async (operator: Awaited<ReturnType<typeof loggedIn>>) =>
  (await operator.json<{ audit: AuditLine[] }>(['bridge', 'audit'])).audit

describe('brim login', () => {
  it('stores a key that the bridge knows in a private file, and every command uses it', async () => {
    const sam = await loggedIn('sam', 'operator')
    const file = join(dir.path, 'sam/.config/brim/logins.json')
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(await sam.json(['whoami'])).toMatchObject({ name: 'sam', role: 'operator', bridge: 'bridge-1' })
    expect(await sam.json(['job', 'list'])).toEqual({ jobs: [] })
    expect(await sam.json(['device', 'list'])).toEqual({ devices: [] })
    expect(await sam.json(['logout'])).toEqual({ login: 'default', removed: true })
    expect(existsSync(file)).toBe(false)
    expect(await sam.brim('logout')).toMatchObject({ code: 1, err: expect.stringContaining('there is no current login') })
  })

  it('stores no key that is unknown or revoked', async () => {
    const { id, key } = await createLocalKey('sam', 'viewer')
    await at('root').json(['bridge', 'key', 'revoke', id, '--state-dir', bridgeDir()])
    for (const wrong of [key, 'brim-key-1.guess', 'two words', '']) {
      const refused = await brimOf('sam', ['login', '--bridge', bridge.httpUrl], wrong)
      expect(refused).toMatchObject({ out: '', err: expect.stringMatching(/NOT_AUTHORIZED|USAGE/) })
      expect(refused.err).not.toContain(wrong || 'nothing')
    }
    expect(existsSync(join(dir.path, 'sam'))).toBe(false)
  })

  it('stores several bridges by name, and sends a key only to its own bridge', async () => {
    const { key } = await createLocalKey('sam', 'viewer')
    const file = join(dir.path, 'key')
    writeFileSync(file, key, { mode: 0o600 })
    await at('sam').json(['login', '--bridge-url', bridge.httpUrl, '--key-file', file, '--name', 'prod'])
    await at('sam').json(['login', '--bridge-url', `${bridge.httpUrl}/`, '--key-file', file, '--name', 'lab'])
    for (const meant of [['--bridge', 'prod'], ['--bridge', 'lab'], ['--bridge', bridge.httpUrl], []])
      expect(await at('sam').json(['whoami', ...meant])).toMatchObject({ name: 'sam' })
    const elsewhere = bridge.httpUrl.replace('127.0.0.1', 'localhost')
    expect(await at('sam').brim('whoami', '--bridge', elsewhere)).toMatchObject({
      err: expect.stringContaining('NOT_AUTHORIZED'),
    })
    expect(await at('sam').brim('whoami', '--bridge', 'unknown')).toMatchObject({ code: 2 })
    await at('sam').json(['logout', '--name', 'lab'])
    expect(await at('sam').json(['whoami', '--bridge', 'prod'])).toMatchObject({ name: 'sam' })
  })

  it('refuses a key file that other users can read', async () => {
    const sam = await loggedIn('sam', 'viewer')
    const file = join(dir.path, 'sam/.config/brim/logins.json')
    chmodSync(file, 0o640)
    const refused = await sam.brim('whoami')
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringMatching(/readable by other users \(mode 0640\).*IDENTITY_INVALID/),
    })
    chmodSync(file, 0o600)
    writeFileSync(file, readFileSync(file, 'utf8').slice(9))
    expect(await sam.brim('whoami')).toMatchObject({ code: 1, err: expect.stringContaining('cannot be read') })
    const { key } = await createLocalKey('lax', 'viewer')
    const lax = join(dir.path, 'lax-key')
    writeFileSync(lax, key, { mode: 0o644 })
    expect(await brimOf('lax', ['login', '--bridge', bridge.httpUrl, '--key-file', lax])).toMatchObject({
      code: 2,
      err: expect.stringContaining(`chmod 600 ${lax}`),
    })
  })
})

describe('an admin on another machine', () => {
  it('invites, approves and revokes devices, creates and revokes keys, and all of it is audited', async () => {
    const ada = await loggedIn('ada', 'admin')
    const token = await ada.json<{ id: string; token: string; url: string }>(['bridge', 'token', 'create', '--group', 'lab'])
    expect(token.url).toBe(bridge.httpUrl)
    await enrol({ stateDir: join(dir.path, 'orin'), device: 'orin', token: token.token, replace: false })
    expect(await ada.json(['device', 'list'])).toMatchObject({
      devices: [{ id: 'orin', identity: { group: 'lab', status: 'pending' } }],
    })
    expect(await ada.json(['device', 'approve', 'orin'])).toMatchObject({ device: 'orin', status: 'approved' })
    expect((await ada.brim('device', 'revoke', 'orin')).out).toBe('device orin revoked\n')
    await ada.json(['bridge', 'token', 'revoke', token.id])
    expect(await ada.json(['bridge', 'token', 'list'])).toMatchObject({ tokens: [{ id: token.id, usesLeft: 0 }] })
    const made = await ada.json<MadeKey>(['bridge', 'key', 'create', '--name', 'ci', '--role', 'operator', '--jobs-per-day', '5'])
    expect((await get('/v1/jobs', made.key)).status).toBe(200)
    await ada.json(['bridge', 'key', 'revoke', made.id])
    expect((await get('/v1/jobs', made.key)).status).toBe(401)
    const { keys } = await ada.json<{ keys: object[] }>(['bridge', 'key', 'list'])
    expect(keys).toMatchObject([
      { name: 'ada', role: 'admin' },
      { name: 'ci', jobsPerDay: 5, revokedAt: expect.any(String) },
    ])
    expect(JSON.stringify(keys)).not.toContain(made.key)
    expect(await ada.brim('device', 'approve', 'no-such-device')).toMatchObject({
      code: 1,
      err: expect.stringContaining('IDENTITY_UNKNOWN'),
    })

    await expect
      .poll(async () => (await auditOf(ada)).map(({ action, subject, outcome }) => `${action} ${subject} ${outcome}`))
      .toEqual([
        'POST /v1/admin/devices/:id/approve /v1/admin/devices/no-such-device/approve refused',
        `key.revoke ${made.id} ok`,
        `key.create ${made.id} ok`,
        `token.revoke ${token.id} ok`,
        'device.revoke orin ok',
        'device.approve orin ok',
        'device.enroll orin ok',
        `token.create ${token.id} ok`,
        expect.stringMatching(/^key\.create .* ok$/),
      ])
    const [first, ...rest] = (await auditOf(ada)).reverse()
    expect(first).toMatchObject({ actor: 'operator:root', from: null })
    for (const { action, actor, from } of rest)
      expect({ actor, from }).toEqual({
        actor: action === 'device.enroll' ? 'device:orin' : expect.stringMatching(/^key:ada\/[0-9a-f]{8}$/),
        from: '127.0.0.1',
      })
    expect((await ada.brim('bridge', 'audit', '--limit', '3')).out).toMatch(
      /AT +ACTOR +FROM[\s\S]*key:ada.* 127\.0\.0\.1 .*refused/,
    )
  })

  it('needs the role admin, even at a bridge without authentication', async () => {
    const viewer = await loggedIn('vera', 'viewer')
    const operator = await loggedIn('olaf', 'operator')
    for (const person of [viewer, operator])
      for (const words of [
        ['bridge', 'token', 'list'],
        ['bridge', 'key', 'create', '--name', 'x', '--role', 'admin'],
        ['bridge', 'audit'],
        ['device', 'approve', 'orin'],
      ])
        expect(await person.brim(...words)).toMatchObject({ code: 1, out: '', err: expect.stringContaining('FORBIDDEN') })
    expect(await viewer.brim('job', 'submit', 'slm.generate', '--prompt', 'Hello')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/key vera has the role viewer; this needs operator or above \[FORBIDDEN\]/),
    })
    const ada = await loggedIn('ada', 'admin')
    await expect
      .poll(async () => (await auditOf(ada)).filter(({ outcome }) => outcome === 'refused').map(({ actor }) => actor.slice(0, 8)))
      .toEqual(['key:vera', 'key:olaf', 'key:olaf', 'key:vera', 'key:vera'])
    await bridge.close()
    bridge = await start(false)
    expect((await post('/v1/jobs', job())).status).toBe(202)
    const unknown = await post('/v1/admin/keys', { name: 'x', role: 'admin' })
    expect([unknown.status, unknown.headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
    expect((await post('/v1/admin/keys', { name: 'x', role: 'admin' }, operator.key)).status).toBe(403)
    expect((await post('/v1/admin/keys', { name: 'x', role: 'admin' }, ada.key)).status).toBe(200)
  })

  it('receives the wrong fields of a request, and 404 or 405 for unknown paths and methods', async () => {
    const { key } = await loggedIn('ada', 'admin')
    const refusals = [
      await post('/v1/admin/keys', { name: 'Not A Name', role: 'admin' }, key),
      await post('/v1/admin/keys', { name: 'x', role: 'king' }, key),
      await post('/v1/admin/tokens', { group: 'default', uses: 0, expiresS: 60, approve: true }, key),
      await post('/v1/admin/keys/00000000/revoke', {}, key),
      await post('/v1/admin/keys/00000000', {}, key),
      await get('/v1/admin/audit?limit=0', key),
    ]
    expect(refusals.map(({ status }) => status)).toEqual([400, 400, 400, 404, 404, 400])
  })

  it('works on the folder given by --state-dir, despite a login', async () => {
    const vera = await loggedIn('vera', 'viewer')
    expect(await vera.json(['bridge', 'token', 'list', '--state-dir', bridgeDir()])).toEqual({ tokens: [] })
    const both = await vera.brim('bridge', 'token', 'list', '--state-dir', bridgeDir(), '--bridge', bridge.httpUrl)
    expect(both).toMatchObject({ code: 2, err: expect.stringContaining('--state-dir') })
  })
})

describe('the audit log', () => {
  it('records every submission, cancellation and retry of a job with actor, address and outcome', async () => {
    const olaf = await loggedIn('olaf', 'operator')
    const { id } = await olaf.json<{ id: string }>(['job', 'submit', 'slm.generate', '--prompt', 'Hello'])
    await olaf.json(['job', 'cancel', id])
    const again = await olaf.json<{ id: string }>(['job', 'retry', id])
    await post('/v1/jobs', { jobs: [job('a'), job('a'), job('b')] }, olaf.key)
    expect((await post('/v1/jobs', { kind: 'unheard-of' }, olaf.key)).status).toBe(400)
    const ada = await loggedIn('ada', 'admin')
    const lines = async () => (await auditOf(ada)).filter(({ action }) => action.startsWith('job.')).reverse()
    await expect.poll(async () => (await lines()).length).toBe(5)
    expect(await lines()).toMatchObject([
      { action: 'job.submit', subject: id, outcome: 'ok', detail: { jobs: 1, new: 1, status: 202 } },
      { action: 'job.cancel', subject: id, outcome: 'ok' },
      { action: 'job.retry', subject: id, outcome: 'ok', detail: { newJob: again.id } },
      { action: 'job.submit', outcome: 'ok', detail: { jobs: 3, new: 2 } },
      { action: 'job.submit', outcome: 'refused', detail: { status: 400 } },
    ])
    for (const line of await lines())
      expect(line).toMatchObject({ actor: expect.stringMatching(/^key:olaf\//), from: '127.0.0.1' })
    expect(JSON.stringify(await auditOf(ada))).not.toContain('Hello')
  })
})

describe('the revocation of a key', () => {
  it('ends its streams within 5 s, and no others', async () => {
    const ada = await loggedIn('ada', 'admin')
    const made = await createLocalKey('olaf', 'operator')
    const { id } = (await (await post('/v1/jobs', job(), ada.key)).json()) as { id: string }
    const watch = async (key: string) => {
      const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' }
      return readSse((await fetch(`${bridge.httpUrl}/v1/jobs/${id}/events`, { headers })).body!)
    }
    const [cut, whole] = [await watch(made.key), await watch(ada.key)]
    const startedMs = performance.now()
    await ada.json(['bridge', 'key', 'revoke', made.id])
    await expect(cut.next()).rejects.toThrow()
    expect(performance.now() - startedMs).toBeLessThan(5_000)
    await ada.json(['job', 'cancel', id])
    expect((await whole.next()).value).toContain('canceled')
  })
})

describe('a quota', () => {
  it('of jobs per day covers batches, charges repeats once, reports the rest, and survives a restart', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 6, 1, 23, 0) })
    const { key } = await createLocalKey('ci', 'operator', '--jobs-per-day', '3')
    const left = async () => ((await (await get('/v1/whoami', key)).json()) as { quota: { jobsLeft: number } }).quota.jobsLeft
    expect((await post('/v1/jobs', { jobs: [job('a'), job('b')] }, key)).status).toBe(202)
    // A repeat after a lost response is not charged.
    expect((await post('/v1/jobs', { jobs: [job('a'), job('b')] }, key)).status).toBe(202)
    expect(await left()).toBe(1)
    expect((await post('/v1/jobs', { jobs: [job('c'), job('d')] }, key)).status).toBe(429)
    expect(await left()).toBe(1)
    await bridge.close()
    bridge = await start()
    expect(await left()).toBe(1)
    const submitted = await post('/v1/jobs', job('c'), key)
    const { id } = (await submitted.json()) as { id: string }
    await post(`/v1/jobs/${id}/cancel`, {}, key)
    for (const refused of [await post('/v1/jobs', job(), key), await post(`/v1/jobs/${id}/retry`, {}, key)]) {
      expect(refused.status).toBe(429)
      expect(refused.headers.get('retry-after')).toBe('3600')
      expect(await refused.json()).toMatchObject({
        error: { code: 'QUOTA_EXCEEDED', message: expect.stringContaining('3 jobs a day; 0 are left') },
      })
    }
    expect((await post('/v1/jobs', job('c'), key)).status).toBe(202)
    expect((await get('/v1/jobs', key)).status).toBe(200)
    vi.setSystemTime(Date.UTC(2026, 6, 2))
    expect(await left()).toBe(3)
    expect((await post('/v1/jobs', job(), key)).status).toBe(202)
  })

  it('of requests per minute counts every request of one key', async () => {
    const { key } = await createLocalKey('poller', 'viewer', '--requests-per-minute', '3')
    const other = await createLocalKey('other', 'viewer')
    const statuses = [
      await get('/v1/devices', key),
      await get('/v1/whoami', key),
      await get('/v1/jobs', key),
      await get('/v1/steps', key),
    ]
    expect(statuses.map(({ status }) => status)).toEqual([200, 200, 403, 429])
    expect(Number(statuses[3]!.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await get('/v1/steps', other.key)).status).toBe(200)
    expect((await fetch(`${bridge.httpUrl}/health`)).status).toBe(200)
  })
})
