import { join } from 'node:path'
import type { Closers } from '../../core/kit/base/closers.ts'
import { nextBirth } from '../../core/kit/store/births.ts'
import { lockFolder } from '../../core/kit/store/lock-folder.ts'
import { openDatabase, type Store } from '../../core/kit/store/open-database.ts'
import { requireStores } from '../../core/kit/store/require-stores.ts'
import { isExclusive } from '../../core/kit/store/storage-full.ts'
import { VerifiedBundles } from '../../core/model/bundle/verified-bundles.ts'
import { BundleFolder } from '../bundles/bundle-folder.ts'
import { agentDatabases, agentTables } from '../databases.ts'
import { instanceOf } from '../identity/instance.ts'
import { JobLedger, ledgerMigrations } from '../jobs/ledger.ts'

/** The state folder, locked for this process, with its bundles and databases. */
export interface AgentState {
  readonly bundles: BundleFolder
  readonly verified: VerifiedBundles
  readonly store: Store
  readonly ledger: JobLedger
  /** Number of this start. */
  readonly birth: number
  readonly instance: string
}

/** @throws BrimError STORE_FAILED, STORE_DAMAGED, STATE_IN_USE */
export async function openState(stateDir: string, closers: Closers): Promise<AgentState> {
  closers.push(lockFolder(stateDir))
  const bundles = new BundleFolder(stateDir)
  await bundles.recover()
  requireStores(stateDir, agentDatabases)
  const store = openDatabase(join(stateDir, 'agent.sqlite'), agentTables)
  closers.push(() => store.close())
  const openJobs = (synchronous: 'FULL' | 'NORMAL') => {
    const opened = openDatabase(join(stateDir, 'jobs.sqlite'), ledgerMigrations, synchronous)
    closers.push(() => opened.close())
    return opened
  }
  const durableJobs = openJobs('FULL')
  const ledger = new JobLedger(durableJobs, isExclusive(durableJobs) ? durableJobs : openJobs('NORMAL'))
  const verified = new VerifiedBundles(stateDir)
  return { bundles, verified, store, ledger, birth: nextBirth(store), instance: instanceOf(store, stateDir) }
}
