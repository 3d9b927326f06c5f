import { join } from 'node:path'
import { nextBirth } from '../../core/kit/store/births.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { requireStores } from '../../core/kit/store/require-stores.ts'
import { requireRestored } from '../backup/restore.ts'
import { bridgeDatabases, bridgeTables } from '../databases.ts'
import { openAuditExport } from '../identity/audit-export.ts'
import { recordStart } from '../identity/bridge-identity.ts'
import { type IdentityStore, openIdentityStore } from '../identity/store.ts'
import { requireNoReplica } from '../replica-marker.ts'
import type { Base } from './base.ts'

export interface Stores {
  readonly store: Store
  readonly identityStore: IdentityStore
  /** Number of this start. */
  readonly birth: number
}

/** The state folder, locked for this process (with --database by its node), and its databases. @throws BrimError STORE_FAILED, STORE_DAMAGED, CONFIG_INVALID */
export function openStores({ config, clock, closers, logger }: Base): Stores {
  if (!config.database) {
    closers.push(lockFolder(config.stateDir))
    requireNoReplica(config.stateDir)
  }
  requireRestored(config.stateDir)
  requireStores(config.stateDir, bridgeDatabases)
  const identityStore = openIdentityStore(config.stateDir, config.limits)
  closers.push(() => identityStore.close())
  const store = openDatabase(join(config.stateDir, 'bridge.sqlite'), bridgeTables)
  closers.push(() => store.close())
  const { id: bridge, fleet, tls } = config
  recordStart(store, { bridge, fleet, tlsCert: tls?.cert ?? null, tlsKey: tls?.key ?? null })
  if (config.auditLog !== undefined) {
    const { auditLog: file } = config
    const auditExport = openAuditExport({
      file,
      store: identityStore,
      bridge,
      clock,
      logger: logger.child({ component: 'identity' }),
    })
    closers.push(auditExport.close)
  }
  return { store, identityStore, birth: nextBirth(store) }
}
