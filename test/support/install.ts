import type { BundleFolder } from '../../agent/bundles/bundle-folder.ts'
import { Patience } from '../../agent/bundles/patience.ts'
import { bundleInstall, type InstallOptions } from '../../agent/jobs/install.ts'
import type { JobContext } from '../../agent/jobs/job-handler.ts'
import { systemClock } from '../../core/base/clock.ts'
import { silentLogger } from './silent-logger.ts'

const random = { next: () => 0 }

/** Gives up at the first broken connection. */
export const noPatience = () => new Patience({ isConnected: () => true, maxSilentMs: 0, clock: systemClock, random })

export const installLimits = { probeTimeoutS: 30, probeMemoryBytes: 2 ** 30, downloadSilentS: 0 }

/** `bundle.install` of a device without a bridge, which gives up at the first broken connection. */
export const installInto = (folder: BundleFolder, options: Partial<InstallOptions> = {}) =>
  bundleInstall({
    folder,
    bridgeOf: () => undefined,
    isConnected: () => true,
    inUse: () => [],
    activate: async ({ commit }) => {
      await commit()
      return 'beside'
    },
    threads: 1,
    limits: installLimits,
    clock: systemClock,
    random,
    logger: silentLogger(),
    ...options,
  })

export const jobContext = (fields: Partial<JobContext> = {}): JobContext => ({
  id: 'bridge-1 0-1',
  link: 'mqtt://a',
  progress: () => {},
  waitedMs: 0,
  finishedSentences: [],
  sentence: () => {},
  ...fields,
})
