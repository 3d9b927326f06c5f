import { join } from 'node:path'
import { type Clock, clockIsSet, nowIso } from '../../core/base/clock.ts'
import type { Closers } from '../../core/base/closers.ts'
import { createLogger, type Logger } from '../../core/base/logger.ts'
import { Progress } from '../../core/base/progress.ts'
import { repeatEvery } from '../../core/base/repeat.ts'
import { SteadyWallClock, systemClocks } from '../../core/base/steady-wall-clock.ts'
import { VerifiedBundles } from '../../core/model/verified-bundles.ts'
import type { Recording } from '../../core/policy/recording.ts'
import { recordToFile } from '../../core/service/record-to-file.ts'
import { nextBirth } from '../../core/store/births.ts'
import { lockFolder } from '../../core/store/lock-folder.ts'
import { openDatabase, type Store } from '../../core/store/open-database.ts'
import { requireStores } from '../../core/store/require-stores.ts'
import { isExclusive } from '../../core/store/storage-full.ts'
import { BundleFolder } from '../bundles/bundle-folder.ts'
import type { AgentConfig } from '../config.ts'
import { agentDatabases, agentTables } from '../databases.ts'
import { type Identities, openIdentities } from '../identity/identities.ts'
import { instanceOf } from '../identity/instance.ts'
import { JobLedger, ledgerMigrations } from '../jobs/ledger.ts'
import { createRemote } from '../remote/commands.ts'
import { LogOutbox } from '../telemetry/log-outbox.ts'
import { RecentErrors } from '../telemetry/recent-errors.ts'
import { openSpoolDatabase, Spool } from '../telemetry/spool.ts'

const dayMs = 24 * 3_600_000
const readClocksMs = 60_000

/** What every part needs. Each part registers with `closers` how it is closed. */
export interface Base {
  readonly config: AgentConfig
  readonly clock: Clock
  readonly closers: Closers
  readonly bundles: BundleFolder
  readonly store: Store
  readonly ledger: JobLedger
  readonly verified: VerifiedBundles
  /** Number of this start. */
  readonly birth: number
  readonly instance: string
  readonly errors: RecentErrors
  readonly outbox: LogOutbox
  readonly logger: Logger
  readonly progress: Progress
  readonly spool: Spool
  readonly identities: Identities
  readonly remote: ReturnType<typeof createRemote>
  /** Of this process's machines; undefined: none is asked for. */
  readonly recording: Recording | undefined
}

/** State folder, databases, log and identity, which every other part uses. */
export async function openBase(config: AgentConfig, clock: Clock, closers: Closers): Promise<Base> {
  const { stateDir, spoolMb, spoolDays } = config
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
  const birth = nextBirth(store)
  const instance = instanceOf(store, stateDir)

  const errors = new RecentErrors()
  const outbox = new LogOutbox(clock, birth)
  const logger = createLogger(
    config.logLevel,
    { device: config.id },
    { ...config.log, onError: (error) => errors.add(error), tap: outbox },
  )
  const recording = recordToFile(config.record, closers, logger)
  if (!clockIsSet()) logger.warn({ at: nowIso() }, 'clock of this device not set: log lines have wrong times')

  const spoolLogger = logger.child({ component: 'spool' })
  const spoolStore = openSpoolDatabase(join(stateDir, 'spool.sqlite'), spoolLogger)
  closers.push(() => spoolStore.close())
  const spool = new Spool({
    store: spoolStore,
    birth,
    limits: { maxBytes: spoolMb * 2 ** 20, maxAgeMs: spoolDays * dayMs },
    clock,
    wall: () => ({ ms: Date.now(), isSet: clockIsSet() }),
    logger: spoolLogger,
  })
  const identities = openIdentities(config, clock, logger.child({ component: 'identity' }))
  closers.push(identities.close)
  // A command must not expire because the clock has jumped.
  const steady = new SteadyWallClock({ read: systemClocks(), stored: undefined, onDoubt: () => {}, onBelieved: () => {} })
  // A jump counts from when it is seen.
  closers.push(repeatEvery(clock, readClocksMs, () => void steady.now()))
  const remote = createRemote({
    store,
    log: outbox,
    wallMs() {
      const ms = steady.nowMs()
      return clockIsSet(ms) ? ms : undefined
    },
    logger: logger.child({ component: 'remote' }),
  })
  const verified = new VerifiedBundles(stateDir)
  return {
    config,
    clock,
    closers,
    bundles,
    store,
    ledger,
    verified,
    birth,
    instance,
    errors,
    outbox,
    logger,
    progress: new Progress(clock),
    spool,
    identities,
    remote,
    recording,
  }
}
