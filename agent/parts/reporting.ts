import { join } from 'node:path'
import { clockIsSet } from '../../core/kit/base/clock.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { ConditionMonitor } from '../telemetry/condition-monitor.ts'
import { measurementsOf } from '../telemetry/measurements.ts'
import { Reporter } from '../telemetry/reporter.ts'
import { openSpoolDatabase, Spool } from '../telemetry/spool.ts'
import type { Base } from './base.ts'
import type { AgentState } from './state.ts'

const dayMs = 24 * 3_600_000

/** What waits for a bridge: samples, and lines of the log. @throws BrimError STORE_FAILED */
export function openSpool({ config, clock, closers, logger }: Base, { birth }: AgentState): Spool {
  const { stateDir, spoolMb, spoolDays } = config
  const spoolLogger = logger.child({ component: 'spool' })
  const store = openSpoolDatabase(join(stateDir, 'spool.sqlite'), spoolLogger)
  closers.push(() => store.close())
  return new Spool({
    store,
    birth,
    limits: { maxBytes: spoolMb * 2 ** 20, maxAgeMs: spoolDays * dayMs },
    clock,
    wall: () => ({ ms: Date.now(), isSet: clockIsSet() }),
    logger: spoolLogger,
  })
}

/** Samples of the device's condition, reports, and the replay of the spool. */
export function openReporting(
  { config, clock }: Base,
  { birth }: AgentState,
  { speed }: ActiveModels,
  links: BridgeLinks,
  monitor: ConditionMonitor,
  spool: Spool,
): Reporter {
  return new Reporter({
    links: links.all,
    hasBridge: () => links.hasBridge,
    replay: (leaf, message) => links.replay(leaf, message),
    spool,
    sample: (signal) => monitor.sample(signal),
    measure: (link) => measurementsOf(link, speed, monitor.latest),
    everyMs: config.telemetryS * 1_000,
    deadBands: config.deadBands,
    birth,
    clock,
  })
}
