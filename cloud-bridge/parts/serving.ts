import { AnswerMeter } from '../../core/answer/meter.ts'
import { loadTextModel, type TextModel } from '../../core/answer/text-model.ts'
import type { ApiModel } from '../../core/api/served.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { maxFrameBytesOf } from '../../core/protocol/frame.ts'
import { noModelId } from '../../core/protocol/messages.ts'
import { serveMiddle } from '../hat/serve-middle.ts'
import { createDataPlane } from '../link/data-plane.ts'
import { bridgeEndpoint } from '../llm/endpoint.ts'
import { resumable } from '../llm/journalled-endpoint.ts'
import { ResumableAnswers } from '../llm/resumable-answers.ts'
import type { OpenModel } from '../serving/open-served-model.ts'
import { noModel } from '../serving/served-model.ts'
import type { Serving } from '../serving/serving.ts'
import { openUpstream } from '../upstream/open-upstream.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'

const heartbeatMs = 15_000
const helloTimeoutMs = 10_000

/** In the place of a bundle that the bridge does not have. */
const nothing = { served: noModel, manifest: { dims: { hidden: 1, contextLimit: 1 } }, slots: 1 }

/**
 * What answers: the served model, with its own answers, the HAT sessions on its middle and the data plane that they are
 * reached by; and an upstream.
 */
export async function openServing(
  { config, clock, closers, logger, log, announce, metrics }: Base,
  { grants }: Access,
  openModel: OpenModel,
) {
  const { bundle } = config
  const upstream = config.upstream && openUpstream(config.upstream, config.limits, clock, log('upstream'))
  const model = bundle === undefined ? undefined : await openModel({ ...config, bundle })
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
  const models: ApiModel[] = []
  let resumableAnswers: ResumableAnswers | undefined
  if (model?.served.tokens) {
    const { name, createdAt } = model.manifest.card
    const llm = await loadLlm(model.folder, model.manifest, served.serving)
    const endpoint = resumable(metrics.measured(bridgeEndpoint(served.serving, llm)))
    models.push({ name, endpoint, createdAt })
    resumableAnswers = new ResumableAnswers([endpoint], {
      stateDir: config.stateDir,
      modelId: model.manifest.modelId,
      graceMs: config.limits.answerGraceS * 1_000,
      maxDetached: config.limits.detachedAnswers,
      clock,
      logger: log('api'),
    })
    closers.push(() => resumableAnswers?.close())
  }
  if (upstream)
    models.push({ name: upstream.model.name, endpoint: metrics.measured(upstream), createdAt: new Date().toISOString() })
  return { ...served, modelId, plane, models, resumable: resumableAnswers, meter: new AnswerMeter(clock) }
}

/** An answer has as much context as the KV memory holds, if that is less than the model's. */
async function loadLlm(bundle: string, manifest: Manifest, { maxPositions: contextLimit }: Serving): Promise<TextModel> {
  return loadTextModel(bundle, { ...manifest, dims: { ...manifest.dims, contextLimit } })
}
export type OpenServing = Awaited<ReturnType<typeof openServing>>
