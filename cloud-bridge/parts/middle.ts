import { BrimError } from '../../core/kit/base/errors.ts'
import { releaseMemoryAtRest } from '../../core/kit/base/idle-memory.ts'
import { maxFrameBytesOf } from '../../core/wire/protocol/frame.ts'
import { noModelId } from '../../core/wire/protocol/messages.ts'
import type { Attester } from '../attestation/attester.ts'
import { readCertificates } from '../attestation/certificate-table.ts'
import { TsmAttester, tsmFolder } from '../attestation/tsm-attester.ts'
import { type ServedMiddle, serveMiddle } from '../hat/serve-middle.ts'
import type { Gate } from '../identity/gate.ts'
import { createDataPlane, type DataPlane } from '../link/data-plane.ts'
import { type OpenedModel, type OpenModel, openServedModel } from '../serving/open-served-model.ts'
import { noModel } from '../serving/served-model.ts'
import type { BridgeVariant } from '../variant.ts'
import type { Base } from './base.ts'
import { type Llms, openLlms } from './llms.ts'

const heartbeatMs = 15_000
const helloTimeoutMs = 10_000

/** In the place of a bundle that the bridge does not have. */
const nothing = { served: noModel, manifest: { modelId: noModelId, dims: { hidden: 1, contextLimit: 1 } }, slots: 1 }

/** The served models, the HAT sessions on their middles, and the data plane by which devices reach them. */
export interface Middle extends ServedMiddle {
  readonly opened: readonly OpenedModel[]
  readonly plane: DataPlane
  readonly llms: Llms
  /** From now on, called when the number of sessions has changed. */
  onCount(call: () => void): void
  /** Ends the sessions and closes the devices' connections. */
  close(): Promise<void>
}

/** @throws BrimError CONFIG_INVALID where two bundles are of one model; as the opening of a bundle */
export async function openMiddle(base: Base, gate: Gate, variant: BridgeVariant): Promise<Middle> {
  const { config, clock, closers, logger, metrics } = base
  const opened = await openModels(base, variant.openModel ?? openServedModel)
  const [first = nothing, ...others] = opened
  let announce = () => {}
  const served = serveMiddle(config, [first, ...others], {
    clock,
    logger,
    onCount: () => announce(),
    onStep: metrics.onStep,
    onAnswered: metrics.sizes.add,
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
  const llms = await openLlms(base, opened, served.servings)
  const plane = createDataPlane({
    sessions: served.sessions,
    bridge: config.id,
    modelId: first.manifest.modelId,
    draftLimit: config.draftLimit,
    maxFrameBytes: Math.max(
      ...[first, ...others].map(({ manifest }) => maxFrameBytesOf(config.frameTokens, manifest.dims.hidden)),
    ),
    gate,
    attester: variant.attester ?? openAttester(base),
    heartbeatMs,
    helloTimeoutMs,
    clock,
    logger: logger.child({ component: 'link' }),
  })
  return {
    ...served,
    opened,
    plane,
    llms,
    onCount(call) {
      announce = call
    },
    async close() {
      await served.sessions.shutdown({ code: 'LINK_LOST', message: `bridge ${config.id} is shutting down` })
      await plane.close()
    },
  }
}

/** @throws BrimError CONFIG_INVALID */
function openAttester({ config, logger }: Base): Attester | undefined {
  const { attestationCertificates: file } = config
  const certificates = file === undefined ? [] : readCertificates(file)
  if (TsmAttester.isPresent()) return new TsmAttester(certificates)
  if (file !== undefined) logger.warn({ folder: tsmFolder }, 'no evidence for devices: this kernel makes no attestation reports')
  return undefined
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
