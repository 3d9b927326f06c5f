/** What waits for a bridge, by topic: the less important goes first where there is no room. */
export const spoolPriorities = { telemetry: 0, log: 1 } as const
export type SpooledLeaf = keyof typeof spoolPriorities

export interface SpoolLimits {
  readonly maxBytes: number
  readonly maxAgeMs: number
}

/** What waits under one topic. */
export interface SpoolQueue {
  readonly leaf: SpooledLeaf
  readonly count: number
  /** Of its oldest; null: nobody knows. */
  readonly oldestAgeMs: number | null
}

/** Of a message that was never sent: no room, too old, or the disk did not take it. */
export type DropReason = 'full' | 'old' | 'unstored'

/** The oldest of this shelf goes. */
export interface Drop {
  readonly leaf: SpooledLeaf
  readonly reason: Extract<DropReason, 'full' | 'old'>
}

/**
 * What is to be dropped next: what is too old, wherever it is; where the whole is too large, the oldest of the least
 * important. Asked again after each.
 * @param usedBytes of all shelves, as they lie on disk
 */
export function nextDrop(shelves: readonly SpoolQueue[], usedBytes: number, limits: SpoolLimits): Drop | undefined {
  const filled = byImportance(shelves)
  const old = filled.find(({ oldestAgeMs }) => oldestAgeMs !== null && oldestAgeMs > limits.maxAgeMs)
  if (old) return { leaf: old.leaf, reason: 'old' }
  const [least] = filled
  return usedBytes > limits.maxBytes && least ? { leaf: least.leaf, reason: 'full' } : undefined
}

export type ReplayStep =
  | { readonly kind: 'idle' }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'send'; readonly leaf: SpooledLeaf }

/**
 * What is to be said next of what waits: the most important first, in each shelf the oldest; one message a gap, so that
 * what is said live has the link.
 * @param sinceSentMs since the last one
 */
export function nextReplay(
  shelves: readonly Pick<SpoolQueue, 'leaf' | 'count'>[],
  isHeard: boolean,
  sinceSentMs: number,
  gapMs: number,
): ReplayStep {
  const most = byImportance(shelves).at(-1)
  if (!isHeard || !most) return { kind: 'idle' }
  return sinceSentMs < gapMs ? { kind: 'wait', ms: gapMs - sinceSentMs } : { kind: 'send', leaf: most.leaf }
}

/** Those that hold something, the least important first. */
function byImportance<T extends Pick<SpoolQueue, 'leaf' | 'count'>>(shelves: readonly T[]): T[] {
  return shelves.filter(({ count }) => count > 0).sort((a, b) => spoolPriorities[a.leaf] - spoolPriorities[b.leaf])
}

/** A moment on one device: its time of day, which may not have been set, and its monotonic time since that birth. */
export interface Moment {
  readonly wallMs: number
  readonly isSet: boolean
  readonly birth: number
  readonly monotonicMs: number
}

/** How long ago that was, ms; null where neither of the two clocks covers both. */
export function ageMs(then: Moment, now: Moment): number | null {
  if (then.birth === now.birth) return Math.max(0, now.monotonicMs - then.monotonicMs)
  return then.isSet && now.isSet ? Math.max(0, now.wallMs - then.wallMs) : null
}

/**
 * The time of day of a moment at which nobody knew it, once it is known.
 * @returns undefined where it needs no mending, or cannot be mended: the agent has started again since
 */
export function mendedWallMs(then: Moment, now: Moment): number | undefined {
  if (then.isSet || !now.isSet || then.birth !== now.birth) return undefined
  return Math.round(now.wallMs - (now.monotonicMs - then.monotonicMs))
}
