import { birthsTable } from '../core/kit/store/births.ts'
import type { Migrations } from '../core/kit/store/open-database.ts'
import type { StoreFile } from '../core/kit/store/require-stores.ts'
import { historyTables } from './fleet/history.ts'
import { addedFleetTables, fleetTables } from './fleet/open-fleet.ts'
import { homeTable } from './home-assistant/home-assistant.ts'
import { identityTable } from './identity/bridge-identity.ts'
import { identityTables } from './identity/tables.ts'
import { answerTables } from './llm/answer-journal.ts'
import { piceTables } from './pice/pice-store.ts'
import { jobTables } from './queue/job-tables.ts'
import { rolloutTables } from './rollout/rollout-store.ts'

/** Migrations of `bridge.sqlite`, which several parts share. */
export const bridgeTables: Migrations = [
  birthsTable,
  ...fleetTables,
  rolloutTables,
  identityTable,
  ...addedFleetTables,
  homeTable,
]

export interface BridgeDatabase extends StoreFile {
  /** `answers.sqlite` serves for a minute, and holds what clients have asked. */
  readonly isBackedUp: boolean
  /** With --database its rows are shared. Telemetry is too much of it, and each bridge measures its own. */
  readonly isShared: boolean
}

/** Every database of a bridge, in the order in which its first start creates them. */
export const bridgeDatabases: readonly BridgeDatabase[] = [
  { file: 'identity.sqlite', migrations: identityTables, holds: 'records', isBackedUp: true, isShared: true },
  { file: 'bridge.sqlite', migrations: bridgeTables, holds: 'records', isBackedUp: true, isShared: true },
  { file: 'jobs.sqlite', migrations: jobTables, holds: 'records', isBackedUp: true, isShared: true },
  { file: 'telemetry.sqlite', migrations: historyTables, holds: 'figures', isBackedUp: true, isShared: false },
  { file: 'pice.sqlite', migrations: piceTables, holds: 'figures', isBackedUp: true, isShared: true },
  { file: 'answers.sqlite', migrations: answerTables, holds: 'figures', isBackedUp: false, isShared: false },
]

/** Those whose rows bridges with --database share. */
export const sharedDatabases: readonly BridgeDatabase[] = bridgeDatabases.filter(({ isShared }) => isShared)
