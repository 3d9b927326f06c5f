import { freemem } from 'node:os'
import { join } from 'node:path'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { brokerNodes } from '../../core/wire/protocol/mqtt-url.ts'
import type { GetOptionsOf } from '../bundles/get.ts'
import { SequenceFloors } from '../bundles/sequence-floors.ts'
import { createDeviceJobs, type DeviceJobs } from '../jobs/device-jobs.ts'
import { hatGenerate, slmGenerate } from '../jobs/generate.ts'
import { bundleInstall } from '../jobs/install.ts'
import type { JobHandler, JobHandlers } from '../jobs/job-handler.ts'
import { ProfileStore, profileDevice } from '../jobs/profile.ts'
import { hatVerify } from '../jobs/verify.ts'
import type { ActiveModels } from '../models/active-models.ts'
import type { DeviceSmallModels } from '../pice/device-small-models.ts'
import { piceExpand } from '../pice/expand.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'
import type { AgentState } from './state.ts'

export interface DeviceWork {
  readonly jobs: DeviceJobs
  readonly profiles: ProfileStore
  /** What the device can do with the models that it has now. */
  handlers(): JobHandlers
}

/** The jobs of this device. */
export function openDeviceWork(
  { config, recording, clock, logger, disclosures }: Base,
  { bundles, store, ledger }: AgentState,
  models: ActiveModels,
  smallModels: DeviceSmallModels,
  answering: Answering,
  getOptions: GetOptionsOf,
): DeviceWork {
  const { meter } = answering
  const jobLogger = logger.child({ component: 'jobs' })
  const profiles = new ProfileStore(store)
  const install = bundleInstall({
    ...config,
    folder: bundles,
    floors: new SequenceFloors(join(config.stateDir, 'bundle-sequences.json')),
    getOptions,
    inUse: () => models.folders,
    logger: jobLogger,
    activate: (activation, signal) => models.activate(activation, (opened) => answering.endpointOf(opened), signal),
    clock,
  })
  const jobs = createDeviceJobs({ ledger, clock, logger: jobLogger })
  const expand = piceExpand({
    models: smallModels,
    jobsWaiting: () => jobs.counts.waiting ?? 0,
    kvBytes: () => Math.min(config.limits.expansionKvBytes, freemem() / 2),
    recording,
    clock,
    nextSeed,
    logger: jobLogger,
  })

  /** A job whose result, and what it sends before, has text. */
  const withText =
    (handler: JobHandler): JobHandler =>
    async (input, emitText, signal, job) => {
      const leaving = disclosures.job()
      // The nodes of one broker are one destination.
      const sends = (bytes: number) => leaving.request(new URL(brokerNodes(job.link)[0]!), bytes)
      try {
        sends(0)
        const result = await handler(input, emitText, signal, job)
        sends(Buffer.byteLength(JSON.stringify(result)))
        return result
      } finally {
        leaving.ended()
      }
    }

  function handlers(): JobHandlers {
    const { llm, slm } = answering
    const writer = slm ?? smallModels.server
    const common = { meter, clock, nextSeed }
    const ofSplitModel = (split: NonNullable<Answering['llm']>): JobHandlers => ({
      'hat.generate': withText(hatGenerate({ ...common, endpoint: split.endpoint })),
      'hat.verify': withText(hatVerify(split.text, split.draftedBy)),
    })
    const measure = profileDevice({
      llm: llm && { modelId: llm.manifest.modelId, endpoint: llm.endpoint },
      speed: models.speed,
      own: slm?.model.name,
      small: smallModels,
      store: profiles,
      clock,
    })
    const profile: JobHandler = async (...job) => {
      // Bundles may have been copied to the folder, or deleted.
      await models.updateSmallModels()
      return measure(...job)
    }
    return {
      ...(llm ? ofSplitModel(llm) : {}),
      ...(writer ? { 'slm.generate': withText(slmGenerate({ ...common, endpoint: writer })) } : {}),
      ...(smallModels.names.length > 0 ? { 'pice.expand': withText(expand) } : {}),
      ...(llm || smallModels.names.length > 0 ? { profile } : {}),
      async 'bundle.install'(...job) {
        try {
          return await install(...job)
        } finally {
          await models.updateSmallModels()
        }
      },
    }
  }

  return { profiles, handlers, jobs }
}
