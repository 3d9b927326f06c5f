import { type ExpandInput, JobSubmission } from '../../core/wire/protocol/jobs.ts'
import type { BridgeLimits } from '../limits.ts'

/** Expansions come before jobs of operators: a client waits for them. */
const priority = 9
const minDeadlineS = 0.1

export type SubmissionLimits = Pick<BridgeLimits, 'expansionAcceptS' | 'expansionAttempts' | 'expansionStepS'>

/** A batch as a job for one device. @param endsInMs deadline of its last sketch */
export function submissionOf(
  device: string,
  input: ExpandInput,
  endsInMs: number,
  { expansionAcceptS, expansionAttempts, expansionStepS: stepS }: SubmissionLimits,
): JobSubmission {
  const deadlineS = Math.max(minDeadlineS, endsInMs / 1_000)
  return JobSubmission.parse({
    kind: 'pice.expand',
    input,
    device,
    priority,
    deadlineS,
    // An agent that was restarted goes on with the job; after other failures the scheduler ends it.
    attempts: expansionAttempts,
    timeouts: { acceptS: expansionAcceptS, startS: stepS, stepS, runS: deadlineS },
    disconnect: { lostAfterS: stepS, replace: false },
  })
}
