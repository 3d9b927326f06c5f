import { packStep } from '../serving/pack-step.ts'
import { placeDevices } from '../serving/place-devices.ts'
import type { ServingPolicy, ServingState, StreamState } from '../serving/policy.ts'
import { Room } from '../serving/room.ts'
import { chooseWithin } from './choose-within.ts'
import { grow, makeWay } from './hand-over.ts'
import { lastsS, track } from './tracker.ts'

export interface AndesLimits {
  /** Horizon over which the gain of serving a request is predicted. */
  readonly horizonS: number
  /** The first token is expected this long after the request. */
  readonly expectedTtftS: number
  /** P: preemptions for each request, on average. */
  readonly maxPreemptions: number
  /** Rows of prompts in one step. */
  readonly promptRows: number
}

/**
 * Andes (arXiv:2404.16283), TokenFlow's baseline: whenever the memory does not hold all requests, those are served whose quality
 * of experience gains most per byte, and preempted requests are computed again. A request that waits is never told from one that
 * is read slowly, and what preemption costs is bounded only by its frequency.
 *
 * The number of requests served at once is what the memory holds: the paper searches it, since its steps slow down with it.
 */
export function andes(limits: AndesLimits): ServingPolicy {
  let requests = 0
  let preemptions = 0
  return {
    plan(state, nowMs) {
      const { residents: all, away, newcomers } = track(state)
      const outside = [...away, ...newcomers]
      const room = new Room(state)
      const devices = placeDevices(state, room, () => all.toReversed())
      const preempt = new Set(devices.preempt)
      const residents = all.filter((stream) => !preempt.has(stream))
      const { ready, short } = grow(residents, room, nowMs)
      const resume: StreamState[] = []
      // Streams are numbered in the order in which they are opened.
      for (const { id } of state.waiting) requests = Math.max(requests, id + 1)
      if (short.length + outside.length > 0) {
        const candidates = [...residents, ...outside]
        const gains = Float64Array.from(candidates, (stream) => gainOf(stream, residents.length, state, limits, nowMs))
        const bytes = Float64Array.from(candidates, ({ kvBytes, growthBytes }) => kvBytes + growthBytes)
        const reclaimable = residents.reduce((sum, one) => sum + one.kvBytes + (short.length > 0 ? 0 : one.growthBytes), 0)
        const chosen = new Set(
          chooseWithin(gains, bytes, room.freeBytes + room.cachedBytes + reclaimable).map((at) => candidates[at]!),
        )
        const mayPreempt = Math.floor(limits.maxPreemptions * requests) - preemptions
        const left = residents.filter((stream) => !chosen.has(stream)).reverse()
        const choice = {
          resume: outside.filter((stream) => chosen.has(stream)),
          // Without memory for its next row nothing would run any more: that is no matter of frequency.
          replaceable: short.length > 0 ? left : left.slice(0, Math.max(0, mayPreempt)),
        }
        makeWay(choice, short, { room, ready, resume, preempt })
        preemptions += preempt.size
      }
      const running = [...devices.ready, ...ready.filter((stream) => !preempt.has(stream)), ...resume]
      const isPrompt = ({ phase }: StreamState) => phase === 'prefill'
      const ranked = [...running.filter(isPrompt), ...running.filter((stream) => !isPrompt(stream))]
      return {
        evict: room.evict,
        preempt: Array.from(preempt, ({ id }) => id),
        resume: [...devices.resume, ...resume].map(({ id, resumptions }) => ({
          stream: id,
          by: resumptions.includes('recompute') ? 'recompute' : 'load',
        })),
        run: packStep(ranked, state.step, { promptRows: limits.promptRows, minPromptRows: 1 }),
        lookAgainAtMs: outside.length > resume.length ? nowMs + limits.horizonS * 1_000 : undefined,
      }
    },
  }
}

/**
 * Q_serve − Q_wait after the horizon (Andes §4.1). Both have the same past, so only the tokens that are read within the horizon
 * differ: their area, as a share of that of the expected reading.
 */
function gainOf(
  stream: StreamState,
  running: number,
  { speeds }: ServingState,
  { horizonS, expectedTtftS }: AndesLimits,
  nowMs: number,
): number {
  const { reader, residency, waitingRows, contextLength } = stream
  if (!reader) return 0
  const { tokensPerS: rate, requestedMs } = reader
  const unread = Math.max(0, lastsS(stream, nowMs)) * rate
  const speed = speeds.tokensPerS === undefined ? rate : speeds.tokensPerS / Math.max(1, running)
  const delayS = residency === 'evicted' ? (contextLength + waitingRows) * (speeds.prefillSPerRow ?? 0) : 0
  const servedS = Math.max(0, horizonS - delayS)
  const expectedS = Math.max(horizonS, (nowMs - requestedMs) / 1_000 + horizonS - expectedTtftS)
  const gained = areaRead(unread, speed, rate, servedS) - areaRead(unread, 0, rate, servedS)
  return Math.max(1e-12, gained / (0.5 * rate * expectedS ** 2))
}

/** ∫ min(r·t, u + s·t) dt from 0 to T: what is read of u unread tokens and s more per second, in token seconds. */
function areaRead(unread: number, speed: number, rate: number, seconds: number): number {
  const emptyS = speed >= rate ? seconds : Math.min(seconds, unread / (rate - speed))
  const atEmpty = rate * emptyS
  const leftS = seconds - emptyS
  return 0.5 * rate * emptyS ** 2 + atEmpty * leftS + 0.5 * speed * leftS ** 2
}
