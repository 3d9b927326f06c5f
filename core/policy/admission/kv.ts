/** The shape of a part's KV, from its manifest. */
export interface KvShape {
  /** [from, to): the model's layers that the part holds. */
  readonly layers: readonly [number, number]
  readonly kvHeads: number
  readonly headDim: number
}

export interface KvLimits {
  readonly bytesPerPosition: number
  readonly contextLimit: number
  /** Positions that a new stream is charged before its first row. */
  readonly firstPositions: number
}

/** A cached prefix: the KV that a closed stream has left for a later one. */
export interface CachedPrefix {
  readonly handle: string
  readonly kvBytes: number
}

export interface KvUsage {
  readonly budgetBytes: number
  /** Charged to streams and cached prefixes. */
  readonly usedBytes: number
}

/** fp32 keys and values of one position, in bytes. */
export function kvBytesPerPosition({ layers: [from, to], kvHeads, headDim }: KvShape): number {
  return 2 * (to - from) * kvHeads * headDim * 4
}

/** Bytes that a stream is charged before its first row. */
export function firstKvCharge({ firstPositions, contextLimit, bytesPerPosition }: KvLimits): number {
  return Math.min(firstPositions, contextLimit) * bytesPerPosition
}

/**
 * Bytes that a stream of `length` positions is charged: the size of its buffers, which grow by doubling up to the context
 * limit, not only the filled part.
 */
export function kvCharge(length: number, { contextLimit, bytesPerPosition }: KvLimits): number {
  return Math.min(contextLimit, 2 ** Math.ceil(Math.log2(Math.max(length, 1)))) * bytesPerPosition
}

/**
 * The fewest cached prefixes, oldest first, whose eviction makes room for `neededBytes` more; undefined where evicting all of
 * them is not enough.
 */
export function evictionsFor(
  neededBytes: number,
  { budgetBytes, usedBytes }: KvUsage,
  cached: readonly CachedPrefix[],
): readonly CachedPrefix[] | undefined {
  let missingBytes = usedBytes + neededBytes - budgetBytes
  let count = 0
  while (missingBytes > 0 && count < cached.length) {
    missingBytes -= cached[count]!.kvBytes
    count += 1
  }
  return missingBytes > 0 ? undefined : cached.slice(0, count)
}
