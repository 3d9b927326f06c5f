import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { nowIso } from '../../core/base/clock.ts'
import { type DayCount, noQuota, type Quota } from '../../core/policy/quota/quota.ts'
import type { EnrolRequest } from '../../core/protocol/identity.ts'
import { openDatabase } from '../../core/store/open-database.ts'
import type { KeyRole } from './access.ts'
import { type DeviceIdentity, judgeEnrolment, judgeSession, type Refused, type TokenRecord } from './rules.ts'

const migrations = [
  `CREATE TABLE enrol_tokens (
    id TEXT PRIMARY KEY,
    secret_hash BLOB NOT NULL UNIQUE,
    device_group TEXT NOT NULL,
    uses_left INTEGER NOT NULL CHECK (uses_left >= 0),
    approve INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    revoked_at TEXT
  ) STRICT;
  CREATE TABLE identities (
    device TEXT PRIMARY KEY,
    device_group TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'revoked')),
    public_key TEXT NOT NULL UNIQUE,
    token_id TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    hardware TEXT,
    clone TEXT
  ) STRICT;
  CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
  ) STRICT;`,
  `CREATE TABLE keys (
    id TEXT PRIMARY KEY,
    secret_hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at TEXT NOT NULL,
    revoked_at TEXT
  ) STRICT`,
  "UPDATE keys SET role = CASE role WHEN 'submitter' THEN 'operator' ELSE 'viewer' END",
  `ALTER TABLE keys ADD COLUMN requests_per_minute INTEGER;
  ALTER TABLE keys ADD COLUMN jobs_per_day INTEGER;
  CREATE TABLE key_usage (
    key_id TEXT PRIMARY KEY REFERENCES keys (id),
    day TEXT NOT NULL,
    jobs INTEGER NOT NULL
  ) STRICT;
  ALTER TABLE audit ADD COLUMN origin TEXT;
  ALTER TABLE audit ADD COLUMN outcome TEXT NOT NULL DEFAULT 'ok';
  UPDATE audit SET outcome = 'refused' WHERE action LIKE '%.refused'`,
]

/** Of the audit log, about 200 MB: then the oldest go. */
const usualAuditLines = 1_000_000

/** Who did something: on the bridge's own machine, or from the address that a request came from. */
export type Actor = string | { readonly who: string; readonly from: string }

export interface AuditRecord {
  readonly at: string
  /** `operator:<user>` of the bridge's machine, `key:<name>/<id>`, `device:<id>`, or `anyone` where nobody is asked. */
  readonly actor: string
  /** Address that the request came from; null: done on the bridge's machine, or not known. */
  readonly from: string | null
  /** `token.create`, `device.revoke`, `job.submit`, …; the method and path where it has no name. */
  readonly action: string
  readonly subject: string
  readonly outcome: 'ok' | 'refused' | 'failed'
  /** JSON. */
  readonly detail: string
}

export interface AuditEntry extends Pick<AuditRecord, 'action' | 'subject' | 'outcome'> {
  readonly actor: Actor
  /** What JSON can say. */
  readonly detail: unknown
}

/** What a person or a program is let in with. */
export interface KeyRecord extends Quota {
  readonly id: string
  readonly name: string
  readonly role: KeyRole
  readonly createdAt: string
  readonly revokedAt: string | null
}

const keyPrefix = 'brim-key-1.'

export interface NewToken {
  readonly group: string
  readonly uses: number
  readonly expiresS: number
  readonly approve: boolean
}

/**
 * Tokens, devices and the audit log in a database of their own, which the commands of an operator on the bridge's machine
 * open beside the bridge that runs. Every change and its line in the audit log are one transaction.
 */
export interface IdentityStore {
  /** @returns the secret, which is kept nowhere */
  createToken(actor: Actor, wish: NewToken): { token: TokenRecord; secret: string }
  tokens(): TokenRecord[]
  /** @returns whether there was such a token */
  revokeToken(actor: Actor, id: string): boolean
  /** The signature has been checked. @param from address that it came from */
  enrol(
    request: Pick<EnrolRequest, 'device' | 'publicKey' | 'token' | 'hardware'>,
    from: string,
  ): { kind: 'enrolled'; device: DeviceIdentity } | Refused
  /** The signature has been checked. @param from address that it came from */
  openSession(device: string, hardware: string | undefined, from: string): { kind: 'granted' } | Refused
  device(id: string): DeviceIdentity | undefined
  devices(): DeviceIdentity[]
  /** Those that may not connect: pending and revoked. */
  denied(): ReadonlySet<string>
  /** What is known of its machine is forgotten: the next that connects is it. @returns whether there is such a device */
  approve(actor: Actor, device: string): boolean
  /** @returns whether there is such a device */
  revoke(actor: Actor, device: string): boolean
  /** @returns the key, which is kept nowhere */
  createKey(actor: Actor, name: string, role: KeyRole, quota?: Quota): { id: string; key: string }
  keys(): KeyRecord[]
  /** @returns whether there was such a key */
  revokeKey(actor: Actor, id: string): boolean
  /** That key, where it is a good one. */
  keyOf(secret: string): KeyRecord | undefined
  /** What the key has had taken in last. */
  jobsOf(keyId: string): DayCount | undefined
  countJobs(keyId: string, count: DayCount): void
  /** One transaction. */
  record(entries: readonly AuditEntry[]): void
  /** The latest first. */
  audit(limit: number): AuditRecord[]
  close(): void
}

/** @throws BrimError STORE_FAILED */
export function openIdentityStore(stateDir: string, mostAuditLines = usualAuditLines): IdentityStore {
  const store = openDatabase(join(stateDir, 'identity.sqlite'), migrations)
  const tokenColumns = `id, device_group AS "group", uses_left AS usesLeft, approve, created_at AS createdAt,
    expires_at AS expiresAt, revoked_at AS revokedAt`
  const deviceColumns = `device, device_group AS "group", status, public_key AS publicKey, token_id AS tokenId,
    enrolled_at AS enrolledAt, hardware, clone`
  type TokenRow = Omit<TokenRecord, 'approve'> & { approve: number }
  const tokenOf = (row: TokenRow): TokenRecord => ({ ...row, approve: row.approve === 1 })

  const insertToken = store.prepare(`INSERT INTO enrol_tokens
    (id, secret_hash, device_group, uses_left, approve, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const tokenById = store.prepare<[string], TokenRow>(`SELECT ${tokenColumns} FROM enrol_tokens WHERE id = ?`)
  const tokenBySecret = store.prepare<[Buffer], TokenRow>(`SELECT ${tokenColumns} FROM enrol_tokens WHERE secret_hash = ?`)
  const allTokens = store.prepare<[], TokenRow>(`SELECT ${tokenColumns} FROM enrol_tokens ORDER BY created_at, id`)
  const voidToken = store.prepare('UPDATE enrol_tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?')
  const useToken = store.prepare('UPDATE enrol_tokens SET uses_left = uses_left - 1 WHERE id = ?')
  const byName = store.prepare<[string], DeviceIdentity>(`SELECT ${deviceColumns} FROM identities WHERE device = ?`)
  const byKey = store.prepare<[string], DeviceIdentity>(`SELECT ${deviceColumns} FROM identities WHERE public_key = ?`)
  const allDevices = store.prepare<[], DeviceIdentity>(`SELECT ${deviceColumns} FROM identities ORDER BY device`)
  const notApproved = store.prepare<[], { device: string }>("SELECT device FROM identities WHERE status <> 'approved'")
  const putDevice = store.prepare(`INSERT OR REPLACE INTO identities
    (device, device_group, status, public_key, token_id, enrolled_at) VALUES (?, ?, ?, ?, ?, ?)`)
  const approveDevice = store.prepare("UPDATE identities SET status = 'approved', hardware = NULL, clone = NULL WHERE device = ?")
  const revokeDevice = store.prepare("UPDATE identities SET status = 'revoked' WHERE device = ?")
  const bindHardware = store.prepare('UPDATE identities SET hardware = ? WHERE device = ?')
  const nameClone = store.prepare('UPDATE identities SET clone = ? WHERE device = ?')
  const insertKey = store.prepare(`INSERT INTO keys
    (id, secret_hash, name, role, created_at, requests_per_minute, jobs_per_day) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const voidKey = store.prepare('UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?')
  const keyColumns = `id, name, role, created_at AS createdAt, revoked_at AS revokedAt,
    requests_per_minute AS requestsPerMinute, jobs_per_day AS jobsPerDay`
  const goodKey = store.prepare<[Buffer], KeyRecord>(
    `SELECT ${keyColumns} FROM keys WHERE secret_hash = ? AND revoked_at IS NULL`,
  )
  const allKeys = store.prepare<[], KeyRecord>(`SELECT ${keyColumns} FROM keys ORDER BY created_at, id`)
  const usage = store.prepare<[string], DayCount>('SELECT day, jobs FROM key_usage WHERE key_id = ?')
  const putUsage = store.prepare('INSERT OR REPLACE INTO key_usage (key_id, day, jobs) VALUES (?, ?, ?)')
  const note = store.prepare(`INSERT INTO audit
    (at, actor, origin, action, subject, outcome, detail) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  const latest = store.prepare<[number], AuditRecord>(
    'SELECT at, actor, origin AS "from", action, subject, outcome, detail FROM audit ORDER BY id DESC LIMIT ?',
  )
  const add = ({ actor, action, subject, outcome, detail }: AuditEntry) => {
    const { who, from } = typeof actor === 'string' ? { who: actor, from: null } : actor
    note.run(nowIso(), who, from, action, subject, outcome, JSON.stringify(detail))
  }
  const log = (actor: Actor, action: string, subject: string, detail: unknown = {}) =>
    add({ actor, action, subject, outcome: 'ok', detail })

  const forget = store.prepare(`DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ${mostAuditLines}`)
  const record = store.transaction((entries: readonly AuditEntry[]) => {
    entries.forEach(add)
    forget.run()
  })
  const createToken = store.transaction((actor: Actor, { group, uses, expiresS, approve }: NewToken) => {
    const secret = randomBytes(32)
    const id = randomBytes(4).toString('hex')
    const [now, until] = [new Date(), new Date(Date.now() + expiresS * 1_000)]
    insertToken.run(id, hashOf(secret), group, uses, approve ? 1 : 0, now.toISOString(), until.toISOString())
    log(actor, 'token.create', id, { group, uses, expiresAt: until.toISOString(), approve })
    return { token: tokenOf(tokenById.get(id)!), secret: secret.toString('base64url') }
  })
  const revokeToken = store.transaction((actor: Actor, id: string) => {
    const found = voidToken.run(nowIso(), id).changes > 0
    if (found) log(actor, 'token.revoke', id)
    return found
  })
  const createKey = store.transaction((actor: Actor, name: string, role: KeyRole, quota: Quota) => {
    const [id, secret] = [randomBytes(4).toString('hex'), randomBytes(32)]
    const { requestsPerMinute, jobsPerDay } = quota
    insertKey.run(id, hashOf(secret), name, role, nowIso(), requestsPerMinute, jobsPerDay)
    log(actor, 'key.create', id, { name, role, requestsPerMinute, jobsPerDay })
    return { id, key: keyPrefix + secret.toString('base64url') }
  })
  const revokeKey = store.transaction((actor: Actor, id: string) => {
    const found = voidKey.run(nowIso(), id).changes > 0
    if (found) log(actor, 'key.revoke', id)
    return found
  })
  type Enrolling = Parameters<IdentityStore['enrol']>
  const enrol = store.transaction(({ device, publicKey, hardware, token: secret }: Enrolling[0], from: string) => {
    const actor = { who: `device:${device}`, from }
    const row = tokenBySecret.get(hashOf(Buffer.from(secret, 'base64url')))
    const token = row && tokenOf(row)
    const [named, keyed] = [byName.get(device), byKey.get(publicKey)]
    const verdict = judgeEnrolment({ device, publicKey, hardware, token, named, keyed }, Date.now())
    if (verdict.kind === 'refused') {
      const detail = { token: token?.id ?? null, why: verdict.message }
      add({ actor, action: 'device.enroll.refused', subject: device, outcome: 'refused', detail })
      return verdict
    }
    if (verdict.kind === 'enrol') {
      const { id, group, approve } = token!
      useToken.run(id)
      putDevice.run(device, group, approve ? 'approved' : 'pending', publicKey, id, nowIso())
      log(actor, 'device.enroll', device, { token: id, group, approve, publicKey })
    }
    return { kind: 'enrolled' as const, device: byName.get(device)! }
  })
  const openSession = store.transaction((device: string, hardware: string | undefined, from: string) => {
    const known = byName.get(device)
    const verdict = judgeSession(device, known, hardware)
    if (verdict.kind === 'refused') {
      // Said once for each machine: it asks again and again.
      if (verdict.code === 'DEVICE_CLONED' && hardware !== undefined && known?.clone !== hardware) {
        nameClone.run(hardware, device)
        log({ who: `device:${device}`, from }, 'device.cloned', device, { first: known?.hardware, other: hardware })
      }
      return verdict
    }
    if (verdict.bind) bindHardware.run(hardware, device)
    return { kind: 'granted' as const }
  })
  const change = (statement: { run(device: string): { changes: number } }, action: string) =>
    store.transaction((actor: Actor, device: string) => {
      const found = statement.run(device).changes > 0
      if (found) log(actor, action, device)
      return found
    })
  const [approve, revoke] = [change(approveDevice, 'device.approve'), change(revokeDevice, 'device.revoke')]
  return {
    createToken: (actor, wish) => createToken.immediate(actor, wish),
    tokens: () => allTokens.all().map(tokenOf),
    revokeToken: (actor, id) => revokeToken.immediate(actor, id),
    enrol: (request, from) => enrol.immediate(request, from),
    openSession: (device, hardware, from) => openSession.immediate(device, hardware, from),
    device: (id) => byName.get(id),
    devices: () => allDevices.all(),
    denied: () => new Set(notApproved.all().map(({ device }) => device)),
    approve: (actor, device) => approve.immediate(actor, device),
    revoke: (actor, device) => revoke.immediate(actor, device),
    createKey: (actor, name, role, quota = noQuota) => createKey.immediate(actor, name, role, quota),
    keys: () => allKeys.all(),
    revokeKey: (actor, id) => revokeKey.immediate(actor, id),
    keyOf: (secret) =>
      secret.startsWith(keyPrefix) ? goodKey.get(hashOf(Buffer.from(secret.slice(keyPrefix.length), 'base64url'))) : undefined,
    jobsOf: (keyId) => usage.get(keyId),
    countJobs: (keyId, { day, jobs }) => putUsage.run(keyId, day, jobs),
    record: (entries) => record.immediate(entries),
    audit: (limit) => latest.all(limit),
    close: () => store.close(),
  }
}

/** Secrets are 256 random bits: there is nothing to guess, so a plain hash hides them. */
const hashOf = (secret: Buffer): Buffer => createHash('sha256').update(secret).digest()
