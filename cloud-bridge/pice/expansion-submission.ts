import type { OfKind } from '../../core/policy/machine.ts'
import type { ExpansionAction } from '../../core/policy/pice/expansion-events.ts'
import { type ExpandInput, JobSubmission } from '../../core/wire/protocol/jobs.ts'

/** Expansions come before jobs of operators: a client waits for them. */
const priority = 9
const minDeadlineS = 0.1
/** Time without a sign of life of a device that expands. */
const stepS = 45

/** As the scheduler has decided. */
type SubmissionTimes = Pick<OfKind<ExpansionAction, 'submit'>, 'device' | 'endsInMs' | 'acceptMs'>

/** A batch as a job for one device. */
export function submissionOf(
  { device, endsInMs, acceptMs }: SubmissionTimes,
  input: ExpandInput,
  attempts: number,
): JobSubmission {
  const deadlineS = Math.max(minDeadlineS, endsInMs / 1_000)
  return JobSubmission.parse({
    kind: 'pice.expand',
    input,
    device,
    priority,
    deadlineS,
    // An agent that was restarted goes on with the job; after other failures the scheduler ends it.
    attempts,
    timeouts: { acceptS: acceptMs / 1_000, startS: stepS, stepS, runS: deadlineS },
    disconnect: { lostAfterS: stepS, replace: false },
  })
}
