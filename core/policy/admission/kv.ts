export interface KvLimits {
  readonly bytesPerPosition: number
  /** What a stream of any length is charged besides, for the states of recurrent layers. Absent: 0. */
  readonly fixedBytes?: number
  readonly contextLimit: number
  /** Buffers grow by blocks of so many positions, up to the context limit. */
  readonly blockPositions: number
  /** Positions that a new stream is charged before its first row. */
  readonly firstPositions: number
}

/** The KV memory of one stream's positions. */
export interface KvSize {
  readonly bytesPerPosition: number
  /** What a stream of so many positions is charged; never less for more of them. */
  chargeOf(positions: number): number
}

/** A cached prefix: the KV that a closed stream has left for a later one. */
export interface CachedPrefix {
  readonly handle: string
  readonly owner: string
  readonly kvBytes: number
}

export interface KvUsage {
  readonly budgetBytes: number
  /** Charged to streams and cached prefixes. */
  readonly usedBytes: number
}

/** The KV memory of one device: its share of the budget, and what its streams and cached prefixes are charged. */
export interface KvShare extends KvUsage {
  readonly owner: string
}

/**
 * Bytes that a stream of `length` positions is charged: the size of its buffers, not only the filled part.
 */
export function kvCharge(length: number, { contextLimit, bytesPerPosition, blockPositions, fixedBytes = 0 }: KvLimits): number {
  const blocks = Math.ceil(Math.max(length, 1) / blockPositions)
  return Math.min(contextLimit, blocks * blockPositions) * bytesPerPosition + fixedBytes
}

/** As the bridge charges: whole blocks. */
export const blockwiseKv = (limits: KvLimits): KvSize => ({
  bytesPerPosition: limits.bytesPerPosition,
  chargeOf: (positions) => kvCharge(positions, limits),
})

/** The longest stream that is charged at most so many bytes, in positions; 0 where they do not hold a block. */
export function positionsWithin(bytes: number, limits: KvLimits): number {
  if (kvCharge(limits.contextLimit, limits) <= bytes) return limits.contextLimit
  const { bytesPerPosition, blockPositions, fixedBytes = 0 } = limits
  return Math.max(0, Math.floor((bytes - fixedBytes) / (bytesPerPosition * blockPositions))) * blockPositions
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

/**
 * As `evictionsFor`, for a device that must also stay within its share, for which only its own prefixes are evicted.
 * @param cached read only where something must be evicted
 */
export function evictionsWithinShare(
  neededBytes: number,
  usage: KvUsage,
  share: KvShare,
  cached: Iterable<CachedPrefix>,
): readonly CachedPrefix[] | undefined {
  const fits = [usage, share].every(({ budgetBytes, usedBytes }) => usedBytes + neededBytes <= budgetBytes)
  if (fits) return []
  const all = [...cached]
  const own = evictionsFor(
    neededBytes,
    share,
    all.filter(({ owner }) => owner === share.owner),
  )
  if (!own) return undefined
  const usedBytes = own.reduce((bytes, { kvBytes }) => bytes - kvBytes, usage.usedBytes)
  const others = evictionsFor(
    neededBytes,
    { ...usage, usedBytes },
    all.filter((prefix) => !own.includes(prefix)),
  )
  return others && [...own, ...others]
}

/** Why a device gets no more KV memory. It does not say what other devices hold, which would reveal when they work. */
export function kvShortage({ usedBytes, budgetBytes }: KvShare): string {
  const [used, max] = [usedBytes, budgetBytes].map((bytes) => (bytes / 2 ** 20).toFixed(1))
  return `the bridge's KV memory is full: this device has ${used} of at most ${max} MB (limit deviceKvPercent)`
}
