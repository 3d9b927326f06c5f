import type { ServingPlan, ServingState, StreamState } from './policy.ts'
import { Room } from './room.ts'

export interface AdmittedInOrder extends Pick<ServingPlan, 'evict' | 'preempt' | 'resume'> {
  /** The streams that can run: resident, with memory for their waiting rows; in the given order. */
  readonly ready: readonly StreamState[]
}

/**
 * First come, first served: resident streams grow, and evicted ones are resumed, in the given order while the memory lasts.
 * Where a resident stream has no memory for its next row, the last ones make way; only streams with a reader can.
 * @param ordered the waiting streams, first those that go first
 * @param growth `reserved`: a stream is resumed only where it, and all that are resident, can grow to their full length, so
 *   that nothing is preempted; `free`: as soon as its present rows fit
 */
export function admitInOrder(
  state: ServingState,
  ordered: readonly StreamState[],
  growth: 'reserved' | 'free' = 'free',
): AdmittedInOrder {
  const room = new Room(state)
  const residents = ordered.filter(({ residency }) => residency === 'resident')
  const preempted = new Set<StreamState>()
  const ready: StreamState[] = []
  for (const stream of residents) {
    if (preempted.has(stream)) continue
    let fits = room.take(stream.growthBytes)
    while (!fits && !preempted.has(stream)) {
      const last = residents.findLast((one) => one.reader && !preempted.has(one))
      // Streams that cannot make way, or that a step uses, will free memory later.
      if (!last || ready.includes(last)) break
      preempted.add(last)
      room.give(last.kvBytes)
      fits = last !== stream && room.take(stream.growthBytes)
    }
    if (fits) ready.push(stream)
  }
  const resume: ServingPlan['resume'][number][] = []
  // What has just made way waits for memory that others release.
  const evicted = preempted.size > 0 ? [] : ordered.filter(({ residency }) => residency === 'evicted')
  let reservedBytes = 0
  if (growth === 'reserved')
    for (const { residency, fullBytes, kvBytes, growthBytes } of ordered)
      if (residency !== 'evicted') reservedBytes += Math.max(0, fullBytes - kvBytes - growthBytes)
  for (const stream of evicted) {
    const isAlone = ready.length === 0 && residents.length === 0
    // Alone, a stream that fits nowhere in full gets what there is.
    if (growth === 'reserved' && !isAlone && room.freeBytes + room.cachedBytes < reservedBytes + stream.fullBytes) break
    if (!room.take(stream.kvBytes)) break
    if (growth === 'reserved') reservedBytes += Math.max(0, stream.fullBytes - stream.kvBytes)
    resume.push({ stream: stream.id, by: stream.resumptions.includes('load') ? 'load' : 'recompute' })
    ready.push(stream)
  }
  return { evict: room.evict, preempt: Array.from(preempted, ({ id }) => id), resume, ready: inOrder(ordered, ready) }
}

function inOrder(ordered: readonly StreamState[], ready: readonly StreamState[]): readonly StreamState[] {
  const isReady = new Set(ready)
  return ordered.filter((stream) => isReady.has(stream))
}
