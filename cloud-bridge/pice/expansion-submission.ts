import { type ExpandInput, JobSubmission } from '../../core/wire/protocol/jobs.ts'

/** Expansions come before jobs of operators: a client waits for them. */
const priority = 9
const minDeadlineS = 0.1
/** Time for a device to accept sketches. */
const acceptS = 5
/** Time without a sign of life of a device that expands. */
const stepS = 45

/** A batch as a job for one device. @param endsInMs deadline of its last sketch */
export function submissionOf(device: string, input: ExpandInput, endsInMs: number, attempts: number): JobSubmission {
  const deadlineS = Math.max(minDeadlineS, endsInMs / 1_000)
  return JobSubmission.parse({
    kind: 'pice.expand',
    input,
    device,
    priority,
    deadlineS,
    // An agent that was restarted goes on with the job; after other failures the scheduler ends it.
    attempts,
    timeouts: { acceptS, startS: stepS, stepS, runS: deadlineS },
    disconnect: { lostAfterS: stepS, replace: false },
  })
}
