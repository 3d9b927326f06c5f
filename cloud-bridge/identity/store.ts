import { join } from 'node:path'
import { openDatabase } from '../../core/kit/store/open-database.ts'
import { type AuditLimits, openAuditLog } from './audit-log.ts'
import { openDeviceStore } from './device-store.ts'
import { openKeyStore } from './key-store.ts'
import { openPinStore } from './pin-store.ts'
import { identityTables } from './tables.ts'
import { openTokenStore } from './token-store.ts'

export type IdentityStore = ReturnType<typeof openIdentityStore>

/**
 * Tokens, devices, API keys and the audit log, in a database of their own: the commands of an operator on the bridge's
 * machine open it while the bridge runs. Every change and its audit line are one transaction.
 * @throws BrimError STORE_FAILED
 */
export function openIdentityStore(stateDir: string, limits?: AuditLimits) {
  const database = openDatabase(join(stateDir, 'identity.sqlite'), identityTables)
  const { add, addChange, ...auditLog } = openAuditLog(database, limits)
  const tokens = openTokenStore(database, addChange)
  const devices = openDeviceStore(database, tokens, add, addChange)
  const keys = openKeyStore(database, addChange)
  const pins = openPinStore(database, addChange)
  const tlsPort = database.prepare<[], { port: number }>('SELECT port FROM tls_port')
  /** The port of MQTT over TLS that devices of an earlier release have enrolled with; undefined without such devices. */
  const earlierTlsPort = () => tlsPort.get()?.port
  const ownChanges = database.prepare<[], { count: number }>('SELECT total_changes() AS count')
  /** Differs after any change, by this process or another. */
  const version = () => `${database.pragma('data_version', { simple: true })} ${ownChanges.get()!.count}`
  return {
    version,
    earlierTlsPort,
    addChange,
    ...auditLog,
    ...tokens,
    ...devices,
    ...keys,
    ...pins,
    close: () => void database.close(),
  }
}
