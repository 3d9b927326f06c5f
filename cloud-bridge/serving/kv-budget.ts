import type { Sequence } from '../../core/engine/contract.ts'
import type { PartManifest } from '../../core/model/manifest.ts'

export interface KvLimits {
  readonly budgetBytes: number
  readonly contextLimit: number
  /** What a session is charged from its first moment, in positions. */
  readonly startPositions: number
}

/** Shares a fixed amount of KV memory among sequences. */
export interface KvBudget {
  /** Bytes charged now. */
  readonly usedBytes: number
  /** Charges a new sequence; false where there is no room for one. */
  admit(sequence: Sequence): boolean
  /** Charges what it takes to reach `length` positions, before the buffers grow; false where there is no room. */
  grow(sequence: Sequence, length: number): boolean
  free(sequence: Sequence): void
  /** Bytes charged for this sequence. */
  chargeOf(sequence: Sequence): number
}

/** The same budget; where it is full, `reclaim` frees what nobody needs at once, until it says false. */
export function reclaiming(budget: KvBudget, reclaim: () => boolean): KvBudget {
  const insist = (charge: () => boolean) => {
    while (!charge()) if (!reclaim()) return false
    return true
  }
  return {
    get usedBytes() {
      return budget.usedBytes
    },
    admit: (sequence) => insist(() => budget.admit(sequence)),
    grow: (sequence, length) => insist(() => budget.grow(sequence, length)),
    free: budget.free,
    chargeOf: budget.chargeOf,
  }
}

/** fp32 keys and values of one position, in bytes. */
export function kvBytesPerPosition(part: PartManifest): number {
  const [from, to] = part.layers
  return 2 * (to - from) * part.kvHeads * part.headDim * 4
}

export function createKvBudget(part: PartManifest, limits: KvLimits): KvBudget {
  const perPosition = kvBytesPerPosition(part)
  const charges = new Map<Sequence, number>()
  let usedBytes = 0
  const charge = (sequence: Sequence, bytes: number): boolean => {
    const past = charges.get(sequence) ?? 0
    if (bytes <= past) return true
    if (usedBytes - past + bytes > limits.budgetBytes) return false
    usedBytes += bytes - past
    charges.set(sequence, bytes)
    return true
  }
  return {
    get usedBytes() {
      return usedBytes
    },
    admit: (sequence) => charge(sequence, Math.min(limits.startPositions, limits.contextLimit) * perPosition),
    grow(sequence, length) {
      // Buffers grow by doubling: what is charged is what they will be, not what is filled.
      const positions = Math.min(limits.contextLimit, 2 ** Math.ceil(Math.log2(Math.max(length, 1))))
      return charge(sequence, Math.max(sequence.bytes, positions * perPosition))
    },
    free(sequence) {
      usedBytes -= charges.get(sequence) ?? 0
      charges.delete(sequence)
    },
    chargeOf: (sequence) => charges.get(sequence) ?? 0,
  }
}
