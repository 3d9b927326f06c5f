import type { z } from 'zod'
import { nowIso } from '../../core/kit/base/clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import type { TokenRecord, TokenRequest } from '../../core/wire/protocol/http/admin.ts'
import { Labels } from '../../core/wire/protocol/http/labels.ts'
import { type Actor, type AuditChange, auditedChange } from './audit-log.ts'
import { bytesOf } from './base64url.ts'
import { hashOf, newSecret } from './secrets.ts'

/** One-time tokens for the enrolment of devices. */
export interface TokenStore {
  /** @returns the secret, of which only the hash is stored */
  createToken(actor: Actor, request: z.input<typeof TokenRequest>): { readonly token: TokenRecord; readonly secret: string }
  tokens(): TokenRecord[]
  /** @returns whether the token exists */
  revokeToken(actor: Actor, id: string): boolean
  /** For the enrolment transaction, as `use`. */
  bySecret(secret: string): TokenRecord | undefined
  use(id: string): void
}

export function openTokenStore(store: Store, audit: AuditChange): TokenStore {
  const columns = `id, device_group AS "group", uses_left AS usesLeft, approve, labels, created_at AS createdAt,
    expires_at AS expiresAt, revoked_at AS revokedAt`
  type Row = Omit<TokenRecord, 'approve' | 'labels'> & { approve: number; labels: string }
  const tokenOf = (row: Row): TokenRecord => ({
    ...row,
    approve: row.approve === 1,
    labels: Labels.catch({}).parse(storedJson(row.labels)),
  })
  const insert = store.prepare(`INSERT INTO enrol_tokens
    (id, secret_hash, device_group, uses_left, approve, labels, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
  const byId = store.prepare<[string], Row>(`SELECT ${columns} FROM enrol_tokens WHERE id = ?`)
  const bySecret = store.prepare<[Buffer], Row>(`SELECT ${columns} FROM enrol_tokens WHERE secret_hash = ?`)
  const all = store.prepare<[], Row>(`SELECT ${columns} FROM enrol_tokens ORDER BY created_at, id`)
  const markRevoked = store.prepare('UPDATE enrol_tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?')
  const use = store.prepare('UPDATE enrol_tokens SET uses_left = uses_left - 1 WHERE id = ?')

  const create = store.transaction(
    (actor: Actor, { group, uses, expiresS, approve, labels = {} }: z.input<typeof TokenRequest>) => {
      const { id, secret } = newSecret()
      const createdAt = new Date()
      const expiresAt = new Date(createdAt.getTime() + expiresS * 1_000).toISOString()
      insert.run(id, hashOf(secret), group, uses, approve ? 1 : 0, JSON.stringify(labels), createdAt.toISOString(), expiresAt)
      audit(actor, 'token.create', id, { group, uses, expiresAt, approve, labels })
      return { token: tokenOf(byId.get(id)!), secret: secret.toString('base64url') }
    },
  )
  return {
    createToken: (actor, request) => create.immediate(actor, request),
    tokens: () => all.all().map(tokenOf),
    revokeToken: auditedChange(store, audit, 'token.revoke', (id) => markRevoked.run(nowIso(), id)),
    bySecret(secret) {
      const bytes = bytesOf(secret)
      const row = bytes && bySecret.get(hashOf(bytes))
      return row && tokenOf(row)
    },
    use: (id) => void use.run(id),
  }
}
