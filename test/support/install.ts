import { join } from 'node:path'
import type { BundleFolder } from '../../agent/bundles/bundle-folder.ts'
import type { OwnBridge } from '../../agent/bundles/get.ts'
import { Patience } from '../../agent/bundles/patience.ts'
import { SequenceFloors } from '../../agent/bundles/sequence-floors.ts'
import { bundleInstall, type InstallOptions } from '../../agent/jobs/install.ts'
import type { JobContext } from '../../agent/jobs/job-handler.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { silentLogger } from './silent-logger.ts'

/** @param maxSilentMs while the device is connected */
export const patienceOf = (maxSilentMs: number) =>
  new Patience({ isConnected: () => true, maxSilentMs, clock: systemClock, random: { next: () => 0 } })

/** Gives up at the first broken connection. */
export const noPatience = () => patienceOf(0)

export const installLimits = { probeTimeoutS: 30, probeMemoryBytes: 2 ** 30 }

export interface InstallSettings extends Partial<InstallOptions> {
  readonly own?: OwnBridge | undefined
  readonly bundleSources?: readonly string[]
  readonly patience?: Patience
}

/** `bundle.install` of a device without a bridge, which gives up at the first broken connection. */
export const installInto = (
  folder: BundleFolder,
  { own, bundleSources: sources, patience = noPatience(), ...options }: InstallSettings = {},
) =>
  bundleInstall({
    folder,
    floors: new SequenceFloors(join(folder.folderOf('.'), '../bundle-sequences.json')),
    getOptions: (_link, signal) => ({ own, sources, stallMs: 30_000, patience, signal }),
    inUse: () => [],
    activate: async ({ commit }) => {
      await commit()
      return 'beside'
    },
    threads: 1,
    limits: installLimits,
    clock: systemClock,
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
