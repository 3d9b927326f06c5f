import type { ServingSpeeds, StreamState } from '../serving/policy.ts'
import type { Room } from '../serving/room.ts'
import type { GrowthReserve } from './growth-reserve.ts'
import { recomputeS } from './recompute-budget.ts'
import { byBuffer, byBufferDescending } from './tracker.ts'

/** The streams that get memory, and those that are preempted for them. */
export interface HandOver {
  readonly resume: readonly StreamState[]
  /** Residents without memory for their next rows, which get it unless they are preempted themselves. */
  readonly growing: readonly StreamState[]
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

/**
 * Preempts as many replaceable streams as the chosen ones need, and adds these to `ready` and `resume`.
 * @param speeds with `spareS`: engine seconds that it may take to compute again what is preempted for others than residents
 */
export function preemptForChosen(
  choice: HandOver,
  short: readonly StreamState[],
  reserve: GrowthReserve,
  speeds: ServingSpeeds & { readonly spareS: number },
  nowMs: number,
  plan: { room: Room; ready: StreamState[]; resume: StreamState[]; preempt: Set<StreamState> },
): void {
  const { room, ready, resume, preempt } = plan
  const isShort = new Set(short)
  const replaceable = byBufferDescending(choice.replaceable, nowMs)
  let next = replaceable.next()
  let leftS = speeds.spareS
  const preemptUntil = (fits: () => boolean, canPay: (stream: StreamState) => boolean): boolean => {
    while (!fits()) {
      if (next.done || !canPay(next.value)) return false
      const stream = next.value
      preempt.add(stream)
      reserve.leave(stream)
      room.give(stream.kvBytes + (isShort.has(stream) ? 0 : stream.growthBytes))
      leftS -= recomputeS(stream, speeds)
      next = replaceable.next()
    }
    return true
  }
  for (const stream of choice.growing) {
    if (
      preempt.has(stream) ||
      !preemptUntil(
        () => room.take(stream.growthBytes),
        () => true,
      )
    )
      continue
    isShort.delete(stream)
    if (preempt.has(stream)) room.give(stream.growthBytes)
    else ready.push(stream)
  }
  const canPay = (stream: StreamState) => recomputeS(stream, speeds) <= Math.max(0, leftS)
  for (const stream of choice.resume) if (preemptUntil(() => reserve.take(stream), canPay)) resume.push(stream)
}
