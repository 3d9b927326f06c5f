import { inTurns, turnsOf } from '../fairness/in-turns.ts'
import { isDevice, isEvictable, placeDevices } from './place-devices.ts'
import type { ServingPlan, ServingState, StreamState } from './policy.ts'
import { Room } from './room.ts'

export interface AdmittedInOrder extends Pick<ServingPlan, 'evict' | 'preempt' | 'resume'> {
  /** The streams that can run: resident, with memory for their waiting rows; in the given order. */
  readonly ready: readonly StreamState[]
}

/**
 * First come, first served: devices' streams get their memory first; then resident streams grow, and evicted ones are resumed,
 * in the given order while the memory lasts. Where a resident stream has no memory for its next row, the last ones are preempted.
 * Clients take turns: while one has fewer answers in memory than another, its next one is resumed first, and the last ones of the
 * client with most are preempted for it.
 * @param ordered the waiting streams, first those that go first
 * @param growth `free`: a stream is resumed as soon as its present rows fit; a number: only where it can grow to its full length,
 *   and the residents by this share of what they lack. With 1, no stream is preempted for another one of its client.
 */
export function admitInOrder(
  state: ServingState,
  ordered: readonly StreamState[],
  growth: 'free' | number = 'free',
): AdmittedInOrder {
  const room = new Room(state)
  const answers = ordered.filter((one) => !isDevice(one))
  const isAway = ({ residency }: StreamState) => residency === 'evicted'
  const all = inTurns([...answers.filter((one) => !isAway(one)), ...answers.filter(isAway)])
  const turns = turnsOf(all)
  const residents = all.filter(({ residency }) => residency === 'resident')
  const devices = placeDevices(state, room, isDevice, () => residents.toReversed())
  const preempted = new Set(devices.preempt)
  const ready = [...devices.ready]
  const resume = devices.resume.map(resumptionOf)
  let reservedBytes = 0
  if (growth !== 'free')
    for (const { residency, fullBytes, kvBytes, growthBytes } of ordered)
      if (residency !== 'evicted') reservedBytes += growth * Math.max(0, fullBytes - kvBytes - growthBytes)
  // What has just been preempted, and others of its client, wait for memory that others release.
  const short = new Set<string>()
  let isBlocked = preempted.size > 0
  for (const [at, stream] of all.entries()) {
    if (preempted.has(stream)) continue
    if (stream.residency === 'resident') {
      let fits = room.take(stream.growthBytes)
      while (!fits && !preempted.has(stream)) {
        const last = residents.findLast((one) => isEvictable(one) && !preempted.has(one))
        // Streams that a step uses will free memory later.
        if (!last || ready.includes(last)) break
        preempted.add(last)
        short.add(last.client)
        room.give(last.kvBytes)
        fits = last !== stream && room.take(stream.growthBytes)
      }
      if (fits) ready.push(stream)
    }
    if (!isAway(stream) || isBlocked || short.has(stream.client)) continue
    const isAlone = ready.length === 0 && residents.length === 0
    // Alone, a stream that fits nowhere in full gets what there is.
    const neededBytes = growth === 'free' || isAlone ? stream.kvBytes : Math.max(stream.kvBytes, reservedBytes + stream.fullBytes)
    const missingBytes = neededBytes - room.freeBytes - room.cachedBytes
    if (missingBytes <= 0 && room.take(stream.kvBytes)) {
      if (growth !== 'free') reservedBytes += growth * Math.max(0, stream.fullBytes - stream.kvBytes)
      resume.push(resumptionOf(stream))
      ready.push(stream)
      continue
    }
    isBlocked = true
    const lastOnes = residents.filter((one) => one.client !== stream.client && !preempted.has(one) && isEvictable(one))
    const leaving = leavingFor(turns[at]!, missingBytes - state.leavingBytes, lastOnes)
    for (const one of leaving) preempted.add(one)
    // What is free stays free for it.
    if (leaving.length > 0) room.take(Math.max(0, Math.min(stream.kvBytes, room.freeBytes)))
  }
  return { evict: room.evict, preempt: Array.from(preempted, ({ id }) => id), resume, ready: inOrder(ordered, ready, preempted) }
}

const resumptionOf = ({ id, resumptions }: StreamState): ServingPlan['resume'][number] => ({
  stream: id,
  by: resumptions.includes('load') ? 'load' : 'recompute',
})

/** The last of these streams, of clients that have more than `count` + 1 of them; none where all together are too small. */
function leavingFor(count: number, missingBytes: number, residents: readonly StreamState[]): readonly StreamState[] {
  const turns = turnsOf(residents)
  const leaving: StreamState[] = []
  let leftBytes = missingBytes
  for (let at = residents.length - 1; leftBytes > 0 && at >= 0 && turns[at]! > count; at -= 1) {
    const one = residents[at]!
    leaving.push(one)
    leftBytes -= one.kvBytes
  }
  return leftBytes > 0 ? [] : leaving
}

function inOrder(
  ordered: readonly StreamState[],
  ready: readonly StreamState[],
  preempted: ReadonlySet<StreamState>,
): readonly StreamState[] {
  const isReady = new Set(ready)
  return ordered.filter((stream) => isReady.has(stream) && !preempted.has(stream))
}
