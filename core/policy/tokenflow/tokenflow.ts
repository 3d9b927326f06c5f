import { packStep } from '../serving/pack-step.ts'
import { placeDevices } from '../serving/place-devices.ts'
import type { ServingPlan, ServingPolicy, ServingState, StreamState } from '../serving/policy.ts'
import { Room } from '../serving/room.ts'
import { admissible } from './admission.ts'
import { byBuffer, grow, makeWay } from './hand-over.ts'
import { chooseForInterval, type IntervalLimits, isCritical } from './next-interval.ts'
import { evictS, loadS, wayBack } from './resumption.ts'
import { lastsS, type Requests, track } from './tracker.ts'

export interface TokenFlowLimits extends IntervalLimits {
  /** Rows of prompts in a step while a reader waits. Otherwise prompts may take as long as the shortest buffer lasts. */
  readonly promptRows: number
}

/**
 * TokenFlow (EuroSys '26, doi:10.1145/3767295.3769328, §4): as many requests as the working set holds share the fast tier,
 * each of them resident while its reader would else run out of tokens. Every Δt, if a request waits for admission or the buffer
 * of a preempted one runs low, those that hold the memory next are chosen. In between, free memory is given to requests that
 * wait, and nothing is preempted unless a resident request has no memory for its next row.
 *
 * Requests are admitted in the order of arrival, and none while the readers take more than the engine generates (Eq. 6); then
 * the earliest run to their end. So a request waits at most for those that arrived before it and for the working set. Devices'
 * streams without a reader go before all others. The policy remembers when it chose last: each Serving needs its own.
 */
export function tokenflow(limits: TokenFlowLimits): ServingPolicy {
  let nextChoiceMs = Number.NEGATIVE_INFINITY
  return {
    plan(state, nowMs) {
      const tracked = track(state)
      const room = new Room(state)
      const devices = placeDevices(state, room, () => byBuffer(tracked.residents, nowMs).toReversed())
      const preempt = new Set(devices.preempt)
      const requests = without(tracked, preempt)
      const { ready, short } = grow(requests.residents, room, nowMs)
      const isShort = short.length > 0
      const resume = isShort ? [] : fillFreeMemory(requests, room, state, limits, nowMs)
      const outside = requests.away.length + requests.newcomers.length - resume.length
      if (isShort || (outside > 0 && nowMs >= nextChoiceMs)) {
        const choice = chooseForInterval(requests, new Set(resume), { room, isShort }, state, limits, nowMs)
        if (choice) {
          nextChoiceMs = nowMs + limits.intervalMs
          makeWay(choice, short, { room, ready, resume, preempt })
        }
      }
      return {
        evict: room.evict,
        preempt: Array.from(preempt, ({ id }) => id),
        resume: waysBack([...devices.resume, ...resume], preempt, state),
        run: nextStep([...devices.ready, ...ready.filter((stream) => !preempt.has(stream)), ...resume], state, limits, nowMs),
        lookAgainAtMs: outside > 0 ? (nextChoiceMs > nowMs ? nextChoiceMs : nowMs + limits.intervalMs) : undefined,
      }
    },
  }
}

function without(requests: Requests, preempted: ReadonlySet<StreamState>): Requests {
  if (preempted.size === 0) return requests
  return { ...requests, residents: requests.residents.filter((stream) => !preempted.has(stream)) }
}

/**
 * Gives free memory to those whose readers wait or soon will, then to new requests, and to the other preempted ones only while
 * a step has places left.
 */
function fillFreeMemory(
  requests: Requests,
  room: Room,
  state: ServingState,
  limits: TokenFlowLimits,
  nowMs: number,
): StreamState[] {
  const { away, newcomers, residents } = requests
  const resume: StreamState[] = []
  const free = room.freeBytes + (away.length + newcomers.length > 0 ? room.cachedBytes : 0)
  const fits = ({ kvBytes }: StreamState) => kvBytes <= free
  if (!away.some(fits) && !newcomers.some(fits)) return resume
  const places = state.step.streams - residents.length
  const left = new Set(away)
  // New requests stand between the critical ones and the others.
  let next = mostUrgent(left, nowMs)
  const takeWhile = (mayResume: (stream: StreamState) => boolean): boolean => {
    for (; next && mayResume(next); next = mostUrgent(left, nowMs)) {
      if (!room.take(next.kvBytes)) return false
      left.delete(next)
      resume.push(next)
    }
    return true
  }
  if (!takeWhile((stream) => isCritical(stream, state, limits, nowMs))) return resume
  for (const stream of admissible(requests, state, limits, left.size > 0)) {
    if (!room.take(stream.kvBytes)) return resume
    resume.push(stream)
  }
  takeWhile(() => resume.length < places)
  return resume
}

function mostUrgent(streams: ReadonlySet<StreamState>, nowMs: number): StreamState | undefined {
  let first: StreamState | undefined
  for (const stream of streams) if (!first || lastsS(stream, nowMs) < lastsS(first, nowMs)) first = stream
  return first
}

/** Load or recompute, whichever ends first: a load waits for evictions and other loads, a recomputation for the others. */
function waysBack(
  resume: readonly StreamState[],
  preempt: ReadonlySet<StreamState>,
  { speeds }: ServingState,
): ServingPlan['resume'] {
  const queued = { loadS: 0, recomputeS: 0 }
  for (const stream of preempt) queued.loadS += evictS(stream, speeds)
  return resume.map((stream) => {
    const { by, s } = wayBack(stream, speeds, queued)
    if (by === 'load') queued.loadS += loadS(stream, speeds)
    else queued.recomputeS = s
    return { stream: stream.id, by }
  })
}

/**
 * New requests' prompts first; then whatever has the reader that runs out of tokens first, decoding and recomputation alike,
 * so that large recomputations do not delay a first token. A prompt takes no longer than the shortest buffer lasts.
 */
function nextStep(
  ready: readonly StreamState[],
  { step, speeds }: ServingState,
  { promptRows }: TokenFlowLimits,
  nowMs: number,
): ServingPlan['run'] {
  const isNew = ({ phase, reader }: StreamState) => phase === 'prefill' && reader?.sent === 0
  const newcomers = ready.filter(isNew).sort((a, b) => a.id - b.id)
  const others = byBuffer(
    ready.filter((stream) => !isNew(stream)),
    nowMs,
  )
  const [first] = others
  const shortestS = first ? Math.max(0, lastsS(first, nowMs)) : Number.POSITIVE_INFINITY
  const affordableRows = speeds.prefillSPerRow ? Math.floor(shortestS / speeds.prefillSPerRow) : first ? 0 : step.rows
  const rows = Math.max(promptRows, Math.min(step.rows, affordableRows))
  const devices = others.findIndex(({ reader }) => reader)
  const ranked = [
    ...others.slice(0, devices < 0 ? others.length : devices),
    ...newcomers,
    ...(devices < 0 ? [] : others.slice(devices)),
  ]
  return packStep(ranked, step, { promptRows: rows, minPromptRows: 1 })
}
