import type { ServingState, StreamState } from './policy.ts'
import type { Room } from './room.ts'

export interface PlacedDevices {
  /** Resident, or to be resumed, with memory for their waiting rows; the earliest session first. */
  readonly ready: readonly StreamState[]
  /** Of these, the evicted ones. */
  readonly resume: readonly StreamState[]
  /** Streams to preempt. Their memory is free once they have left, so that a later plan gives it away. */
  readonly preempt: readonly StreamState[]
}

/**
 * Gives devices' streams their memory before all others: for the next rows of resident ones, then for evicted and new ones,
 * the earliest session first. For one whose memory is not free, the other streams are preempted, then those of later sessions, idle
 * ones included, so that no two sessions wait for each other. A stream that would wait in vain preempts nothing.
 * @param goesFirst which streams get this treatment
 * @param others resident streams that can be preempted, in this order; called only where memory is short
 */
export function placeDevices(
  state: ServingState,
  room: Room,
  goesFirst: (stream: StreamState) => boolean,
  others: () => readonly StreamState[],
): PlacedDevices {
  const devices = state.waiting.filter((one) => one.residency !== 'in flight' && goesFirst(one)).sort((a, b) => a.id - b.id)
  const ready: StreamState[] = []
  const resume: StreamState[] = []
  const preempt = new Set<StreamState>()
  let leavingBytes = state.leavingBytes
  let isBlocked = false
  for (const stream of [...devices.filter(isResident), ...devices.filter((one) => !isResident(one))]) {
    if (preempt.has(stream) || (isBlocked && !isResident(stream))) continue
    const bytes = isResident(stream) ? stream.growthBytes : stream.kvBytes
    if (room.take(bytes)) {
      ready.push(stream)
      if (!isResident(stream)) resume.push(stream)
      continue
    }
    // No evicted stream overtakes another, so that a large one is not starved.
    isBlocked ||= !isResident(stream)
    const candidates = [...others(), ...laterSessions(stream, state, goesFirst)].filter(
      (one) => isEvictable(one) && !ready.includes(one),
    )
    let missingBytes = bytes - leavingBytes - room.freeBytes - room.cachedBytes
    const leaving: StreamState[] = []
    for (const one of candidates) {
      if (missingBytes <= 0) break
      if (preempt.has(one)) continue
      leaving.push(one)
      missingBytes -= one.kvBytes
    }
    if (missingBytes > 0) continue
    for (const one of leaving) {
      preempt.add(one)
      leavingBytes += one.kvBytes
    }
    // What is free already stays free for it, as far as what leaves is not enough.
    const heldBytes = Math.min(bytes - leavingBytes, room.freeBytes + room.cachedBytes)
    if (heldBytes > 0) room.take(heldBytes)
    leavingBytes = Math.max(0, leavingBytes - bytes)
  }
  return { ready, resume, preempt: [...preempt] }
}

const isResident = ({ residency }: StreamState) => residency === 'resident'

/** Without a way back a stream stays where it is. */
export const isEvictable = (stream: StreamState) => isResident(stream) && stream.resumptions.length > 0

/** Without regard to readers. */
export const isDevice = ({ source }: StreamState) => source === 'device'

/** A device's stream whose reader is not known (yet). */
export const isDeviceWithoutReader = ({ source, reader }: StreamState) => source === 'device' && !reader

/** Such streams that were opened after this one, the latest first. */
function laterSessions(
  { id }: StreamState,
  { waiting, idle }: ServingState,
  goesFirst: (stream: StreamState) => boolean,
): readonly StreamState[] {
  return [...waiting, ...idle].filter((one) => one.id > id && goesFirst(one)).sort((a, b) => b.id - a.id)
}
