import type { StreamState } from '../serving/policy.ts'
import type { Room } from '../serving/room.ts'
import { byBuffer, byBufferDescending } from './tracker.ts'

/** The streams that get memory, and those that are preempted for them. */
export interface Choice {
  readonly resume: readonly StreamState[]
  /** Residents that were not chosen: they are preempted as far as their memory is needed, those with the largest buffers first. */
  readonly replaceable: readonly StreamState[]
}

/** Takes the memory for the next rows of resident streams; where it is short, for those first whose buffer ends first. */
export function grow(residents: readonly StreamState[], room: Room, nowMs: number) {
  const ready = residents.filter(({ growthBytes }) => growthBytes === 0)
  const short: StreamState[] = []
  const growing = ready.length < residents.length ? residents.filter(({ growthBytes }) => growthBytes > 0) : []
  for (const stream of byBuffer(growing, nowMs)) (room.take(stream.growthBytes) ? ready : short).push(stream)
  return { ready, short }
}

/** Preempts as many replaceable streams as the chosen ones need, and adds these to `ready` and `resume`. */
export function makeWay(
  choice: Choice,
  short: readonly StreamState[],
  nowMs: number,
  plan: { room: Room; ready: StreamState[]; resume: StreamState[]; preempt: Set<StreamState> },
): void {
  const { room, ready, resume, preempt } = plan
  const isShort = new Set(short)
  const replaceable = byBufferDescending(choice.replaceable, nowMs)
  const takes = (bytes: number): boolean => {
    while (!room.take(bytes)) {
      const { value: stream } = replaceable.next()
      if (!stream) return false
      preempt.add(stream)
      room.give(stream.kvBytes + (isShort.has(stream) ? 0 : stream.growthBytes))
    }
    return true
  }
  for (const stream of short) if (!choice.replaceable.includes(stream) && takes(stream.growthBytes)) ready.push(stream)
  for (const stream of choice.resume) if (takes(stream.kvBytes)) resume.push(stream)
}
