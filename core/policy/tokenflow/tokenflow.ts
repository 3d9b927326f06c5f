import { countByClient, hasSeveralClients, inTurns } from '../fairness/in-turns.ts'
import { FairPacker, packStep } from '../serving/pack-step.ts'
import { isDeviceWithoutReader, placeDevices } from '../serving/place-devices.ts'
import type { ServingPlan, ServingPolicy, ServingState, StreamState } from '../serving/policy.ts'
import { Room } from '../serving/room.ts'
import { admissible, isOverloaded } from './admission.ts'
import { GrowthReserve } from './growth-reserve.ts'
import { grow, preemptForChosen } from './hand-over.ts'
import { chooseForInterval, type IntervalLimits, isCritical, leastChange } from './next-interval.ts'
import { RecomputeBudget, recomputeS } from './recompute-budget.ts'
import { evictS, loadS, wayBack } from './resumption.ts'
import { intervalAfter, movedS } from './swap-cost.ts'
import { byBuffer, byBufferDescending, lastsS, type Requests, track } from './tracker.ts'

export interface TokenFlowLimits extends IntervalLimits {
  /** Rows of prompts in a step while a reader waits. Otherwise prompts may take as long as the shortest buffer lasts. */
  readonly promptRows: number
}

/**
 * TokenFlow (EuroSys '26, doi:10.1145/3767295.3769328, §4): as many requests as the working set holds share the fast tier,
 * each of them resident while its reader would else run out of tokens. Every Δt, or as much later as the last choice moved KV, if a request waits for admission or the buffer
 * of a preempted one runs low, those that hold the memory next are chosen. In between, free memory is given to requests that
 * wait, and nothing is preempted unless a resident request has no memory for its next row.
 *
 * Requests are admitted in the order of arrival, and none while the readers take more than the engine generates (Eq. 6); then
 * the earliest run to their end. So a request waits at most for those that arrived before it and for the working set. Devices'
 * streams without a reader go before all others. The policy remembers when it chose last: each Serving needs its own.
 */
export function tokenflow(given: TokenFlowLimits): ServingPolicy {
  let nextChoiceMs = Number.NEGATIVE_INFINITY
  const budget = new RecomputeBudget()
  const packer = new FairPacker()
  // Δt, until the next choice.
  let { intervalMs } = given
  return {
    heedsReaders: true,
    plan(state, nowMs) {
      const limits = { ...given, intervalMs }
      const tracked = track(state)
      const room = new Room(state)
      const devices = placeDevices(state, room, isDeviceWithoutReader, () => [
        ...byBufferDescending([...tracked.idle, ...tracked.residents], nowMs),
      ])
      const preempt = new Set(devices.preempt)
      const requests = without(tracked, preempt)
      const { ready, short } = grow(requests.residents, room, nowMs)
      budget.accrue(nowMs)
      const spareS = requests.away.reduce((left, stream) => left - recomputeS(stream, state.speeds), budget.creditS)
      const isShort = short.length > 0
      const untilChoiceMs = nextChoiceMs > nowMs ? nextChoiceMs - nowMs : limits.intervalMs
      let known: GrowthReserve | undefined
      // Most plans give nothing away.
      const reserve = () => (known ??= new GrowthReserve(requests.residents, room, state, { untilChoiceMs, spareS }))
      const resume = isShort ? [] : fillFreeMemory(requests, room, reserve, state, limits, nowMs)
      const outside = requests.away.length + requests.newcomers.length - resume.length
      const isDue = nowMs >= nextChoiceMs
      if (isShort || (outside > 0 && isDue)) {
        const choice = isDue
          ? chooseForInterval(requests, new Set(resume), { room, short }, state, limits, nowMs)
          : leastChange(requests, short, state, limits, nowMs)
        if (choice) {
          const [left, before] = [preempt.size, resume.length]
          preemptForChosen(choice, short, reserve(), { ...state.speeds, spareS }, nowMs, { room, ready, resume, preempt })
          if (isDue) {
            const moved = movedS([...preempt].slice(left), resume.slice(before), state.speeds)
            intervalMs = intervalAfter(moved, given.intervalMs)
            nextChoiceMs = nowMs + intervalMs
          }
        }
      }
      for (const stream of resume) if (!stream.resumptions.includes('load')) budget.spend(recomputeS(stream, state.speeds))
      const stayed = preempt.size > 0 ? ready.filter((stream) => !preempt.has(stream)) : ready
      return {
        evict: room.evict,
        preempt: Array.from(preempt, ({ id }) => id),
        resume: waysBack([...devices.resume, ...resume], preempt, state),
        run: nextStep(packer, devices.ready, stayed.concat(resume), state, limits, nowMs),
        lookAgainAtMs: outside > 0 ? (nextChoiceMs > nowMs ? nextChoiceMs : nowMs + limits.intervalMs) : undefined,
      }
    },
  }
}

function without(requests: Requests, preempted: ReadonlySet<StreamState>): Requests {
  if (preempted.size === 0) return requests
  const { idle } = requests
  return {
    ...requests,
    idle: idle.filter((stream) => !preempted.has(stream)),
    residents: requests.residents.filter((stream) => !preempted.has(stream)),
  }
}

/**
 * Gives free memory to those whose readers wait or soon will, then to new requests, and to the other preempted ones only while
 * a step has places left. A first token is worth the preemption of a resident that lacks the memory later; the way back is not.
 */
function fillFreeMemory(
  requests: Requests,
  room: Room,
  reserve: () => GrowthReserve,
  state: ServingState,
  limits: TokenFlowLimits,
  nowMs: number,
): StreamState[] {
  const { away, residents, smallestBytes } = requests
  const resume: StreamState[] = []
  if (smallestBytes === Number.POSITIVE_INFINITY || smallestBytes > room.freeBytes + room.cachedBytes) return resume
  if (requests.byClient && isOverloaded(requests, state, limits)) {
    const waiting = [...away.toSorted((a, b) => a.id - b.id), ...admissible(requests, state, limits, false)]
    for (const stream of inTurns(waiting, countByClient(residents))) {
      if (!reserve().take(stream)) break
      resume.push(stream)
    }
    return resume
  }
  const places = state.step.streams - residents.length
  // In the order in which the next choice would leave them their memory.
  const left = isOverloaded(requests, state, limits) ? away.toSorted((a, b) => a.id - b.id).values() : byBuffer(away, nowMs)
  // New requests stand between the critical ones and the others.
  let next = left.next()
  const takeWhile = (mayResume: (stream: StreamState) => boolean): boolean => {
    for (; !next.done && mayResume(next.value); next = left.next()) {
      if (!reserve().takeSpare(next.value)) return false
      resume.push(next.value)
    }
    return true
  }
  if (!takeWhile((stream) => isCritical(stream, state, limits, nowMs))) return resume
  for (const stream of admissible(requests, state, limits, !next.done)) {
    if (!reserve().take(stream)) return resume
    resume.push(stream)
  }
  takeWhile(() => resume.length < places)
  return resume
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
 * Devices first, then new requests' prompts, then whatever has the reader that runs out of tokens first, decoding and recomputation alike,
 * so that large recomputations do not delay a first token. A prompt takes no longer than the shortest buffer lasts.
 */
function nextStep(
  packer: FairPacker,
  devices: readonly StreamState[],
  ready: readonly StreamState[],
  { step, speeds }: ServingState,
  { promptRows }: TokenFlowLimits,
  nowMs: number,
): ServingPlan['run'] {
  const isNew = ({ phase, reader }: StreamState) => phase === 'prefill' && reader?.sent === 0
  const newcomers = ready.filter(isNew).sort((a, b) => a.id - b.id)
  const others = newcomers.length > 0 ? ready.filter((stream) => !isNew(stream)) : ready
  let shortestS = devices.length > 0 ? 0 : Number.POSITIVE_INFINITY
  for (const stream of others) shortestS = Math.min(shortestS, lastsS(stream, nowMs))
  const isAlone = shortestS === Number.POSITIVE_INFINITY
  const affordableRows = speeds.prefillSPerRow
    ? Math.floor(Math.max(0, shortestS) / speeds.prefillSPerRow)
    : isAlone
      ? step.rows
      : 0
  function* ranked() {
    yield* devices
    yield* newcomers
    yield* byBuffer(others, nowMs)
  }
  const rows = Math.max(promptRows, Math.min(step.rows, affordableRows))
  const limits = { promptRows: rows, minPromptRows: 1 }
  // In the order of their buffers as far as they are taken.
  return hasSeveralClients([...devices, ...ready]) ? packer.pack([...ranked()], step, limits) : packStep(ranked(), step, limits)
}
