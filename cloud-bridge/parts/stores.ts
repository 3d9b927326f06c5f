import { join } from 'node:path'
import { birthsTable, nextBirth } from '../../core/store/births.ts'
import { lockFolder } from '../../core/store/lock-folder.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'
import { fleetTables } from '../fleet/open-fleet.ts'
import { openAuditExport } from '../identity/audit-export.ts'
import { type IdentityStore, openIdentityStore } from '../identity/store.ts'
import { rolloutTables } from '../rollout/rollout-store.ts'
import type { Base } from './base.ts'

const migrations = [birthsTable, ...fleetTables, rolloutTables]

export interface Stores {
  readonly store: Store
  readonly identityStore: IdentityStore
  /** Number of this start. */
  readonly birth: number
}

/** The state folder, locked for this process, and its databases. @throws BrimError STORE_FAILED, CONFIG_INVALID */
export function openStores({ config, clock, closers, log }: Base): Stores {
  closers.push(lockFolder(config.stateDir))
  const store = openDatabase(join(config.stateDir, 'bridge.sqlite'), migrations)
  closers.push(() => store.close())
  const identityStore = openIdentityStore(config.stateDir, config.limits)
  closers.push(() => identityStore.close())
  if (config.auditLog !== undefined) {
    const { id: bridge, auditLog: file } = config
    const auditExport = openAuditExport({ file, store: identityStore, bridge, clock, logger: log('identity') })
    closers.push(auditExport.close)
  }
  return { store, identityStore, birth: nextBirth(store) }
}
