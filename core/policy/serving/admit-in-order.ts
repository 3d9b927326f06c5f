import { isDevice, isEvictable, placeDevices } from './place-devices.ts'
import type { ServingPlan, ServingState, StreamState } from './policy.ts'
import { Room } from './room.ts'

export interface AdmittedInOrder extends Pick<ServingPlan, 'evict' | 'preempt' | 'resume'> {
  /** The streams that can run: resident, with memory for their waiting rows; in the given order. */
  readonly ready: readonly StreamState[]
}

/**
 * First come, first served: devices' streams get their memory first; then resident streams grow, and evicted ones are resumed,
 * in the given order while the memory lasts. Where a resident stream has no memory for its next row, the last ones make way.
 * @param ordered the waiting streams, first those that go first
 * @param growth `free`: a stream is resumed as soon as its present rows fit; a number: only where it can grow to its full length,
 *   and the residents by this share of what they lack. With 1, nothing is preempted.
 */
export function admitInOrder(
  state: ServingState,
  ordered: readonly StreamState[],
  growth: 'free' | number = 'free',
): AdmittedInOrder {
  const room = new Room(state)
  const residents = ordered.filter((one) => one.residency === 'resident' && !isDevice(one))
  const devices = placeDevices(state, room, isDevice, () => residents.toReversed())
  const preempted = new Set(devices.preempt)
  const ready = [...devices.ready]
  for (const stream of residents) {
    if (preempted.has(stream)) continue
    let fits = room.take(stream.growthBytes)
    while (!fits && !preempted.has(stream)) {
      const last = residents.findLast((one) => isEvictable(one) && !preempted.has(one))
      // Streams that a step uses will free memory later.
      if (!last || ready.includes(last)) break
      preempted.add(last)
      room.give(last.kvBytes)
      fits = last !== stream && room.take(stream.growthBytes)
    }
    if (fits) ready.push(stream)
  }
  const resume = devices.resume.map(resumptionOf)
  // What has just made way waits for memory that others release.
  const evicted = preempted.size > 0 ? [] : ordered.filter((one) => one.residency === 'evicted' && !isDevice(one))
  let reservedBytes = 0
  if (growth !== 'free')
    for (const { residency, fullBytes, kvBytes, growthBytes } of ordered)
      if (residency !== 'evicted') reservedBytes += growth * Math.max(0, fullBytes - kvBytes - growthBytes)
  for (const stream of evicted) {
    const isAlone = ready.length === 0 && residents.length === 0
    // Alone, a stream that fits nowhere in full gets what there is.
    if (growth !== 'free' && !isAlone && room.freeBytes + room.cachedBytes < reservedBytes + stream.fullBytes) break
    if (!room.take(stream.kvBytes)) break
    if (growth !== 'free') reservedBytes += growth * Math.max(0, stream.fullBytes - stream.kvBytes)
    resume.push(resumptionOf(stream))
    ready.push(stream)
  }
  return { evict: room.evict, preempt: Array.from(preempted, ({ id }) => id), resume, ready: inOrder(ordered, ready) }
}

const resumptionOf = ({ id, resumptions }: StreamState): ServingPlan['resume'][number] => ({
  stream: id,
  by: resumptions.includes('load') ? 'load' : 'recompute',
})

function inOrder(ordered: readonly StreamState[], ready: readonly StreamState[]): readonly StreamState[] {
  const isReady = new Set(ready)
  return ordered.filter((stream) => isReady.has(stream))
}
