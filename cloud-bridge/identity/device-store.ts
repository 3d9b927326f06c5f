import { nowIso } from '../../core/base/clock.ts'
import type { DeviceIdentity } from '../../core/protocol/http/admin.ts'
import type { EnrolRequest } from '../../core/protocol/identity.ts'
import type { Store } from '../../core/store/open-database.ts'
import type { Actor, AddAuditLine, AuditChange } from './audit-log.ts'
import { judgeEnrolment, judgeGrant, type Refused } from './rules.ts'
import type { TokenStore } from './token-store.ts'

type Enrolment = Pick<EnrolRequest, 'device' | 'publicKey' | 'token' | 'hardware'>

/** Enrolled devices. Signatures have been verified before; `from` is the address of the request. */
export function openDeviceStore(store: Store, tokens: TokenStore, audit: AddAuditLine, auditChange: AuditChange) {
  const columns = `device, device_group AS "group", status, public_key AS publicKey, token_id AS tokenId,
    enrolled_at AS enrolledAt, hardware, clone`
  const byName = store.prepare<[string], DeviceIdentity>(`SELECT ${columns} FROM identities WHERE device = ?`)
  const byKey = store.prepare<[string], DeviceIdentity>(`SELECT ${columns} FROM identities WHERE public_key = ?`)
  const all = store.prepare<[], DeviceIdentity>(`SELECT ${columns} FROM identities ORDER BY device`)
  const notApproved = store.prepare<[], { device: string }>("SELECT device FROM identities WHERE status <> 'approved'")
  const put = store.prepare(`INSERT OR REPLACE INTO identities
    (device, device_group, status, public_key, token_id, enrolled_at) VALUES (?, ?, ?, ?, ?, ?)`)
  const markApproved = store.prepare("UPDATE identities SET status = 'approved', hardware = NULL, clone = NULL WHERE device = ?")
  const markRevoked = store.prepare("UPDATE identities SET status = 'revoked' WHERE device = ?")
  const bindHardware = store.prepare('UPDATE identities SET hardware = ? WHERE device = ?')
  const deviceOfFormer = store.prepare<[string], { device: string }>('SELECT device FROM former_keys WHERE public_key = ?')
  const retire = store.prepare('INSERT OR IGNORE INTO former_keys (public_key, device, at) VALUES (?, ?, ?)')
  const nameClone = store.prepare('UPDATE identities SET clone = ? WHERE device = ?')

  const enrol = store.transaction(({ device, publicKey, hardware, token: secret }: Enrolment, from: string) => {
    const actor = { who: `device:${device}`, from }
    const token = tokens.bySecret(secret)
    const [named, keyed] = [byName.get(device), byKey.get(publicKey)]
    const formerOf = deviceOfFormer.get(publicKey)?.device
    const verdict = judgeEnrolment({ device, publicKey, hardware, token, named, keyed, formerOf }, Date.now())
    if (verdict.kind === 'refused') {
      const detail = { token: token?.id ?? null, why: verdict.message }
      audit({ actor, action: 'device.enroll.refused', subject: device, outcome: 'refused', detail })
      return verdict
    }
    if (verdict.kind === 'enrol') {
      const { id, group, approve } = verdict.token
      tokens.use(id)
      if (named && named.publicKey !== publicKey) retire.run(named.publicKey, device, nowIso())
      put.run(device, group, approve ? 'approved' : 'pending', publicKey, id, nowIso())
      auditChange(actor, 'device.enroll', device, { token: id, group, approve, publicKey })
    }
    return { kind: 'enrolled' as const, device: byName.get(device)! }
  })
  const grant = store.transaction((device: string, hardware: string | undefined, from: string) => {
    const known = byName.get(device)
    const verdict = judgeGrant(device, known, hardware)
    if (verdict.kind === 'refused') {
      // The first other machine is named until an operator approves the device again: the agent retries.
      if (verdict.code === 'DEVICE_CLONED' && hardware !== undefined && known?.clone === null) {
        nameClone.run(hardware, device)
        auditChange({ who: `device:${device}`, from }, 'device.cloned', device, { first: known.hardware, other: hardware })
      }
      return verdict
    }
    if (verdict.bind) bindHardware.run(hardware, device)
    return { kind: 'granted' as const }
  })
  const change = (statement: { run(device: string): { changes: number } }, action: string) =>
    store.transaction((actor: Actor, device: string) => {
      const found = statement.run(device).changes > 0
      if (found) auditChange(actor, action, device)
      return found
    })
  const [approve, revoke] = [change(markApproved, 'device.approve'), change(markRevoked, 'device.revoke')]
  return {
    enrol: (request: Enrolment, from: string): { kind: 'enrolled'; device: DeviceIdentity } | Refused =>
      enrol.immediate(request, from),
    /** Whether the device may connect; binds its hardware. */
    grant: (device: string, hardware: string | undefined, from: string): { kind: 'granted' } | Refused =>
      grant.immediate(device, hardware, from),
    device: (id: string) => byName.get(id),
    devices: () => all.all(),
    /** Devices that may not connect: pending and revoked. */
    denied: (): ReadonlySet<string> => new Set(notApproved.all().map(({ device }) => device)),
    /** Forgets the device's hardware: its next connection binds it anew. @returns whether the device exists */
    approve: (actor: Actor, device: string) => approve.immediate(actor, device),
    /** @returns whether the device exists */
    revoke: (actor: Actor, device: string) => revoke.immediate(actor, device),
  }
}
