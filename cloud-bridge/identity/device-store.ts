import { clockIsSet, nowIso } from '../../core/kit/base/clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { datesAtLogin, type KeyValidity, renewKeyInMs } from '../../core/policy/identity/key-validity.ts'
import type { DeviceIdentity } from '../../core/wire/protocol/http/admin.ts'
import type { EnrolRequest, RenewKeyRequest } from '../../core/wire/protocol/identity.ts'
import { type Actor, type AddAuditLine, type AuditChange, auditedChange } from './audit-log.ts'
import { datesOf, storedDates, uniformOf } from './key-dates.ts'
import { judgeEnrolment, judgeGrant, judgeKeyRenewal, type Refused } from './rules.ts'
import type { TokenStore } from './token-store.ts'

type Enrolment = Pick<EnrolRequest, 'device' | 'publicKey' | 'token' | 'hardware'>

export interface DeviceLogin extends Pick<EnrolRequest, 'device' | 'hardware'> {
  readonly renewsKey?: boolean
}

export type Renewal = Pick<RenewKeyRequest, 'device' | 'hardware' | 'publicKey'>

export interface Admitted {
  readonly kind: 'granted'
  /** When the agent is to renew its key; undefined: it does not expire. */
  readonly renewKeyInMs: number | undefined
}

/** Enrolled devices. Signatures have been verified before; `from` is the address of the request. */
export interface DeviceStore {
  enrol(request: Enrolment, from: string): { readonly kind: 'enrolled'; readonly device: DeviceIdentity } | Refused
  /** Whether the device may connect; binds its hardware, and begins the validity of its key. */
  grant(login: DeviceLogin, keys: KeyValidity, from: string): Admitted | Refused
  /** Replaces the key of a device; the old one is refused for good. */
  renewKey(renewal: Renewal, keys: KeyValidity, from: string): Admitted | Refused
  device(id: string): DeviceIdentity | undefined
  devices(): DeviceIdentity[]
  /** Device that may connect → its public key. */
  approvedKeys(): ReadonlyMap<string, string>
  /** Forgets the device's hardware and the expiry of its key: its next connection binds it, and sets the expiry, anew. @returns whether the device exists */
  approve(actor: Actor, device: string): boolean
  /** Deletes its enrolment, if it has one. Its key never enrols again. */
  remove(actor: Actor, device: string): void
  /** @returns whether the device exists */
  revoke(actor: Actor, device: string): boolean
}

/** Device that may connect → its public key; also in a copy of the database. */
export function approvedKeysIn(store: Store): ReadonlyMap<string, string> {
  const approved = store.prepare<[], Pick<DeviceIdentity, 'device' | 'publicKey'>>(
    "SELECT device, public_key AS publicKey FROM identities WHERE status = 'approved'",
  )
  return new Map(approved.all().map(({ device, publicKey }) => [device, publicKey]))
}

export function openDeviceStore(store: Store, tokens: TokenStore, audit: AddAuditLine, auditChange: AuditChange): DeviceStore {
  const columns = `device, device_group AS "group", status, public_key AS publicKey, token_id AS tokenId,
    enrolled_at AS enrolledAt, key_since AS keySince, key_expires_at AS keyExpiresAt, hardware, clone`
  const byName = store.prepare<[string], DeviceIdentity>(`SELECT ${columns} FROM identities WHERE device = ?`)
  const byKey = store.prepare<[string], DeviceIdentity>(`SELECT ${columns} FROM identities WHERE public_key = ?`)
  const all = store.prepare<[], DeviceIdentity>(`SELECT ${columns} FROM identities ORDER BY device`)
  const put = store.prepare(`INSERT OR REPLACE INTO identities
    (device, device_group, status, public_key, token_id, enrolled_at) VALUES (?, ?, ?, ?, ?, ?)`)
  const markApproved = store.prepare(
    "UPDATE identities SET status = 'approved', hardware = NULL, clone = NULL, key_expires_at = NULL WHERE device = ?",
  )
  const markRevoked = store.prepare("UPDATE identities SET status = 'revoked' WHERE device = ?")
  const bindHardware = store.prepare('UPDATE identities SET hardware = ? WHERE device = ?')
  const deviceOfFormer = store.prepare<[string], { device: string }>('SELECT device FROM former_keys WHERE public_key = ?')
  const retire = store.prepare('INSERT OR IGNORE INTO former_keys (public_key, device, at) VALUES (?, ?, ?)')
  const putDates = store.prepare('UPDATE identities SET key_since = ?, key_expires_at = ? WHERE device = ?')
  const putKey = store.prepare('UPDATE identities SET public_key = ? WHERE device = ?')
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
  function putKeyDates(device: string, dates: ReturnType<typeof datesOf>): void {
    const { keySince, keyExpiresAt } = storedDates(dates)
    putDates.run(keySince, keyExpiresAt, device)
  }

  function admit({ device, hardware, renewsKey = false }: DeviceLogin, keys: KeyValidity, from: string): Admitted | Refused {
    const nowMs = Date.now()
    const stored = byName.get(device)
    const dates = stored && datesOf(stored)
    // Dates from a clock that is not set would void the key as soon as it is.
    const newDates = dates && clockIsSet(nowMs) ? datesAtLogin(dates, renewsKey, keys, nowMs) : dates
    const known = stored && newDates && { ...stored, ...storedDates(newDates) }
    const verdict = judgeGrant(device, known, hardware, nowMs)
    if (verdict.kind === 'refused') {
      // The first other machine is named until an operator approves the device again: the agent retries.
      if (verdict.code === 'DEVICE_CLONED' && hardware !== undefined && known?.clone === null) {
        nameClone.run(hardware, device)
        auditChange({ who: `device:${device}`, from }, 'device.cloned', device, { first: known.hardware, other: hardware })
      }
      return verdict
    }
    if (verdict.bind) bindHardware.run(hardware, device)
    if (!known || !newDates) throw new Error('an unknown device was granted access')
    if (newDates !== dates) putKeyDates(device, newDates)
    return { kind: 'granted', renewKeyInMs: renewKeyInMs(newDates, keys, uniformOf(known.publicKey), nowMs) }
  }
  const grant = store.transaction(admit)
  const renewKey = store.transaction(({ publicKey, ...login }: Renewal, keys: KeyValidity, from: string) => {
    const admitted = admit({ ...login, renewsKey: true }, keys, from)
    if (admitted.kind === 'refused') return admitted
    const { device } = login
    const known = byName.get(device)!
    const holder = byKey.get(publicKey)?.device ?? deviceOfFormer.get(publicKey)?.device
    const verdict = judgeKeyRenewal({ known, holder, renewInMs: admitted.renewKeyInMs })
    if (verdict.kind === 'refused') return verdict
    const nowMs = Date.now()
    const dates = datesAtLogin({ sinceMs: null, expiresMs: null }, true, keys, nowMs)
    retire.run(known.publicKey, device, nowIso())
    putKey.run(publicKey, device)
    putKeyDates(device, dates)
    const { keyExpiresAt } = storedDates(dates)
    auditChange({ who: `device:${device}`, from }, 'device.key.renew', device, {
      publicKey,
      former: known.publicKey,
      keyExpiresAt,
    })
    return { kind: 'granted' as const, renewKeyInMs: renewKeyInMs(dates, keys, uniformOf(publicKey), nowMs) }
  })
  const remove = store.prepare('DELETE FROM identities WHERE device = ?')
  const removeDevice = store.transaction((actor: Actor, device: string) => {
    const known = byName.get(device)
    if (known) retire.run(known.publicKey, device, nowIso())
    remove.run(device)
    auditChange(actor, 'device.remove', device)
  })
  return {
    enrol: (request, from) => enrol.immediate(request, from),
    grant: (login, keys, from) => grant.immediate(login, keys, from),
    renewKey: (renewal, keys, from) => renewKey.immediate(renewal, keys, from),
    device: (id) => byName.get(id),
    devices: () => all.all(),
    approvedKeys: () => approvedKeysIn(store),
    approve: auditedChange(store, auditChange, 'device.approve', (device) => markApproved.run(device)),
    remove: (actor, device) => removeDevice.immediate(actor, device),
    revoke: auditedChange(store, auditChange, 'device.revoke', (device) => markRevoked.run(device)),
  }
}
