import { nowIso } from '../../core/kit/base/clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { type Actor, type AuditChange, auditedChange } from './audit-log.ts'

/** A TLS key that the bridge will show, by the SHA-256 of the public key. */
export interface NextPin {
  readonly pin: string
  readonly announcedAt: string
}

/** TLS keys that are announced to devices, and those that each device accepts. */
export interface PinStore {
  nextPins(): NextPin[]
  announcePin(actor: Actor, pin: string): void
  /** @returns whether it was announced */
  withdrawPin(actor: Actor, pin: string): boolean
  /** What a device accepts, as it said last; empty: what its system trusts. */
  setDevicePins(device: string, pins: readonly string[]): void
  /** Approved devices that pin another key than this one. */
  devicesWithoutPin(pin: string): string[]
}

export function openPinStore(store: Store, audit: AuditChange): PinStore {
  const all = store.prepare<[], NextPin>('SELECT pin, announced_at AS announcedAt FROM next_pins ORDER BY announced_at, pin')
  const insert = store.prepare('INSERT INTO next_pins (pin, announced_at) VALUES (?, ?) ON CONFLICT DO NOTHING')
  const remove = store.prepare('DELETE FROM next_pins WHERE pin = ?')
  const put = store.prepare<[string, string]>(
    `INSERT INTO device_pins (device, pins) VALUES (?, ?)
     ON CONFLICT DO UPDATE SET pins = excluded.pins WHERE pins <> excluded.pins`,
  )
  const notReady = store
    .prepare<[string], string>(
      `SELECT identities.device FROM identities LEFT JOIN device_pins USING (device)
       WHERE status = 'approved' AND NOT coalesce(pins = '' OR instr(pins, ?) > 0, FALSE) ORDER BY device`,
    )
    .pluck()
  return {
    nextPins: () => all.all(),
    announcePin: auditedChange(store, audit, 'tls.announce', (pin) => insert.run(pin, nowIso())),
    withdrawPin: auditedChange(store, audit, 'tls.withdraw', (pin) => remove.run(pin)),
    setDevicePins: (device, pins) => void put.run(device, pins.join(' ')),
    devicesWithoutPin: (pin) => notReady.all(pin),
  }
}
