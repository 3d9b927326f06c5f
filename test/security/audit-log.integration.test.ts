import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { adminRoutes } from '../../cloud-bridge/api/admin.ts'
import { openAuditExport } from '../../cloud-bridge/identity/audit-export.ts'
import { type Authorizer, createAuthorizer } from '../../cloud-bridge/identity/authorizer.ts'
import { Quotas } from '../../cloud-bridge/identity/quotas.ts'
import { type IdentityStore, openIdentityStore } from '../../cloud-bridge/identity/store.ts'
import { identityTables } from '../../cloud-bridge/identity/tables.ts'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { refusals } from '../../lab/attack/http-floods.ts'
import { fakeClock } from '../support/fake-clock.ts'
import { startTestHttp, type TestHttp } from '../support/http.ts'
import { recordingLogger } from '../support/recording-logger.ts'
import { fresh } from '../support/shared.ts'
import { silentLogger } from '../support/silent-logger.ts'
import { tempDir } from '../support/temp-dir.ts'

const requestsPerMinute = 50
const dir = fresh(tempDir)
let store: IdentityStore
let authorizer: Authorizer
let http: TestHttp

beforeEach(async () => {
  store = openIdentityStore(dir.path, BridgeLimits.parse({ auditRefusals: 10 }))
  const gate = { authRequired: true, subjectOf: (key: string) => roleOf(key), isPresent: () => true }
  const roleOf = (text: string) => {
    const key = store.keyOf(text)
    return key && `${key.role}-${key.name}`
  }
  const quotas = new Quotas(
    store,
    { keyRequestsPerMinute: requestsPerMinute, deviceAnswersPerMinute: 120 },
    systemClock,
    Date.now,
  )
  authorizer = createAuthorizer({ gate, store, quotas, clock: systemClock, logger: silentLogger() })
  http = await startTestHttp([adminRoutes({ store, quotas, bridge: 'bridge-1', fleet: 'default' })], { authorizer })
})
afterEach(async () => {
  await http.close()
  await authorizer.close()
  store.close()
})

describe('a viewer who is refused again and again', () => {
  it('fills one line of the audit log per minute, and is limited without a quota of its own', async () => {
    const { key } = store.createKey('operator:test', 'vera', 'viewer')
    const target = { httpUrl: http.url, mqttUrl: '', dataUrl: '', apiKey: key }
    const done = await refusals.run(target, AbortSignal.timeout(2_000))
    expect(done.refused).toBeGreaterThanOrEqual(requestsPerMinute)
    expect(done.limited).toBeGreaterThan(0)
    await authorizer.close()
    const lines = store.audit(10_000)
    expect(lines.at(-1)).toMatchObject({ action: 'key.create', count: 1 })
    const refused = lines.slice(0, -1)
    // The attack may last from one minute into the next.
    expect(refused.length).toBeLessThanOrEqual(2)
    expect(refused.reduce((sum, { count }) => sum + count, 0)).toBe(done.refused)
    for (const { action, subject } of refused) {
      expect(action).toBe('POST /v1/admin/devices/:id/approve')
      expect(subject.length).toBeLessThanOrEqual(200)
    }
  })
})

const refusal = (n: number) => ({
  actor: { who: `key:vera-${n}/0`, from: '127.0.0.1' },
  action: 'POST /v1/admin/keys',
  subject: '/v1/admin/keys',
  outcome: 'refused' as const,
  detail: {},
})

describe('the audit log', () => {
  it('deletes refusals for the sake of refusals only', () => {
    const { id } = store.createKey('operator:test', 'vera', 'viewer')
    store.record([{ ...refusal(0), action: 'job.submit', outcome: 'ok' }])
    for (let n = 0; n < 50; n++) store.record([refusal(n)])
    const lines = store.audit(100)
    expect(lines).toHaveLength(12)
    // Lines of one millisecond are in no order: they come from tables of their own.
    const oldest = Object.fromEntries(lines.slice(-2).map(({ action, subject }) => [action, subject]))
    expect(oldest).toEqual({ 'job.submit': expect.any(String), 'key.create': id })
  })

  it('is bounded although nothing but enrolments is refused', () => {
    const request = { publicKey: 'A'.repeat(43), token: 'wrong', hardware: undefined }
    for (let n = 0; n < 30; n++) store.enrol({ ...request, device: `device-${n}` }, '192.0.2.7')
    expect(store.audit(100)).toHaveLength(10)
  })

  it('loses no line where a refusal of the last minute is written after one of this minute', async () => {
    const file = join(dir.path, 'audit.jsonl')
    const exportAll = () => openAuditExport({ file, store, bridge: 'b', clock: fakeClock(), logger: silentLogger() }).close()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-01-01T00:01:00.050Z') })
    try {
      store.record([{ ...refusal(0), action: 'this minute' }])
      store.record([{ ...refusal(0), action: 'last minute', at: '2026-01-01T00:00:59.990Z' }])
      await exportAll()
      vi.setSystemTime('2026-01-01T00:02:10.000Z')
      await exportAll()
    } finally {
      vi.useRealTimers()
    }
    expect(readFileSync(file, 'utf8').match(/(this|last) minute(?=","subject)/g)).toEqual(['last minute', 'this minute'])
  })

  it('is appended to a file as it grows, also by another process, and after the file was renamed', async () => {
    const file = join(dir.path, 'audit.jsonl')
    const lines = (path = file) =>
      readFileSync(path, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as { action: string; bridge: string })
    const clock = fakeClock()
    const log = openAuditExport({ file, store, bridge: 'bridge-1', clock, logger: silentLogger() })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    const cli = openIdentityStore(dir.path)
    cli.createKey('operator:test', 'vera', 'viewer')
    cli.close()
    store.record([{ ...refusal(0), action: 'job.submit', outcome: 'ok' }, refusal(0)])
    await clock.advance(1_000)
    // A refusal follows when its minute is over.
    expect(lines()).toMatchObject([
      { action: 'key.create', bridge: 'bridge-1' },
      { action: 'job.submit', outcome: 'ok', from: '127.0.0.1', count: 1 },
    ])
    renameSync(file, `${file}.1`)
    await clock.advance(5_000)
    expect(existsSync(file)).toBe(false)
    store.revokeKey('operator:test', store.keys()[0]!.id)
    await log.close()
    expect(lines()).toMatchObject([{ action: 'key.revoke' }])
    // What was appended before a restart is not appended again.
    await openAuditExport({ file, store, bridge: 'bridge-1', clock, logger: silentLogger() }).close()
    expect(lines()).toHaveLength(1)
    expect(lines(`${file}.1`)).toHaveLength(2)
  })

  it('of an earlier release is kept: its refusals are counted by the minute, and displace nothing', () => {
    using old = tempDir()
    const database = new Database(join(old.path, 'identity.sqlite'))
    for (const sql of identityTables.slice(0, 4)) database.exec(sql)
    database.pragma('user_version = 4')
    const insert = database.prepare(
      "INSERT INTO audit (at, actor, action, subject, detail, origin, outcome) VALUES (?, 'a', ?, ?, '{}', ?, ?)",
    )
    insert.run('2026-01-01T00:00:00.000Z', 'key.create', 'k', null, 'ok')
    for (const second of [1, 2, 3])
      insert.run(`2026-01-01T00:00:0${second}.000Z`, 'POST /x', 'x'.repeat(9_000), '192.0.2.7', 'refused')
    database.close()
    const migrated = openIdentityStore(old.path)
    const lines = migrated.audit(10)
    migrated.close()
    expect(lines).toMatchObject([
      { action: 'POST /x', count: 3, from: '192.0.2.7', subject: 'x'.repeat(200) },
      { action: 'key.create', count: 1, from: null },
    ])
  })

  it('continues once its file can be written again, and reports the failure once', async () => {
    const [folder, clock, recorded] = [join(dir.path, 'logs'), fakeClock(), recordingLogger('error')]
    mkdirSync(folder)
    const file = join(folder, 'audit.jsonl')
    const log = openAuditExport({ file, store, bridge: 'b', clock, logger: recorded.logger })
    rmSync(folder, { recursive: true })
    store.createKey('operator:test', 'vera', 'viewer')
    await clock.advance(5_000)
    expect(recorded.lines.filter(({ msg }) => String(msg).startsWith('audit log not appended'))).toHaveLength(1)
    mkdirSync(folder)
    await clock.advance(1_000)
    expect(readFileSync(file, 'utf8')).toContain('key.create')
    await log.close()
  })

  it('is not started with a file that cannot be written', () => {
    const open = () => openAuditExport({ file: dir.path, store, bridge: 'b', clock: fakeClock(), logger: silentLogger() })
    expect(open).toThrow(expect.objectContaining({ code: 'TARGET_UNWRITABLE' }))
  })
})
