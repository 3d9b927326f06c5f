import { AnswersInProgress } from '../../core/answer/api/answers-in-progress.ts'
import type { ApiModel } from '../../core/answer/api/served.ts'
import { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import { loadTextModel, type TextModel } from '../../core/answer/endpoint/text-model.ts'
import { loadPicePrompts, readPicePrompts } from '../../core/answer/sketch/load-prompts.ts'
import { generalPrompts } from '../../core/answer/sketch/prompts.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { releaseMemoryAtRest } from '../../core/kit/base/idle-memory.ts'
import { version } from '../../core/kit/base/version.ts'
import type { Manifest } from '../../core/model/bundle/manifest.ts'
import type { ShownComputing } from '../../core/wire/protocol/computing.ts'
import { maxFrameBytesOf } from '../../core/wire/protocol/frame.ts'
import type { Health } from '../../core/wire/protocol/http/bridge.ts'
import { noModelId } from '../../core/wire/protocol/messages.ts'
import { type ServedMiddle, serveMiddle } from '../hat/serve-middle.ts'
import { createDataPlane, type DataPlane } from '../link/data-plane.ts'
import { AnswerStarts } from '../llm/answer-starts.ts'
import { bridgeEndpoint } from '../llm/endpoint.ts'
import { resumable } from '../llm/journalled-endpoint.ts'
import { ResumableAnswers, type ResumableModel } from '../llm/resumable-answers.ts'
import { type OpenedModel, type OpenModel, openServedModel } from '../serving/open-served-model.ts'
import { noModel } from '../serving/served-model.ts'
import type { Serving } from '../serving/serving.ts'
import { openUpstreams } from '../upstream/open-upstreams.ts'
import type { UpstreamView } from '../upstream/upstream-pool.ts'
import type { BridgeVariant } from '../variant.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import type { Network } from './network.ts'
import { openSketching } from './sketching.ts'
import type { FleetWork } from './work.ts'

const heartbeatMs = 15_000
const helloTimeoutMs = 10_000

/** In the place of a bundle that the bridge does not have. */
const nothing = { served: noModel, manifest: { modelId: noModelId, dims: { hidden: 1, contextLimit: 1 } }, slots: 1 }

/** The bridge's own answers. */
export interface ServedAnswers {
  readonly models: readonly ApiModel[]
  readonly starts: AnswerStarts
  /** Undefined: nothing can be resumed. */
  readonly resumable: ResumableAnswers | undefined
  readonly meter: AnswerMeter
  readonly inProgress: AnswersInProgress
  readonly upstreams: () => readonly UpstreamView[]
}

export interface OpenServing {
  /** All served models together. */
  readonly serving: ServedMiddle['serving']
  readonly steps: ServedMiddle['steps']
  readonly sessions: ServedMiddle['sessions']
  readonly plane: DataPlane
  /** Of the served bundles, as they were given. */
  readonly modelIds: readonly string[]
  /** What computes each of them: the CPU where a GPU was lost. */
  readonly computing: () => readonly ShownComputing[]
  readonly answers: ServedAnswers
  /** What operators see of the bridge. */
  load(): Pick<Health, 'version' | 'modelId' | 'modelIds' | 'computing' | 'uptimeS' | 'sessions' | 'kvBytes'>
}

/**
 * What answers: the served models, with their own answers, the HAT sessions on their middles and the data plane that they are
 * reached by; and upstreams.
 */
export async function openServing(
  base: Base,
  { announce }: Network,
  { grants }: Access,
  { expansions }: FleetWork,
  variant: BridgeVariant,
): Promise<OpenServing> {
  const { config, clock, closers, logger, metrics } = base
  const startedMs = clock.nowMs()
  const upstreams = openUpstreams(config, clock, logger.child({ component: 'upstream' }))
  closers.push(() => upstreams.close())
  const opened = await openModels(base, variant.openModel ?? openServedModel)
  const [first = nothing, ...others] = opened
  const served = serveMiddle(config, [first, ...others], {
    clock,
    logger,
    onCount: announce.trigger,
    onStep: metrics.onStep,
    servingPolicy: variant.servingPolicy,
    withoutKv: variant.withoutKv,
    fixedChunks: variant.fixedChunks,
    recording: base.recording,
    tracer: base.tracer,
  })
  closers.push(served.serving.close)
  const releaseFree = () => {
    for (const part of [...opened, ...served.servings.values()]) part.releaseFree()
  }
  closers.push(releaseMemoryAtRest(() => ({ active: 0, done: served.serving.metrics.steps }), releaseFree, clock))
  const plane = createDataPlane({
    sessions: served.sessions,
    bridge: config.id,
    modelId: first.manifest.modelId,
    draftLimit: config.draftLimit,
    maxFrameBytes: Math.max(
      ...[first, ...others].map(({ manifest }) => maxFrameBytesOf(config.frameTokens, manifest.dims.hidden)),
    ),
    gate: grants,
    heartbeatMs,
    helloTimeoutMs,
    clock,
    logger: logger.child({ component: 'link' }),
  })
  const sketching = openSketching(base, expansions, variant.sketches)
  const prompts = config.picePrompts === undefined ? generalPrompts : await readPicePrompts(config.picePrompts)
  const starts = new AnswerStarts(announce.trigger)
  const models: ApiModel[] = []
  const resumables: ResumableModel[] = []
  for (const { folder, manifest, served: parts } of opened) {
    if (!parts.tokens) continue
    const { modelId, card } = manifest
    const serving = served.servings.get(modelId)!
    const llm = bridgeEndpoint(serving, await loadLlm(folder, manifest, serving))
    const { full, ...sketched } = sketching(llm, await loadPicePrompts(folder, prompts), resumable, (asked) =>
      starts.begin(asked),
    )
    models.push({ name: card.name, modelId, endpoint: full, createdAt: card.createdAt, ...sketched })
    resumables.push({ modelId, endpoint: full }, { modelId, endpoint: sketched.sketching.endpoint })
  }
  for (const upstream of upstreams.endpoints) {
    const { name } = upstream.model
    const { full, ...sketched } = sketching(upstream, prompts, (endpoint) => endpoint)
    models.push({ name, endpoint: full, createdAt: new Date().toISOString(), ...sketched })
    resumables.push({ modelId: `upstream:${name}`, endpoint: sketched.sketching.endpoint })
  }
  const { serving, steps, sessions } = served
  const modelIds = opened.map(({ manifest }) => manifest.modelId)
  const computing = () => opened.map((model) => model.computing)
  return {
    serving,
    steps,
    sessions,
    plane,
    modelIds,
    computing,
    answers: {
      models,
      starts,
      resumable: openResumable(base, resumables),
      meter: new AnswerMeter(clock),
      inProgress: new AnswersInProgress('this bridge'),
      upstreams: () => upstreams.views,
    },
    load: () => ({
      version,
      modelId: modelIds[0] ?? null,
      modelIds,
      computing: computing(),
      uptimeS: Math.round((clock.nowMs() - startedMs) / 1_000),
      sessions: sessions.count,
      kvBytes: serving.memory.usedBytes - serving.memory.cachedBytes,
    }),
  }
}

/** @throws BrimError CONFIG_INVALID where two bundles are of one model; as the opening of a bundle */
async function openModels({ config, closers, progress, logger }: Base, openModel: OpenModel): Promise<OpenedModel[]> {
  const opened: OpenedModel[] = []
  for (const bundle of config.servedBundles) {
    const model = await openModel({
      ...config,
      kvBudgetBytes: Math.floor(config.kvBudgetBytes / config.servedBundles.length),
      bundle,
      progress,
      logger,
    })
    closers.push(model.close)
    const same = opened.find(({ manifest }) => manifest.modelId === model.manifest.modelId)
    if (same)
      throw new BrimError('CONFIG_INVALID', `the bundles ${same.folder} and ${bundle} are of one model`, {
        hint: 'give one of them with --bundle',
      })
    opened.push(model)
  }
  return opened
}

function openResumable(
  { config, clock, closers, logger }: Base,
  models: readonly ResumableModel[],
): ResumableAnswers | undefined {
  if (models.length === 0) return undefined
  const answers = new ResumableAnswers(models, {
    stateDir: config.stateDir,
    graceMs: config.limits.answerGraceS * 1_000,
    maxDetached: config.limits.detachedAnswers,
    clock,
    logger: logger.child({ component: 'api' }),
  })
  closers.push(() => answers.close())
  return answers
}

/** An answer has as much context as the KV memory holds, if that is less than the model's. */
async function loadLlm(bundle: string, manifest: Manifest, { maxPositions: contextLimit }: Serving): Promise<TextModel> {
  return loadTextModel(bundle, { ...manifest, dims: { ...manifest.dims, contextLimit } })
}
