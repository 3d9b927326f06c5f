import { join } from 'node:path'
import { openDatabase } from '../../core/store/open-database.ts'
import { type AuditLog, defaultMaxAuditLines, openAuditLog } from './audit-log.ts'
import { type DeviceStore, openDeviceStore } from './device-store.ts'
import { type KeyStore, openKeyStore } from './key-store.ts'
import { identityTables } from './tables.ts'
import { openTokenStore, type TokenStore } from './token-store.ts'

/**
 * Tokens, devices, API keys and the audit log, in a database of their own: the commands of an operator on the bridge's
 * machine open it while the bridge runs. Every change and its audit line are one transaction.
 */
export interface IdentityStore extends TokenStore, DeviceStore, KeyStore, AuditLog {
  close(): void
}

/** @throws BrimError STORE_FAILED */
export function openIdentityStore(stateDir: string, maxAuditLines = defaultMaxAuditLines): IdentityStore {
  const database = openDatabase(join(stateDir, 'identity.sqlite'), identityTables)
  const { add: audit, addChange: auditChange, ...auditLog } = openAuditLog(database, maxAuditLines)
  const tokens = openTokenStore(database, auditChange)
  const devices = openDeviceStore(database, { tokens, audit, auditChange })
  const keys = openKeyStore(database, auditChange)
  return { ...auditLog, ...tokens, ...devices, ...keys, close: () => database.close() }
}
