import { maxFrameBytesOf } from '../../core/protocol/frame.ts'
import { serveMiddle } from '../hat/serve-middle.ts'
import { createDataPlane } from '../link/data-plane.ts'
import { openMiddle } from '../serving/open-middle.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'

const heartbeatMs = 15_000
const helloTimeoutMs = 10_000

/** The middle submodel, the HAT sessions on it, and the data plane that they are reached by. */
export async function openServing({ config, clock, closers, logger, log, announce }: Base, { grants }: Access) {
  const middle = await openMiddle(config)
  closers.push(middle.close)
  const served = serveMiddle(config, middle, { clock, logger, onCount: announce.trigger })
  closers.push(served.serving.close)
  const { modelId, dims } = middle.manifest
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
  return { ...served, modelId, plane }
}
export type OpenServing = Awaited<ReturnType<typeof openServing>>
