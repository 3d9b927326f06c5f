import type { Clock } from '../../core/base/clock.ts'
import type { Closers } from '../../core/base/closers.ts'
import { createLogger, type Logger } from '../../core/base/logger.ts'
import { Progress } from '../../core/base/progress.ts'
import { Proxies } from '../../core/listen/proxies.ts'
import type { Recording } from '../../core/policy/recording.ts'
import { readingTokensPerS } from '../../core/policy/serving/reader.ts'
import { recordToFile } from '../../core/service/record-to-file.ts'
import type { BridgeConfig } from '../config.ts'
import { Downlink } from '../link/downlink.ts'
import { type ListenerSettings, listenerSettings } from '../listener-settings.ts'
import { type BridgeMetrics, createBridgeMetrics } from '../metrics/bridge-metrics.ts'
import { maxOpenFiles } from './max-open-files.ts'

/** Minimum interval between two publications of the retained state, and of a large fleet: each one goes to every device. */
const announceEveryMs = 1_000
const announcedDevicesPerS = 500

/** What every part needs. Each part registers with `closers` how it is closed. */
export interface Base {
  readonly config: BridgeConfig
  readonly clock: Clock
  readonly closers: Closers
  readonly logger: Logger
  readonly log: (component: string) => Logger
  readonly downlink: Downlink
  /** The retained state has changed. */
  readonly announce: { trigger(): void; onFleetSize(devices: number): void }
  readonly progress: Progress
  readonly listeners: ListenerSettings
  /** In front of the HTTP listener. */
  readonly proxies: Proxies
  readonly metrics: BridgeMetrics
  readonly startedMs: number
  /** Of this process's machines; undefined: none is asked for. */
  readonly recording: Recording | undefined
}

export function openBase(config: BridgeConfig, clock: Clock, closers: Closers): Base {
  const logger = createLogger(config.logLevel, { bridge: config.id }, config.log)
  const log = (component: string) => logger.child({ component })
  const recording = recordToFile(config.record, closers, logger)
  const listeners = listenerSettings(config.limits, maxOpenFiles(), log('listen'))
  const downlink = new Downlink()
  const announce = announcer(() => downlink.publishState(), clock)
  closers.push(announce.stop)
  const metrics = createBridgeMetrics(readingTokensPerS)
  const progress = new Progress(clock)
  const proxies = new Proxies(config.trustedProxies ?? [])
  const startedMs = clock.nowMs()
  return { config, clock, closers, logger, log, downlink, announce, progress, listeners, proxies, metrics, startedMs, recording }
}

/** Runs `publish` once, an interval after the first of several triggers. */
function announcer(publish: () => void, clock: Clock) {
  const stopping = new AbortController()
  let everyMs = announceEveryMs
  let waiting = false
  return {
    onFleetSize(devices: number) {
      everyMs = Math.max(announceEveryMs, (devices / announcedDevicesPerS) * 1_000)
    },
    trigger() {
      if (waiting || stopping.signal.aborted) return
      waiting = true
      clock.sleep(everyMs, stopping.signal).then(
        () => {
          waiting = false
          publish()
        },
        () => {},
      )
    },
    stop: () => stopping.abort(),
  }
}
