import { type ExpandInput, JobSubmission } from '../../core/protocol/jobs.ts'
import type { BridgeLimits } from '../limits.ts'
import type { PendingExpansion } from './pending-expansion.ts'

/** Expansions come before jobs of operators: a client waits for them. */
const priority = 9
const minDeadlineS = 0.1

export type SubmissionLimits = Pick<BridgeLimits, 'expansionAcceptS' | 'expansionAttempts' | 'expansionStepS'>

/** A batch as a job for one device. @param nowMs the clock's time */
export function submissionOf(
  device: string,
  batch: readonly PendingExpansion[],
  { expansionAcceptS, expansionAttempts, expansionStepS: stepS }: SubmissionLimits,
  nowMs: number,
) {
  const input: ExpandInput = { sketches: batch.map((pending) => pending.input) }
  const leftMs = Math.max(...batch.map(({ deadlineMs }) => deadlineMs)) - nowMs
  const deadlineS = Math.max(minDeadlineS, leftMs / 1_000)
  const submission = JobSubmission.parse({
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
  return { input, submission }
}
