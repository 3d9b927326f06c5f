import { z } from 'zod'
import { BrimError } from '../../core/kit/base/errors.ts'
import { beginTrial, failTrial, keepTrial, nextTrialStep, startTrial } from '../../core/policy/trial/trial.ts'
import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'
import type { BundleVersion } from '../bundles/bundle-folder.ts'
import { TrialFile } from '../trial/trial-file.ts'

/**
 * The activation that is under way, on disk: a bundle with which the agent dies again and again, or that is unhealthy, is not
 * activated again by another attempt of the same job.
 */
export class BundleTrial {
  readonly #file: TrialFile<BundleVersion>

  /** @param path of its file */
  constructor(path: string) {
    this.#file = new TrialFile(path, z.object({ modelId: z.string(), manifestSha256: z.string() }))
  }

  /** @param job its id, the same in all attempts. @throws BrimError HEALTH_CHECK_FAILED if the job must not try it again */
  begin(job: string, { modelId, manifestSha256 }: BundleVersion, probe: TrialQuestion | undefined): void {
    const version = { modelId, manifestSha256 }
    const { trial, last } = this.#file.state
    // One job activates at a time: a trial of another one ended with its agent.
    const step = nextTrialStep(last ? { last } : {}, job, version)
    if (step.kind === 'failed') throw unhealthy(step.problem)
    const isSame = trial?.job === job && trial.change.manifestSha256 === manifestSha256
    const begun = startTrial(isSame ? this.#file.state : beginTrial({}, job, version, probe))
    this.#file.set(begun)
    if (!begun.trial) throw unhealthy(begun.last?.problem ?? 'it was not healthy')
  }

  keep(): void {
    this.#file.set(keepTrial(this.#file.state))
  }

  /** @returns the error of the job */
  fail(problem: string, cause?: unknown): BrimError {
    this.#file.set(failTrial(this.#file.state, problem))
    return unhealthy(problem, cause)
  }

  /** The activation was canceled, which says nothing about the bundle. */
  cancel(): void {
    const { last } = this.#file.state
    this.#file.set(last ? { last } : {})
  }
}

const unhealthy = (problem: string, cause?: unknown) =>
  new BrimError('HEALTH_CHECK_FAILED', `the device answers with the bundle that it had before: ${problem}`, {
    cause,
    hint: 'fix the cause, then submit a new job',
  })
