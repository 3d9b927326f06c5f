import { FairPacker } from '../../core/policy/serving/pack-step.ts'
import { isDeviceWithoutReader, isEvictable, placeDevices } from '../../core/policy/serving/place-devices.ts'
import type { ServingPolicy, ServingState, StreamState } from '../../core/policy/serving/policy.ts'
import { Room } from '../../core/policy/serving/room.ts'
import { grow } from '../../core/policy/tokenflow/hand-over.ts'
import { lastsS, track } from '../../core/policy/tokenflow/tracker.ts'

export interface AndesLimits {
  /** Δt: horizon over which the gain of serving a request is predicted. */
  readonly horizonS: number
  /** The first token is expected this long after the request. */
  readonly expectedTtftS: number
  /** P: preemptions for each request, on average. */
  readonly maxPreemptions: number
  /** Rows of prompts in one step. */
  readonly promptRows: number
}

/**
 * Andes (arXiv:2404.16283v2, §4), TokenFlow's baseline: whenever requests wait for memory, those are served whose quality of
 * experience gains most in all, and preempted requests are computed again. What that costs is bounded by its frequency only: P.
 * Beyond P, requests are preempted just where a resident one has no memory for its next row, the least gaining first.
 */
export function andes(limits: AndesLimits): ServingPolicy {
  let requests = 0
  let preemptions = 0
  const packer = new FairPacker()
  return {
    heedsReaders: true,
    plan(state, nowMs) {
      const tracked = track(state)
      const { away, newcomers } = tracked
      const outside = [...away, ...newcomers]
      const room = new Room(state)
      const devices = placeDevices(state, room, isDeviceWithoutReader, () => [...tracked.idle, ...tracked.residents.toReversed()])
      const preempt = new Set(devices.preempt)
      const residents = tracked.residents.filter((stream) => !preempt.has(stream))
      const { ready, short } = grow(residents, room, nowMs)
      const resume: StreamState[] = []
      // Streams are numbered in the order in which they are opened.
      for (const { id } of state.waiting) requests = Math.max(requests, id + 1)
      const candidates = [...residents, ...outside]
      if (short.length > 0) {
        const ranked = rank(candidates, gainsOf(candidates, residents.length, state, limits, nowMs), presentBytes)
        const worstLast = ranked.map((at) => candidates[at]!).filter(isEvictable)
        const isReady = new Set(ready)
        for (const stream of short) {
          let fits = room.take(stream.growthBytes)
          while (!fits && !preempt.has(stream)) {
            const worst = worstLast.pop()
            if (!worst) break
            preempt.add(worst)
            room.give(isReady.has(worst) ? presentBytes(worst) : worst.kvBytes)
            fits = worst !== stream && room.take(stream.growthBytes)
          }
          if (fits) {
            ready.push(stream)
            isReady.add(stream)
          }
        }
      } else if (outside.length > 0) {
        const ours = ready.reduce((sum, stream) => sum + presentBytes(stream), 0)
        const memoryBytes = room.freeBytes + room.cachedBytes + ours
        const choice = mostGaining(candidates, memoryBytes, state, limits, nowMs)
        const change = exchange(choice, memoryBytes, Math.floor(limits.maxPreemptions * requests) - preemptions)
        for (const stream of change.leave) {
          preempt.add(stream)
          room.give(presentBytes(stream))
        }
        for (const stream of change.enter) if (room.take(stream.kvBytes)) resume.push(stream)
      }
      preemptions += preempt.size - devices.preempt.length
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
        run: packer.pack(ranked, state.step, { promptRows: limits.promptRows, minPromptRows: 1 }),
        lookAgainAtMs: outside.length > resume.length ? nowMs + limits.horizonS * 1_000 : undefined,
      }
    },
  }
}

const isResident = ({ residency }: StreamState) => residency === 'resident'

const presentBytes = ({ kvBytes, growthBytes }: StreamState) => kvBytes + growthBytes

/**
 * What a request is packed with. The paper's memory grows block by block and takes the present length; our buffers double, and
 * a doubling without memory preempts a request, whatever P is.
 */
const packedBytes = (memoryBytes: number) => (stream: StreamState) =>
  Math.max(presentBytes(stream), Math.min(memoryBytes, stream.fullBytes, 2 * presentBytes(stream)))

interface Packed {
  /** All requests, those first that gain most for their memory. */
  readonly ranked: readonly StreamState[]
  readonly served: ReadonlySet<StreamState>
}

/**
 * Which requests are served, and how many: each number B at once has a speed of its own, and the best of all is searched
 * (Andes §4.2), from the greatest that is as fast as every reader to the greatest that fits. Each B is packed greedily.
 */
function mostGaining(
  candidates: readonly StreamState[],
  memoryBytes: number,
  state: ServingState,
  limits: AndesLimits,
  nowMs: number,
): Packed {
  const bytesOf = packedBytes(memoryBytes)
  const sizes = Float64Array.from(candidates, bytesOf).sort()
  let fitting = 0
  for (let left = memoryBytes - sizes[0]!; left >= 0; left -= sizes[fitting] ?? Number.POSITIVE_INFINITY) fitting += 1
  const fastest = candidates.reduce((most, { reader }) => Math.max(most, reader?.tokensPerS ?? 0), 0)
  let count = 1
  while (count < fitting && speedOf(count + 1, state) >= fastest) count += 1
  let best: Packed | undefined
  let bestGain = Number.NEGATIVE_INFINITY
  for (; count <= Math.max(1, fitting); count += 1) {
    const gains = gainsOf(candidates, count, state, limits, nowMs)
    const ranked = rank(candidates, gains, bytesOf)
    const served = new Set<StreamState>()
    let left = memoryBytes
    let gain = 0
    for (const at of ranked) {
      const stream = candidates[at]!
      if (served.size === count) break
      if (bytesOf(stream) > left) continue
      left -= bytesOf(stream)
      gain += gains[at]!
      served.add(stream)
    }
    if (gain <= bestGain) continue
    bestGain = gain
    best = { ranked: ranked.map((at) => candidates[at]!), served }
  }
  return best ?? { ranked: [], served: new Set() }
}

/** Lets the served requests enter, as far as free memory and so many preemptions allow; the least gaining leave first. */
function exchange({ ranked, served }: Packed, memoryBytes: number, maxPreemptions: number) {
  const bytesOf = packedBytes(memoryBytes)
  const residents = ranked.filter(isResident)
  const worstLast = residents.filter((stream) => isEvictable(stream) && !served.has(stream))
  const enter: StreamState[] = []
  const leave: StreamState[] = []
  let free = residents.reduce((left, stream) => left - bytesOf(stream), memoryBytes)
  for (const stream of ranked) {
    if (isResident(stream) || !served.has(stream)) continue
    const next: StreamState[] = []
    let room = free
    while (room < bytesOf(stream) && leave.length + next.length < maxPreemptions) {
      const worst = worstLast.at(-1 - next.length)
      if (!worst) break
      next.push(worst)
      room += bytesOf(worst)
    }
    if (room < bytesOf(stream)) break
    worstLast.length -= next.length
    leave.push(...next)
    enter.push(stream)
    free = room - bytesOf(stream)
  }
  return { enter, leave }
}

/** Indices by gain per byte, the greatest first; equal ones in their order. */
function rank(streams: readonly StreamState[], gains: Float64Array, bytesOf: (stream: StreamState) => number): number[] {
  const density = gains.map((gain, at) => gain / bytesOf(streams[at]!))
  return Array.from(streams.keys()).sort((a, b) => density[b]! - density[a]! || a - b)
}

/** Tokens per second of each of `count` requests; beyond the places of a step they take turns. Unmeasured, no limit. */
function speedOf(count: number, { step, speeds }: ServingState): number {
  const places = Math.min(count, step.streams)
  const stepS = speeds.stepSOf(places)
  return stepS === undefined ? Number.POSITIVE_INFINITY : places / (count * stepS)
}

/**
 * Q_serve − Q_wait of each request after the horizon, where `count` are served (Andes §4.1). Both have the same past, so only
 * the tokens that are read within the horizon differ: their area, as a share of that of the expected reading.
 */
function gainsOf(
  streams: readonly StreamState[],
  count: number,
  state: ServingState,
  { horizonS, expectedTtftS }: AndesLimits,
  nowMs: number,
): Float64Array {
  const sharedSpeed = speedOf(count, state)
  return Float64Array.from(streams, (stream) => {
    const { reader, contextLength, waitingRows } = stream
    if (!reader) return 0
    const { tokensPerS: rate, requestedMs } = reader
    const speed = Math.min(rate, sharedSpeed)
    const unread = Math.max(0, lastsS(stream, nowMs)) * rate
    const delayS = isResident(stream) ? 0 : (contextLength + waitingRows) * (state.speeds.prefillSPerRow ?? 0)
    const servedS = Math.max(0, horizonS - delayS)
    const expectedS = Math.max(horizonS, (nowMs - requestedMs) / 1_000 + horizonS - expectedTtftS)
    const gained = areaRead(unread, speed, rate, servedS) - areaRead(unread, 0, rate, servedS)
    return Math.max(leastGain, gained / (0.5 * rate * expectedS ** 2))
  })
}

/** Free memory is better used than not, however much is unread. */
const leastGain = 1e-12

/** ∫ min(r·t, u + s·t) dt from 0 to T: what is read of u unread tokens and s more per second, in token seconds. */
function areaRead(unread: number, speed: number, rate: number, seconds: number): number {
  const emptyS = speed >= rate ? seconds : Math.min(seconds, unread / (rate - speed))
  const atEmpty = rate * emptyS
  const leftS = seconds - emptyS
  return 0.5 * rate * emptyS ** 2 + atEmpty * leftS + 0.5 * speed * leftS ** 2
}
