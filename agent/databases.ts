import { birthsTable } from '../core/kit/store/births.ts'
import type { Migrations } from '../core/kit/store/open-database.ts'
import type { StoreFile } from '../core/kit/store/require-stores.ts'
import { disclosureTables } from './disclosures/ledger.ts'
import { spendingTables } from './disco/spending-ledger.ts'
import { estimatesTable } from './disco/stored-estimates.ts'
import { instanceTable } from './identity/instance.ts'
import { ledgerMigrations } from './jobs/ledger.ts'
import { profileTable } from './jobs/profile.ts'
import { bundleChoicesTable } from './models/bundle-choices.ts'
import { speedTable } from './pice/speed-store.ts'
import { remoteTables } from './remote/commands.ts'
import { spoolTables } from './telemetry/spool.ts'

/** Migrations of `agent.sqlite`, which several parts share. */
export const agentTables: Migrations = [
  birthsTable,
  remoteTables,
  profileTable,
  bundleChoicesTable,
  instanceTable,
  speedTable,
  estimatesTable,
]

/** Every database of an agent's state folder, in the order in which its first start creates them. */
export const agentDatabases: readonly StoreFile[] = [
  { file: 'agent.sqlite', migrations: agentTables, holds: 'records' },
  { file: 'jobs.sqlite', migrations: ledgerMigrations, holds: 'records' },
  { file: 'spool.sqlite', migrations: [spoolTables], holds: 'figures' },
  { file: 'spending.sqlite', migrations: [spendingTables], holds: 'figures' },
  { file: 'disclosures.sqlite', migrations: [disclosureTables], holds: 'figures' },
]
