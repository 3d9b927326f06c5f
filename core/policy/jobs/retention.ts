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
 * How many bytes of each device must be deleted so that the database fits its limit: the devices with the largest shares
 * give, until their shares are equal. So no device can displace the results of one that stores less.
 * @param shares bytes of each device; together they are assumed to take the whole database
 * @param usedBytes size of the database
 * @returns only devices that must give
 */
export function bytesToDelete(shares: ReadonlyMap<string, number>, usedBytes: number, maxBytes: number): Map<string, number> {
  const sorted = [...shares].sort(([, a], [, b]) => b - a)
  const total = sorted.reduce((sum, [, bytes]) => sum + bytes, 0)
  const surplus = Math.max(0, total - Math.floor((total * maxBytes) / usedBytes))
  let sum = 0
  for (const [i, [, bytes]] of sorted.entries()) {
    sum += bytes
    const next = sorted[i + 1]?.[1] ?? 0
    if (sum - (i + 1) * next < surplus) continue
    // Lowering the first i + 1 shares to this level frees the surplus.
    const level = (sum - surplus) / (i + 1)
    return new Map(sorted.filter(([, share]) => share > level).map(([device, share]) => [device, share - level]))
  }
  return new Map()
}
