import type { Clock } from '../../core/kit/base/clock.ts'
import type { Closers } from '../../core/kit/base/closers.ts'
import { createLogger, type Logger } from '../../core/kit/base/logger.ts'
import { Progress } from '../../core/kit/base/progress.ts'
import { recordToFile } from '../../core/kit/service/record-to-file.ts'
import { openTracer } from '../../core/kit/trace/open-tracer.ts'
import type { Tracer } from '../../core/kit/trace/tracer.ts'
import type { Recording } from '../../core/policy/recording.ts'
import { readingTokensPerS } from '../../core/policy/serving/reader.ts'
import type { BridgeConfig } from '../config.ts'
import { type BridgeMetrics, createBridgeMetrics } from '../metrics/bridge-metrics.ts'

/** What every part needs. Each part registers with `closers` how it is closed. */
export interface Base {
  readonly config: BridgeConfig
  readonly clock: Clock
  readonly closers: Closers
  readonly logger: Logger
  readonly progress: Progress
  readonly metrics: BridgeMetrics
  /** Of this process's machines; undefined: none is asked for. */
  readonly recording: Recording | undefined
  readonly tracer: Tracer
}

/** @throws BrimError TARGET_UNWRITABLE, PREREQUISITE_MISSING */
export async function openBase(config: BridgeConfig, clock: Clock, closers: Closers): Promise<Base> {
  const logger = createLogger(config.logLevel, { bridge: config.id }, config.log)
  return {
    config,
    clock,
    closers,
    logger,
    progress: new Progress(clock),
    metrics: createBridgeMetrics(readingTokensPerS),
    recording: recordToFile(config.record, closers, logger),
    tracer: await openTracer({
      ...{ endpoint: config.otlpEndpoint, service: 'brim-bridge', instance: config.id },
      ...{ clock, closers, logger: logger.child({ component: 'trace' }) },
    }),
  }
}
