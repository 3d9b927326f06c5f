import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'
import type { BundleVersion } from './bundle-folder.ts'

/** A bundle with which the device is to answer. */
export interface BundleActivation extends BundleVersion {
  /** Folder of its files: its place among the installed bundles, or where it was downloaded to. */
  readonly folder: string
  /** Moves it to its place, once it is healthy. @returns its folder there */
  readonly commit: () => Promise<string>
  /** A question that it must answer; undefined: it need only open. */
  readonly probe: TrialQuestion | undefined
  /** Id of the job, the same in all attempts. */
  readonly job: string
}

/**
 * How it was activated. `beside`: new requests went to it at once, those in progress ended on the one before; `afterwards`: memory
 * did not allow both, so it waited until no answer was in progress; `unchanged`: the device answered with it already.
 */
export type Activated = 'beside' | 'afterwards' | 'unchanged'
