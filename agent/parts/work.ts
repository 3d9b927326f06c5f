import { nextSeed } from '../../core/base/next-seed.ts'
import { createDeviceJobs } from '../jobs/device-jobs.ts'
import { hatGenerate, slmGenerate } from '../jobs/generate.ts'
import { bundleInstall } from '../jobs/install.ts'
import type { JobHandlers } from '../jobs/job-handler.ts'
import { JobLedger } from '../jobs/ledger.ts'
import { ProfileStore, profileDevice } from '../jobs/profile.ts'
import { hatVerify } from '../jobs/verify.ts'
import type { BridgeLinks } from '../link/bridge-links.ts'
import type { ActiveModels } from '../models/active-models.ts'
import { piceExpand } from '../pice/expand.ts'
import { slmEndpoint } from '../slm/endpoint.ts'
import type { Answering } from './answering.ts'
import type { Base } from './base.ts'
import { ownSmallModel } from './small-models.ts'

/** The jobs of this device. */
export function openWork(base: Base, models: ActiveModels, links: BridgeLinks, answering: Answering) {
  const { config, bundles, store, jobStore, verified, identities, clock, logger } = base
  const { meter } = answering
  const profiles = new ProfileStore(store)
  const install = bundleInstall({
    ...config,
    folder: bundles,
    bridgeOf(url) {
      const credentials = identities.at(url)
      if (credentials) return { origin: credentials.origin, credentials }
      const dataUrl = links.all.find((link) => link.url === url)?.status.dataUrl
      // The data plane is a WebSocket on the bridge's HTTP port.
      return dataUrl === undefined ? undefined : { origin: new URL(dataUrl.replace(/^ws/, 'http')).origin, credentials }
    },
    inUse: () => models.folders,
    activate: (version, signal) => models.activate(version, signal),
    clock,
  })
  const jobLogger = logger.child({ component: 'jobs' })
  const jobs = createDeviceJobs({ ledger: new JobLedger(jobStore), clock, logger: jobLogger })
  const expand = piceExpand({ models: ownSmallModel(models), jobsWaiting: () => jobs.counts.waiting ?? 0, clock, nextSeed })

  /** What the device can do with the models that it has now. */
  function handlers(): JobHandlers {
    const { llm, slm } = answering
    const small = slm && { modelId: models.slm.current?.model.modelId ?? '', endpoint: slm }
    const common = { meter, clock, nextSeed }
    const ofSplitModel = (split: NonNullable<typeof llm>): JobHandlers => ({
      'hat.generate': hatGenerate({ ...common, endpoint: split.endpoint }),
      'hat.verify': hatVerify(split.text, split.draftedBy),
      profile: profileDevice({
        llm: split.endpoint,
        llmId: split.manifest.modelId,
        speed: models.speed,
        slm: small,
        installed: () => bundles.list(),
        async open(folder) {
          const { openLocalModel } = await import('../slm/local-model.ts')
          const opened = await openLocalModel({ ...config, verified, bundle: folder })
          return { modelId: opened.modelId, endpoint: slmEndpoint(opened, clock), close: opened.close }
        },
        store: profiles,
        clock,
      }),
    })
    return {
      ...(llm ? ofSplitModel(llm) : {}),
      ...(slm ? { 'slm.generate': slmGenerate({ ...common, endpoint: slm }) } : {}),
      ...(slm ? { 'pice.expand': expand } : {}),
      'bundle.install': install,
    }
  }

  return { profiles, handlers, jobs }
}
export type Work = ReturnType<typeof openWork>
