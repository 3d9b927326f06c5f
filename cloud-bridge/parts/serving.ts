import { AnswerMeter } from '../../core/answer/meter.ts'
import { loadTextModel, type TextModel } from '../../core/answer/text-model.ts'
import { AnswersInProgress } from '../../core/api/answers-in-progress.ts'
import type { ApiModel } from '../../core/api/served.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { loadPicePrompts, readPicePrompts } from '../../core/pice/load-prompts.ts'
import { generalPrompts } from '../../core/pice/prompts.ts'
import { maxFrameBytesOf } from '../../core/protocol/frame.ts'
import { noModelId } from '../../core/protocol/messages.ts'
import { serveMiddle } from '../hat/serve-middle.ts'
import { createDataPlane } from '../link/data-plane.ts'
import { AnswerStarts } from '../llm/answer-starts.ts'
import { bridgeEndpoint } from '../llm/endpoint.ts'
import { type ResumableEndpoint, resumable } from '../llm/journalled-endpoint.ts'
import { ResumableAnswers } from '../llm/resumable-answers.ts'
import type { OpenModel } from '../serving/open-served-model.ts'
import { noModel } from '../serving/served-model.ts'
import type { Serving } from '../serving/serving.ts'
import { openUpstream } from '../upstream/open-upstream.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import { openSketching } from './sketching.ts'
import type { Work } from './work.ts'

const heartbeatMs = 15_000
const helloTimeoutMs = 10_000

/** In the place of a bundle that the bridge does not have. */
const nothing = { served: noModel, manifest: { dims: { hidden: 1, contextLimit: 1 } }, slots: 1 }

/**
 * What answers: the served model, with its own answers, the HAT sessions on its middle and the data plane that they are
 * reached by; and an upstream.
 */
export async function openServing(base: Base, { grants }: Access, work: Work, openModel: OpenModel) {
  const { config, clock, closers, logger, log, announce, progress, metrics } = base
  const { bundle } = config
  const upstream = config.upstream && openUpstream(config.upstream, config.limits, clock, log('upstream'))
  const model = bundle === undefined ? undefined : await openModel({ ...config, bundle, progress })
  if (model) closers.push(model.close)
  const { manifest } = model ?? nothing
  const served = serveMiddle(config, model ?? nothing, {
    clock,
    logger,
    onCount: announce.trigger,
    onStep: metrics.onStep,
  })
  closers.push(served.serving.close)
  const modelId = model?.manifest.modelId
  const plane = createDataPlane({
    sessions: served.sessions,
    bridge: config.id,
    modelId: modelId ?? noModelId,
    draftLimit: config.draftLimit,
    maxFrameBytes: maxFrameBytesOf(config.frameTokens, manifest.dims.hidden),
    gate: grants,
    heartbeatMs,
    helloTimeoutMs,
    clock,
    logger: log('link'),
  })
  const sketching = openSketching(base, work)
  const prompts = config.picePrompts === undefined ? generalPrompts : await readPicePrompts(config.picePrompts)
  const starts = new AnswerStarts(clock, announce.trigger)
  const models: ApiModel[] = []
  const resumables: ResumableEndpoint[] = []
  if (model?.served.tokens) {
    const { name, createdAt } = model.manifest.card
    const llm = starts.timed(bridgeEndpoint(served.serving, await loadLlm(model.folder, model.manifest, served.serving)))
    const { full, ...sketched } = sketching(llm, await loadPicePrompts(model.folder, prompts), resumable)
    models.push({ name, modelId, endpoint: full, createdAt, ...sketched })
    resumables.push(full, sketched.sketching.endpoint)
  }
  if (upstream) {
    const { full, ...sketched } = sketching(upstream, prompts, (endpoint) => endpoint)
    models.push({ name: upstream.model.name, endpoint: full, createdAt: new Date().toISOString(), ...sketched })
    resumables.push(sketched.sketching.endpoint)
  }
  return {
    ...served,
    modelId,
    plane,
    models,
    starts,
    resumable: openResumable(base, resumables, modelId),
    meter: new AnswerMeter(clock),
    inProgress: new AnswersInProgress('this bridge'),
  }
}

function openResumable({ config, clock, closers, log }: Base, endpoints: readonly ResumableEndpoint[], modelId = noModelId) {
  if (endpoints.length === 0) return undefined
  const answers = new ResumableAnswers(endpoints, {
    stateDir: config.stateDir,
    modelId,
    graceMs: config.limits.answerGraceS * 1_000,
    maxDetached: config.limits.detachedAnswers,
    clock,
    logger: log('api'),
  })
  closers.push(() => answers.close())
  return answers
}

/** An answer has as much context as the KV memory holds, if that is less than the model's. */
async function loadLlm(bundle: string, manifest: Manifest, { maxPositions: contextLimit }: Serving): Promise<TextModel> {
  return loadTextModel(bundle, { ...manifest, dims: { ...manifest.dims, contextLimit } })
}
export type OpenServing = Awaited<ReturnType<typeof openServing>>
