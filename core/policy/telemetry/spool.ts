/** Topics whose messages are spooled, by importance: if space is short, the less important are dropped first. */
export const spoolPriorities = { telemetry: 0, log: 1 } as const
export type SpooledLeaf = keyof typeof spoolPriorities

export interface SpoolLimits {
  readonly maxBytes: number
  readonly maxAgeMs: number
}

/** The spooled messages of one topic. */
export interface SpoolQueue {
  readonly leaf: SpooledLeaf
  readonly count: number
  /** Age of the oldest message; null: unknown. */
  readonly oldestAgeMs: number | null
}

/** Why a message will never be sent: the spool was full, the message too old, or the disk did not store it. */
export type DropReason = 'full' | 'old' | 'unstored'

/** Drop the oldest message of this queue. */
export interface Drop {
  readonly leaf: SpooledLeaf
  readonly reason: Extract<DropReason, 'full' | 'old'>
}

/**
 * The next message to drop: one that is too old, in any queue; else, if the spool is too large, the oldest of the least
 * important queue. The caller asks again after each drop.
 * @param usedBytes of all queues on disk
 */
export function nextDrop(queues: readonly SpoolQueue[], usedBytes: number, limits: SpoolLimits): Drop | undefined {
  const filled = byImportance(queues)
  const old = filled.find(({ oldestAgeMs }) => oldestAgeMs !== null && oldestAgeMs > limits.maxAgeMs)
  if (old) return { leaf: old.leaf, reason: 'old' }
  const [least] = filled
  return usedBytes > limits.maxBytes && least ? { leaf: least.leaf, reason: 'full' } : undefined
}

/** The queue whose oldest message is replayed next; undefined: all are empty. */
export function mostImportant(queues: readonly Pick<SpoolQueue, 'leaf' | 'count'>[]): SpooledLeaf | undefined {
  return byImportance(queues).at(-1)?.leaf
}

/** The queues that hold messages, the least important first. */
function byImportance<T extends Pick<SpoolQueue, 'leaf' | 'count'>>(queues: readonly T[]): T[] {
  return queues.filter(({ count }) => count > 0).sort((a, b) => spoolPriorities[a.leaf] - spoolPriorities[b.leaf])
}

/** A moment on one device. */
export interface Moment {
  /** Time of day; meaningless unless `isSet`. */
  readonly wallMs: number
  readonly isSet: boolean
  /** Start of the agent that `monotonicMs` belongs to. */
  readonly birth: number
  readonly monotonicMs: number
}

/** How long ago a moment was, in ms; null if neither clock covers both moments. */
export function ageMs(then: Moment, now: Moment): number | null {
  if (then.birth === now.birth) return Math.max(0, now.monotonicMs - then.monotonicMs)
  return then.isSet && now.isSet ? Math.max(0, now.wallMs - then.wallMs) : null
}

/**
 * The time of day of a moment at which the device's clock was not set, computed once it is.
 * @returns undefined if the moment has a time of day, or the agent has restarted since
 */
export function completedWallMs(then: Moment, now: Moment): number | undefined {
  if (then.isSet || !now.isSet || then.birth !== now.birth) return undefined
  return Math.round(now.wallMs - (now.monotonicMs - then.monotonicMs))
}
