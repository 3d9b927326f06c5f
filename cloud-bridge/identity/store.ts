import { join } from 'node:path'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { type AuditLimits, type AuditLog, openAuditLog } from './audit-log.ts'
import { type DeviceStore, openDeviceStore } from './device-store.ts'
import { type KeyStore, openKeyStore } from './key-store.ts'
import { openPinStore, type PinStore } from './pin-store.ts'
import { identityTables } from './tables.ts'
import { openTokenStore, type TokenStore } from './token-store.ts'

/**
 * Tokens, devices, API keys and the audit log, in a database of their own: the commands of an operator on the bridge's
 * machine open it while the bridge runs. Every change and its audit line are one transaction.
 */
export interface IdentityStore extends TokenStore, DeviceStore, KeyStore, PinStore, Omit<AuditLog, 'add'>, Disposable {
  /** Differs after any change, by this process or another. */
  version(): string
  /** The port of MQTT over TLS that devices of an earlier release have enrolled with; undefined without such devices. */
  earlierTlsPort(): number | undefined
  close(): void
}

/** @throws BrimError STORE_FAILED */
export function openIdentityStore(stateDir: string, limits?: AuditLimits): IdentityStore {
  const database = openDatabase(join(stateDir, 'identity.sqlite'), identityTables)
  const { add, ...auditLog } = openAuditLog(database, limits)
  const { addChange } = auditLog
  const tokens = openTokenStore(database, addChange)
  const devices = openDeviceStore(database, tokens, add, addChange)
  const keys = openKeyStore(database, addChange)
  const pins = openPinStore(database, addChange)
  const tlsPort = database.prepare<[], { port: number }>('SELECT port FROM tls_port')
  const ownChanges = database.prepare<[], { count: number }>('SELECT total_changes() AS count')
  const close = () => void database.close()
  return {
    version: () => `${database.pragma('data_version', { simple: true })} ${ownChanges.get()!.count}`,
    earlierTlsPort: () => tlsPort.get()?.port,
    ...auditLog,
    ...tokens,
    ...devices,
    ...keys,
    ...pins,
    close,
    [Symbol.dispose]: close,
  }
}
