import { birthsTable } from '../core/store/births.ts'
import type { Migrations } from '../core/store/open-database.ts'
import { historyTables } from './fleet/history.ts'
import { fleetTables } from './fleet/open-fleet.ts'
import { identityTable } from './identity/bridge-identity.ts'
import { identityTables } from './identity/tables.ts'
import { answerTables } from './llm/answer-journal.ts'
import { piceTables } from './pice/pice-store.ts'
import { jobTables } from './queue/job-tables.ts'
import { rolloutTables } from './rollout/rollout-store.ts'

/** Migrations of `bridge.sqlite`, which several parts share. */
export const bridgeTables: Migrations = [birthsTable, ...fleetTables, rolloutTables, identityTable]

export interface BridgeDatabase {
  /** In the state folder. */
  readonly file: string
  readonly migrations: Migrations
  /** `answers.sqlite` serves for a minute, and holds what clients have asked. */
  readonly isBackedUp: boolean
}

/** Every database of a bridge. */
export const bridgeDatabases: readonly BridgeDatabase[] = [
  { file: 'bridge.sqlite', migrations: bridgeTables, isBackedUp: true },
  { file: 'identity.sqlite', migrations: identityTables, isBackedUp: true },
  { file: 'jobs.sqlite', migrations: jobTables, isBackedUp: true },
  { file: 'pice.sqlite', migrations: piceTables, isBackedUp: true },
  { file: 'telemetry.sqlite', migrations: historyTables, isBackedUp: true },
  { file: 'answers.sqlite', migrations: answerTables, isBackedUp: false },
]
