/** How long finished jobs are retained, with their history and idempotency key. */
export interface RetentionLimits {
  /** For jobs that succeeded or were canceled. */
  readonly doneMs: number
  /** For dead letters: jobs that failed, were rejected or timed out. */
  readonly deadMs: number
  /** Maximum number of done jobs, and of dead letters. */
  readonly maxJobs: number
  /** Maximum size of the database. */
  readonly maxBytes: number
}

/**
 * How many of `count` finished jobs exceed the limits of number and size. Assumes that each job uses the same space.
 * @param usedBytes size of the whole database
 */
export function surplusJobs(
  count: number,
  usedBytes: number,
  { maxJobs, maxBytes }: Pick<RetentionLimits, 'maxJobs' | 'maxBytes'>,
): number {
  const surplusShare = Math.max(0, 1 - maxBytes / usedBytes)
  return Math.max(0, count - maxJobs, Math.ceil(count * surplusShare))
}
