import type { StreamState } from '../serving/policy.ts'
import type { Room } from '../serving/room.ts'
import { lastsS } from './tracker.ts'

/** Who gets memory, and who makes way for them. */
export interface Choice {
  readonly resume: readonly StreamState[]
  /** Residents that were not chosen: they make way in this order, as far as the memory is needed. */
  readonly replaceable: readonly StreamState[]
}

/** Takes the memory for the next rows of resident streams; where it is short, for those first whose buffer ends first. */
export function grow(residents: readonly StreamState[], room: Room, nowMs: number) {
  const ready: StreamState[] = []
  const short: StreamState[] = []
  const growing = residents.some(({ growthBytes }) => growthBytes > 0)
  for (const stream of growing ? byBuffer(residents, nowMs) : residents)
    (room.take(stream.growthBytes) ? ready : short).push(stream)
  return { ready, short }
}

/** Preempts as many replaceable streams as the chosen ones need, and adds these to `ready` and `resume`. */
export function makeWay(
  choice: Choice,
  short: readonly StreamState[],
  plan: { room: Room; ready: StreamState[]; resume: StreamState[]; preempt: Set<StreamState> },
): void {
  const { room, ready, resume, preempt } = plan
  const isShort = new Set(short)
  const replaceable = [...choice.replaceable]
  const takes = (bytes: number): boolean => {
    while (!room.take(bytes)) {
      const stream = replaceable.shift()
      if (!stream) return false
      preempt.add(stream)
      room.give(stream.kvBytes + (isShort.has(stream) ? 0 : stream.growthBytes))
    }
    return true
  }
  const isReplaceable = new Set(choice.replaceable)
  for (const stream of short) if (!isReplaceable.has(stream) && takes(stream.growthBytes)) ready.push(stream)
  for (const stream of choice.resume) if (takes(stream.kvBytes)) resume.push(stream)
}

/** Those whose buffer ends first first; streams without a reader before all others. */
export function byBuffer(streams: readonly StreamState[], nowMs: number): readonly StreamState[] {
  return streams.toSorted((a, b) => {
    const [aS, bS] = [lastsS(a, nowMs), lastsS(b, nowMs)]
    return aS === bS ? a.id - b.id : aS - bS
  })
}
