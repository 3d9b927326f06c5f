import { birthsTable } from '../core/store/births.ts'
import type { Migrations } from '../core/store/open-database.ts'
import { estimatesTable } from './disco/estimates.ts'
import { spendingTables } from './disco/spending-ledger.ts'
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

/** Every database of an agent's state folder. */
export const agentDatabases: readonly { readonly file: string; readonly migrations: Migrations }[] = [
  { file: 'agent.sqlite', migrations: agentTables },
  { file: 'jobs.sqlite', migrations: ledgerMigrations },
  { file: 'spool.sqlite', migrations: [spoolTables] },
  { file: 'spending.sqlite', migrations: [spendingTables] },
]
