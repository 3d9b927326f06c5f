import { loadTextModel, type TextModel } from '../../core/answer/text-model.ts'
import type { Manifest } from '../../core/model/manifest.ts'
import { maxFrameBytesOf } from '../../core/protocol/frame.ts'
import { serveMiddle } from '../hat/serve-middle.ts'
import { createDataPlane } from '../link/data-plane.ts'
import { bridgeEndpoint } from '../llm/endpoint.ts'
import { openServedModel } from '../serving/open-served-model.ts'
import type { Serving } from '../serving/serving.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'

const heartbeatMs = 15_000
const helloTimeoutMs = 10_000

/** The served model, its own answers, the HAT sessions on its middle, and the data plane that they are reached by. */
export async function openServing({ config, clock, closers, logger, log, announce, metrics }: Base, { grants }: Access) {
  const model = await openServedModel(config)
  closers.push(model.close)
  const served = serveMiddle(config, model, { clock, logger, onCount: announce.trigger, onStep: metrics.onStep })
  closers.push(served.serving.close)
  const { modelId, dims } = model.manifest
  const plane = createDataPlane({
    sessions: served.sessions,
    bridge: config.id,
    modelId,
    draftLimit: config.draftLimit,
    maxFrameBytes: maxFrameBytesOf(config.frameTokens, dims.hidden),
    gate: grants,
    heartbeatMs,
    helloTimeoutMs,
    clock,
    logger: log('link'),
  })
  const llm =
    model.served.tokens &&
    metrics.measured(bridgeEndpoint(served.serving, await loadLlm(config.bundle, model.manifest, served.serving)))
  return { ...served, modelId, plane, llm }
}

/** An answer has as much context as the KV memory holds, if that is less than the model's. */
async function loadLlm(bundle: string, manifest: Manifest, { maxPositions: contextLimit }: Serving): Promise<TextModel> {
  return loadTextModel(bundle, { ...manifest, dims: { ...manifest.dims, contextLimit } })
}
export type OpenServing = Awaited<ReturnType<typeof openServing>>
