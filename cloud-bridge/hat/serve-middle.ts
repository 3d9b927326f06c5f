import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import { StateMonitor } from '../../core/policy/hat/state-monitor.ts'
import type { BridgeConfig } from '../config.ts'
import { createKvBudget } from '../serving/kv-budget.ts'
import type { Middle } from '../serving/open-middle.ts'
import { StepLog } from '../serving/step-log.ts'
import { createStepLoop, type EndedStep } from '../serving/step-loop.ts'
import { createSessions } from './sessions.ts'

/** Steps that a prompt may be passed over. */
const patience = 4
/** Of the steps remembered for `/v1/steps`. */
const mostSteps = 8_192
/** Fewer rows of a prompt are not worth a place in a step. */
const leastPiece = 16
/** X_min of HAT Eq. 3: a smaller frame is mostly header and step. */
const leastChunk = 16

/** The middle part at the service of many sessions. */
export function serveMiddle(
  config: BridgeConfig,
  { part, manifest, slots }: Middle,
  { clock, logger, onCount }: { clock: Clock; logger: Logger; onCount: () => void },
) {
  const { hidden, contextLimit } = manifest.dims
  const { tokenBudget, promptTokens, frameTokens, chunkTokens, draftLimit, pipeline } = config
  const { kvBudgetBytes, sessionsPerConnection, sessionIdleS, prefixKeepS } = config
  const monitor = new StateMonitor()
  const steps = new StepLog(mostSteps)
  const sinceMs = clock.nowMs()
  const onStep = (step: EndedStep) => {
    steps.record(step, sinceMs, monitor.g.knots().length === 0 ? undefined : monitor.g.delayS(step.tokens))
    monitor.record(step.tokens, step.computeMs / 1_000)
  }
  const loop = createStepLoop(
    part,
    { tokenBudget, promptTokens, slots, smallTokens: Math.max(leastPiece, draftLimit + 1), patience, pipeline },
    clock,
    onStep,
  )
  const budget = createKvBudget(part.manifest, { budgetBytes: kvBudgetBytes, contextLimit, startPositions: chunkTokens })
  const limits = {
    contextLimit,
    maxRows: frameTokens,
    sessionsPerPeer: sessionsPerConnection,
    idleMs: sessionIdleS * 1_000,
    keepMs: prefixKeepS * 1_000,
  }
  const log = logger.child({ component: 'hat' })
  // X_max: a chunk is computed in one step.
  const mostChunk = Math.min(tokenBudget, frameTokens)
  const chunks = {
    monitor,
    limits: { least: Math.min(leastChunk, mostChunk), most: mostChunk },
    pipeline,
    initialTokens: chunkTokens,
  }
  const sessions = createSessions({ part, width: hidden, loop, budget, chunks, limits, clock, logger: log, onCount })
  return { loop, steps, budget, sessions }
}
