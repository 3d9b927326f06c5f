import type { ServingState, StreamState } from '../serving/policy.ts'
import type { Room } from '../serving/room.ts'

export interface ReserveLimits {
  /** Until the memory is given out anew. */
  readonly untilChoiceMs: number
  /** Engine seconds that may go into computing preempted requests again; < 0: more have gone already. */
  readonly spareS: number
}

/**
 * Free memory, and what residents are going to need of it. Without a slow tier, what they grow by until their end stays free, but for
 * what may be computed again. Mutable, for one plan.
 */
export class GrowthReserve {
  readonly #room: Room
  readonly #growsSoon: (stream: StreamState) => number
  #soonBytes = 0
  /** Bytes that may be given away though residents will grow into them: as many are computed again in `spareS`, if they have to leave. */
  readonly #lentBytes: number
  #endBytes = 0
  #running: number

  constructor(residents: readonly StreamState[], room: Room, state: ServingState, limits: ReserveLimits) {
    this.#room = room
    this.#growsSoon = growthWithin(limits.untilChoiceMs, residents.length, state)
    this.#lentBytes = lendableBytes(residents, limits.spareS, state)
    this.#running = residents.length
    for (const stream of residents) {
      this.#soonBytes += this.#growsSoon(stream)
      this.#endBytes += growthToEnd(stream)
    }
  }

  /**
   * Takes the memory of a request that is resumed in spite of what residents grow by until the next choice: some may have to leave
   * before. @returns whether it was there
   */
  take(stream: StreamState): boolean {
    return this.#takeBeside(0, stream)
  }

  /** As `take`, of memory that residents do not need until the next choice: given away, it would soon have to be taken back. */
  takeSpare(stream: StreamState): boolean {
    return this.#takeBeside(this.#soonBytes, stream)
  }

  #takeBeside(soonBytes: number, stream: StreamState): boolean {
    const { freeBytes, cachedBytes } = this.#room
    const keptBytes = Math.max(soonBytes, this.#endBytes + growthToEnd(stream) - this.#lentBytes)
    // Alone, a request that fits nowhere in full gets what there is.
    if (this.#running > 0 && stream.kvBytes + keptBytes > freeBytes + cachedBytes) return false
    if (!this.#room.take(stream.kvBytes)) return false
    this.#endBytes += growthToEnd(stream)
    this.#running += 1
    return true
  }

  /** A resident is preempted, and grows no more. */
  leave(stream: StreamState): void {
    this.#soonBytes -= this.#growsSoon(stream)
    this.#endBytes -= growthToEnd(stream)
    this.#running -= 1
  }
}

const growthToEnd = ({ fullBytes, kvBytes }: StreamState): number => Math.max(0, fullBytes - kvBytes)

/**
 * Bytes by which a resident grows in this time, if each of so many decodes in every step that has a place for it; 0 where no step
 * has been measured.
 */
function growthWithin(ms: number, residents: number, { speeds, step }: ServingState): (stream: StreamState) => number {
  const stepS = speeds.stepSOf(Math.min(residents, step.streams))
  if (!stepS) return () => 0
  const rows = (ms / 1_000 / stepS) * Math.min(1, step.streams / residents)
  return (stream) => Math.min(growthToEnd(stream), (rows * stream.kvBytes) / Math.max(1, stream.contextLength))
}

function lendableBytes(residents: readonly StreamState[], spareS: number, { slow, speeds }: ServingState): number {
  if (slow && spareS >= 0) return Number.POSITIVE_INFINITY
  if (!speeds.prefillSPerRow || spareS <= 0) return 0
  let rows = 0
  let bytes = 0
  for (const { contextLength, kvBytes } of residents) {
    rows += contextLength
    bytes += kvBytes
  }
  return rows === 0 ? 0 : (spareS / speeds.prefillSPerRow) * (bytes / rows)
}
