import { nowIso } from '../../core/kit/base/clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { type DayCount, noQuota, type Quota } from '../../core/policy/quota/quota.ts'
import type { KeyRecord, KeyRole } from '../../core/wire/protocol/http/admin.ts'
import { type Actor, type AuditChange, auditedChange } from './audit-log.ts'
import { bytesOf } from './base64url.ts'
import { hashOf, newSecret } from './secrets.ts'

const keyPrefix = 'brim-key-1.'

/** API keys of people and programs, and the jobs they have submitted today. */
export interface KeyStore {
  /** @returns the key, of which only the hash is stored */
  createKey(actor: Actor, name: string, role: KeyRole, quota?: Quota, expiresS?: number | null): CreatedKey
  keys(): KeyRecord[]
  /** @returns whether the key exists */
  revokeKey(actor: Actor, id: string): boolean
  /** @returns undefined where the key is unknown, revoked or expired */
  keyOf(text: string): KeyRecord | undefined
  /** @returns undefined where there is no such key, or it is revoked or expired */
  validKey(id: string): KeyRecord | undefined
  /** Jobs of the latest day on which the key has submitted any. */
  jobsOf(keyId: string): DayCount | undefined
  countJobs(keyId: string, count: DayCount): void
}

interface CreatedKey extends Pick<KeyRecord, 'id' | 'expiresAt'> {
  readonly key: string
}

export function openKeyStore(store: Store, audit: AuditChange): KeyStore {
  const columns = `id, name, role, created_at AS createdAt, expires_at AS expiresAt, revoked_at AS revokedAt,
    requests_per_minute AS requestsPerMinute, jobs_per_day AS jobsPerDay`
  const insert = store.prepare(`INSERT INTO keys
    (id, secret_hash, name, role, created_at, expires_at, requests_per_minute, jobs_per_day) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
  const markRevoked = store.prepare('UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?')
  const valid = `SELECT ${columns} FROM keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)`
  const bySecret = store.prepare<[string, Buffer], KeyRecord>(`${valid} AND secret_hash = ?`)
  const byId = store.prepare<[string, string], KeyRecord>(`${valid} AND id = ?`)
  const all = store.prepare<[], KeyRecord>(`SELECT ${columns} FROM keys ORDER BY created_at, id`)
  const usage = store.prepare<[string], DayCount>('SELECT day, jobs FROM key_usage WHERE key_id = ?')
  const putUsage = store.prepare('INSERT OR REPLACE INTO key_usage (key_id, day, jobs) VALUES (?, ?, ?)')

  const create = store.transaction((actor: Actor, name: string, role: KeyRole, quota: Quota, expiresS: number | null) => {
    const { id, secret } = newSecret()
    const { requestsPerMinute, jobsPerDay } = quota
    const createdAt = new Date()
    const expiresAt = expiresS === null ? null : new Date(createdAt.getTime() + expiresS * 1_000).toISOString()
    insert.run(id, hashOf(secret), name, role, createdAt.toISOString(), expiresAt, requestsPerMinute, jobsPerDay)
    audit(actor, 'key.create', id, { name, role, expiresAt, requestsPerMinute, jobsPerDay })
    return { id, key: keyPrefix + secret.toString('base64url'), expiresAt }
  })
  return {
    createKey: (actor, name, role, quota = noQuota, expiresS = null) => create.immediate(actor, name, role, quota, expiresS),
    keys: () => all.all(),
    revokeKey: auditedChange(store, audit, 'key.revoke', (id) => markRevoked.run(nowIso(), id)),
    keyOf(text) {
      const secret = text.startsWith(keyPrefix) ? bytesOf(text.slice(keyPrefix.length)) : undefined
      return secret && bySecret.get(nowIso(), hashOf(secret))
    },
    validKey: (id) => byId.get(nowIso(), id),
    jobsOf: (keyId) => usage.get(keyId),
    countJobs: (keyId, { day, jobs }) => void putUsage.run(keyId, day, jobs),
  }
}
