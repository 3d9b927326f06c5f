import { join } from 'node:path'
import { type Clock, clockIsSet, nowIso } from '../../core/kit/base/clock.ts'
import type { Closers } from '../../core/kit/base/closers.ts'
import { createLogger, type Logger } from '../../core/kit/base/logger.ts'
import { Progress } from '../../core/kit/base/progress.ts'
import { recordToFile } from '../../core/kit/service/record-to-file.ts'
import { openTracer } from '../../core/kit/trace/open-tracer.ts'
import type { Tracer } from '../../core/kit/trace/tracer.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { AgentConfig } from '../config.ts'
import { Disclosures } from '../disclosures/disclosures.ts'
import { DisclosureLedger, openDisclosureDatabase } from '../disclosures/ledger.ts'
import { LogOutbox } from '../telemetry/log-outbox.ts'
import { RecentErrors } from '../telemetry/recent-errors.ts'

const dayMs = 24 * 3_600_000

/** What every part needs. Each part registers with `closers` how it is closed. */
export interface Base {
  readonly config: AgentConfig
  readonly clock: Clock
  readonly closers: Closers
  readonly logger: Logger
  readonly progress: Progress
  /** Of this process's machines; undefined: none is asked for. */
  readonly recording: Recording | undefined
  /** What sends content of answers anywhere tells it first. */
  readonly disclosures: Disclosures
  readonly tracer: Tracer
}

/** What the log is kept for besides standard error. */
export interface Logs {
  readonly errors: RecentErrors
  readonly outbox: LogOutbox
}

/** @param birth number of this start @throws BrimError TARGET_UNWRITABLE, STORE_FAILED, PREREQUISITE_MISSING */
export async function openBase(
  config: AgentConfig,
  clock: Clock,
  closers: Closers,
  birth: number,
): Promise<{ base: Base; logs: Logs }> {
  const errors = new RecentErrors()
  const outbox = new LogOutbox(clock, birth)
  const logger = createLogger(
    config.logLevel,
    { device: config.id },
    { ...config.log, onError: (error) => errors.add(error), tap: outbox },
  )
  const recording = recordToFile(config.record, closers, logger)
  if (!clockIsSet()) logger.warn({ at: nowIso() }, 'clock of this device not set: log lines have wrong times')
  const log = logger.child({ component: 'disclosures' })
  const store = openDisclosureDatabase(join(config.stateDir, 'disclosures.sqlite'), log)
  closers.push(() => store.close())
  const { mb, days } = config.disclosures
  const disclosures = new Disclosures(new DisclosureLedger(store, { maxBytes: mb * 2 ** 20, maxAgeMs: days * dayMs }, log))
  const tracer = await openTracer({
    ...{ endpoint: config.otlpEndpoint, service: 'brim-agent', instance: config.id },
    ...{ clock, closers, logger: logger.child({ component: 'trace' }) },
  })
  const base = { config, clock, closers, logger, progress: new Progress(clock), recording, disclosures, tracer }
  return { base, logs: { errors, outbox } }
}
