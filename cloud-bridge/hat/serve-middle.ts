import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { StateMonitor } from '../../core/policy/hat/state-monitor.ts'
import { decodeFirst } from '../../core/policy/serving/decode-first.ts'
import type { BridgeConfig } from '../config.ts'
import type { Middle } from '../serving/open-middle.ts'
import { createServing, type Serving } from '../serving/serving.ts'
import type { EndedStep } from '../serving/serving-metrics.ts'
import { StepLog } from '../serving/step-log.ts'
import { createSessions, type Sessions } from './sessions.ts'

/** A prompt goes first once this many steps have begun without it. */
const maxStepsSkipped = 4
/** A stream counts as decoding for this long after its last decode step. */
const decodingMs = 500
/** Steps that `/v1/steps` lists. */
const loggedSteps = 8_192
/** A piece of a prompt with fewer rows is not worth a place in a step. */
const minPromptRows = 16
/** X_min of HAT Eq. 3: a smaller frame is mostly header and step. */
const minChunkTokens = 16

export interface ServedMiddle {
  readonly serving: Serving
  readonly steps: StepLog
  readonly sessions: Sessions
}

/** The middle part of a bundle, serving HAT sessions. @param onCount the number of sessions has changed */
export function serveMiddle(
  config: BridgeConfig,
  { part, manifest, slots }: Middle,
  { clock, logger, onCount }: { clock: Clock; logger: Logger; onCount: () => void },
): ServedMiddle {
  const { hidden, contextLimit } = manifest.dims
  const { tokenBudget, promptTokens, frameTokens, chunkTokens, draftLimit, pipeline } = config
  const monitor = new StateMonitor(config.smoothing)
  const steps = new StepLog(loggedSteps)
  const originMs = clock.nowMs()
  const onStep = (step: EndedStep) => {
    steps.record(step, originMs, monitor.g.knots().length === 0 ? undefined : monitor.g.at(step.tokens))
    monitor.record(step.tokens, step.computeMs / 1_000)
  }
  const smallRows = Math.max(minPromptRows, draftLimit + 1)
  const serving = createServing({
    part,
    policy: decodeFirst({ promptRows: promptTokens, minPromptRows: smallRows, maxStepsSkipped, decodingMs }),
    step: { rows: tokenBudget, streams: slots, pipeline },
    kv: {
      budgetBytes: config.kvBudgetBytes,
      contextLimit,
      firstPositions: chunkTokens,
      prefixMs: config.prefixKeepS * 1_000,
    },
    maxDecodeRows: smallRows,
    clock,
    logger: logger.child({ component: 'serving' }),
    onStep,
  })
  // X_max of HAT Eq. 3: one step computes the whole chunk.
  const maxChunkTokens = Math.min(tokenBudget, frameTokens)
  const sessions = createSessions({
    serving,
    width: hidden,
    chunks: {
      monitor,
      limits: { minTokens: Math.min(minChunkTokens, maxChunkTokens), maxTokens: maxChunkTokens },
      pipeline,
      initialTokens: chunkTokens,
    },
    limits: {
      contextLimit,
      maxRows: frameTokens,
      sessionsPerPeer: config.sessionsPerConnection,
      idleMs: config.sessionIdleS * 1_000,
    },
    clock,
    logger: logger.child({ component: 'hat' }),
    onCount,
  })
  return { serving, steps, sessions }
}
