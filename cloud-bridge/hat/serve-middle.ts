import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Tracer } from '../../core/kit/trace/tracer.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import type { Recording } from '../../core/policy/recording.ts'
import { smallRows } from '../../core/policy/serving/step-defaults.ts'
import { createPolicy, type PolicyOptions } from '../../core/policy/tokenflow/named-policies.ts'
import { stateCoders } from '../../core/wire/protocol/row-coder.ts'
import type { BridgeConfig } from '../config.ts'
import { type JointServing, servedJointly } from '../serving/joint-serving.ts'
import type { OpenedModel } from '../serving/open-served-model.ts'
import { openSlowTier } from '../serving/open-slow-tier.ts'
import { createServing, type Serving } from '../serving/serving.ts'
import { type EndedStep, ServingMetrics } from '../serving/serving-metrics.ts'
import { StepLog } from '../serving/step-log.ts'
import type { BridgeVariant } from '../variant.ts'
import { createSessions, type SessionModel, type Sessions, type SessionsOptions } from './sessions.ts'

/** Steps that `/v1/steps` lists. */
const loggedSteps = 8_192
/** Rows of a session wait so long for KV memory that others hold; then its device replays it at a bridge with memory. */
const maxMemoryWaitMs = 10_000
/** Replies that one session sends again for repeated frames. */
const maxRepeats = 64
/** X_min of HAT Eq. 3: a smaller frame is mostly header and step. */
const minChunkTokens = 16

/** What is served, and its dimensions. */
type Served = Pick<OpenedModel, 'served' | 'slots'> & {
  readonly computing?: Pick<OpenedModel['computing'], 'provider'>
  readonly manifest: Pick<Manifest, 'modelId' | 'coding'> & { readonly dims: Pick<Manifest['dims'], 'hidden' | 'contextLimit'> }
}

export interface ServeMiddleOptions extends Pick<BridgeVariant, 'servingPolicy' | 'withoutKv' | 'fixedChunks'> {
  readonly clock: Clock
  readonly logger: Logger
  /** The number of sessions has changed. */
  readonly onCount: () => void
  readonly onStep?: ((step: EndedStep) => void) | undefined
  readonly onAnswered?: SessionsOptions['onAnswered']
  readonly recording?: Recording | undefined
  readonly tracer?: Tracer | undefined
}

export interface ServedMiddle {
  /** By model id. */
  readonly servings: ReadonlyMap<string, Serving>
  /** All of them together. */
  readonly serving: JointServing
  readonly steps: StepLog
  readonly sessions: Sessions
}

/** The middle parts of one bundle or several, serving HAT sessions. Each has a step loop, and its part of the KV memory. */
export function serveMiddle(
  config: BridgeConfig,
  bundles: readonly [Served, ...Served[]],
  options: ServeMiddleOptions,
): ServedMiddle {
  const { clock, logger, tracer, onCount, onAnswered, onStep: onEachStep, recording } = options
  const { servingPolicy, withoutKv, fixedChunks } = options
  const { tokenBudget, promptTokens, frameTokens, chunkTokens, draftLimit } = config
  const steps = new StepLog(loggedSteps)
  const metrics = new ServingMetrics(Math.max(...bundles.map(({ slots }) => slots)))
  const originMs = clock.nowMs()
  const servingLogger = logger.child({ component: 'serving' })
  const slow = openSlowTier(config, { clock, logger: servingLogger }, bundles.map(kvModelOf))
  const budgetBytes = Math.floor(config.kvBudgetBytes / bundles.length)
  const decodeRows = smallRows(draftLimit)
  const newPolicy = servingPolicy ?? ((options: PolicyOptions) => createPolicy(config.servingPolicy, options))
  // X_max of HAT Eq. 3: one step computes the whole chunk.
  const maxChunkTokens = Math.min(tokenBudget, frameTokens)
  const chunkLimits = fixedChunks
    ? { minTokens: chunkTokens, maxTokens: chunkTokens }
    : { minTokens: Math.min(minChunkTokens, maxChunkTokens), maxTokens: maxChunkTokens }

  function serve(bundle: Served): SessionModel {
    const { served, manifest, slots } = bundle
    const { dims } = manifest
    const onStep = (step: EndedStep) => {
      steps.record(step, originMs)
      onEachStep?.(step)
    }
    const policy = { name: config.servingPolicy, options: { promptRows: promptTokens, minPromptRows: decodeRows } }
    const serving = createServing({
      model: served,
      policy: newPolicy(policy.options),
      recorded: recording && !servingPolicy ? { recording, policy } : undefined,
      step: { rows: tokenBudget, streams: slots, pipeline: 1 },
      kv: {
        budgetBytes,
        ownerBytes: Math.floor((budgetBytes * config.limits.deviceKvPercent) / 100),
        contextLimit: dims.contextLimit,
        firstPositions: chunkTokens,
        prefixMs: config.prefixKeepS * 1_000,
      },
      tiers: { slow, kvModel: kvModelOf(bundle), writeThrough: !withoutKv?.writeThrough, overlap: !withoutKv?.overlap },
      maxDecodeRows: decodeRows,
      maxMemoryWaitMs,
      maxWaitingAnswers: config.limits.waitingAnswers,
      clock,
      logger: servingLogger,
      onStep,
      metrics,
    })
    return {
      serving,
      refusal: served.rows ? undefined : `bridge ${config.id} serves a model without a split: devices cannot take part`,
      width: dims.hidden,
      coders: stateCoders(manifest),
      chunks: {
        monitor: serving.monitor,
        limits: chunkLimits,
        pipeline: 1,
        initialTokens: chunkTokens,
      },
      contextLimit: dims.contextLimit,
    }
  }

  const models = new Map(bundles.map((bundle) => [bundle.manifest.modelId, serve(bundle)]))
  const sessions = createSessions({
    models,
    limits: {
      maxRows: frameTokens,
      // A verification: the draft and the token before it.
      maxPaddedRows: draftLimit + 1,
      maxRepeats,
      sessionsPerDevice: config.limits.deviceSessions,
      idleMs: config.sessionIdleS * 1_000,
    },
    clock,
    logger: logger.child({ component: 'hat' }),
    tracer,
    onCount,
    onAnswered,
  })
  const servings = new Map([...models].map(([modelId, { serving }]) => [modelId, serving]))
  return { servings, serving: servedJointly([...servings.values()], metrics), steps, sessions }
}

/** Other weights, another provider and rows of another size give other KV. */
const kvModelOf = ({ served: { tokens }, manifest: { modelId }, computing }: Served) =>
  `${modelId} ${computing?.provider ?? ''} ${tokens?.bytesPerPosition ?? 0}`
