import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { TrialStep } from '../../core/policy/trial/trial.ts'
import { RestartRequired } from './job-handler.ts'

const pollMs = 250

/**
 * Waits until no change is on trial.
 * @returns whether the change has been kept; otherwise it must be begun
 * @throws RestartRequired; BrimError HEALTH_CHECK_FAILED if an earlier attempt of the job has tried it
 */
export async function isKept(next: () => TrialStep, clock: Clock, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    const step = next()
    switch (step.kind) {
      case 'wait':
        await clock.sleep(pollMs, signal)
        break
      case 'restart':
        throw new RestartRequired()
      case 'failed':
        throw new BrimError('HEALTH_CHECK_FAILED', `the device has returned to what it had before: ${step.problem}`, {
          hint: 'fix the cause, then submit a new job',
        })
      case 'kept':
      case 'begin':
        return step.kind === 'kept'
      default:
        step satisfies never
    }
  }
}
