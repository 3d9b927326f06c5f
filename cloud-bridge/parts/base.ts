import type { Clock } from '../../core/base/clock.ts'
import type { Closers } from '../../core/base/closers.ts'
import { createLogger, type Logger } from '../../core/base/logger.ts'
import { Progress } from '../../core/base/progress.ts'
import { maxOpenFiles } from '../../core/listen/max-open-files.ts'
import { readingTokensPerS } from '../../core/policy/serving/reader.ts'
import type { BridgeConfig } from '../config.ts'
import { Downlink } from '../link/downlink.ts'
import { type ListenerSettings, listenerSettings } from '../listener-settings.ts'
import { type BridgeMetrics, createBridgeMetrics } from '../metrics/bridge-metrics.ts'

/** Minimum interval between two publications of the retained state. */
const announceEveryMs = 1_000

/** What every part needs. Each part registers with `closers` how it is closed. */
export interface Base {
  readonly config: BridgeConfig
  readonly clock: Clock
  readonly closers: Closers
  readonly logger: Logger
  readonly log: (component: string) => Logger
  readonly downlink: Downlink
  /** The retained state has changed. */
  readonly announce: { trigger(): void }
  readonly progress: Progress
  readonly listeners: ListenerSettings
  readonly metrics: BridgeMetrics
  readonly startedMs: number
}

export function openBase(config: BridgeConfig, clock: Clock, closers: Closers): Base {
  const logger = createLogger(config.logLevel, { bridge: config.id }, config.log)
  const log = (component: string) => logger.child({ component })
  const listeners = listenerSettings(config.limits, maxOpenFiles(), log('listen'))
  const downlink = new Downlink()
  const announce = debounce(() => downlink.publishState(), announceEveryMs, clock)
  closers.push(announce.stop)
  const metrics = createBridgeMetrics(clock, readingTokensPerS)
  const progress = new Progress(clock)
  return { config, clock, closers, logger, log, downlink, announce, progress, listeners, metrics, startedMs: clock.nowMs() }
}

/** Runs `action` once, `everyMs` after the first of several triggers. */
function debounce(action: () => void, everyMs: number, clock: Clock) {
  const stopping = new AbortController()
  let waiting = false
  return {
    trigger() {
      if (waiting || stopping.signal.aborted) return
      waiting = true
      clock.sleep(everyMs, stopping.signal).then(
        () => {
          waiting = false
          action()
        },
        () => {},
      )
    },
    stop: () => stopping.abort(),
  }
}
