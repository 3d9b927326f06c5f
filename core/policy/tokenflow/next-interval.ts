import { maxMinShares } from '../fairness/max-min.ts'
import { isEvictable } from '../serving/place-devices.ts'
import type { ServingState, StreamState } from '../serving/policy.ts'
import type { Room } from '../serving/room.ts'
import { type AdmissionLimits, admissible, isOverloaded, owed } from './admission.ts'
import { chooseWithin } from './choose-within.ts'
import type { HandOver } from './hand-over.ts'
import { evictS, loadS, wayBack } from './resumption.ts'
import { byBuffer, lastsS, type Requests } from './tracker.ts'
import { utilityOf } from './utility.ts'

export interface IntervalLimits extends AdmissionLimits {
  /** Δt: the memory is given out anew at most this often. */
  readonly intervalMs: number
  /** μ_b >= 1: a request can be preempted for a new one if its buffer lasts so many swaps. 1 is agile, 20 nearly FCFS. */
  readonly conservativeness: number
  /** γ of Eq. 3: weighted tokens that an empty buffer, or a second of stalling, costs. */
  readonly stallWeight: number
}

/** Seconds for which the buffer of a request must last if it is preempted: evicting, loading, and the wait for the next choice. */
export function swapS(stream: StreamState, { speeds }: ServingState, { intervalMs }: IntervalLimits): number {
  return evictS(stream, speeds) + loadS(stream, speeds) + intervalMs / 1_000
}

/** Whether a reader runs out of tokens before its preempted request could be resumed at a later choice. */
export function isCritical(stream: StreamState, state: ServingState, limits: IntervalLimits, nowMs: number): boolean {
  return lastsS(stream, nowMs) < limits.conservativeness * swapS(stream, state, limits)
}

/**
 * TokenFlow's two steps (§4.2): admission to the working set, then the choice by utility among its requests; or the earliest
 * requests while the readers take more than the engine generates (§4.3).
 * @param resumed those that get free memory anyway
 * @returns undefined where nothing calls for a choice: no resident lacks memory, no preempted request is critical, none is admitted
 */
export function chooseForInterval(
  requests: Requests,
  resumed: ReadonlySet<StreamState>,
  { room, short }: { readonly room: Room; readonly short: readonly StreamState[] },
  state: ServingState,
  limits: IntervalLimits,
  nowMs: number,
): HandOver | undefined {
  const isShort = short.length > 0
  // The rows of a draft that branches cannot leave.
  const residents = requests.residents.filter(isEvictable)
  const left = resumed.size === 0 ? requests.away : requests.away.filter((stream) => !resumed.has(stream))
  const reclaimableBytes = residents.reduce((sum, one) => sum + one.kvBytes + (isShort ? 0 : one.growthBytes), 0)
  // While the buffer lasts, an idle stream's next rows can wait for it to be loaded.
  const idle = requests.idle.filter((stream) => !isCritical(stream, state, limits, nowMs))
  const idleBytes = idle.reduce((sum, { kvBytes }) => sum + kvBytes, 0)
  const memoryBytes = room.freeBytes + room.cachedBytes + reclaimableBytes + idleBytes
  // Readers that wait show sooner than Γ, which is an estimate, that the working set is as large as engine and memory serve. Without a
  // slow tier the budget of recomputations bounds it.
  const stalls = state.slow !== undefined && hasStall([...left, ...residents], state, nowMs)
  const mayJoin = stalls ? owed(requests) : admissible(requests, state, limits, true)
  const joining = mayJoin.filter((stream) => !resumed.has(stream))
  const crowded = isOverloaded(requests, state, limits, joining)
  const choose = (claims: Claims, bytes: number): Chosen =>
    crowded ? earliest(claims, bytes) : mostUseful(claims, bytes, isShort, state, limits, nowMs)
  const claims = { residents, left, joining }
  const { streams, isDue } = requests.byClient ? byShares(claims, memoryBytes, choose) : choose(claims, memoryBytes)
  if (!isShort && !isDue) return undefined
  const choice = choiceOf(streams, [...idle, ...residents], short)
  return crowded ? choice : { ...choice, resume: loadable(choice.resume, state, limits, nowMs) }
}

/** Whether the reader of a request that has begun waits, though it takes no more than a request generates. */
function hasStall(streams: readonly StreamState[], { speeds, step }: ServingState, nowMs: number): boolean {
  const stepS = speeds.stepSOf(Math.min(streams.length, step.streams))
  const canServe = ({ tokensPerS }: { readonly tokensPerS: number }) => !stepS || tokensPerS * stepS <= 1
  return streams.some((stream) => stream.reader && stream.reader.sent > 0 && canServe(stream.reader) && lastsS(stream, nowMs) < 0)
}

/** The streams among which memory is given out. */
interface Claims {
  readonly residents: readonly StreamState[]
  /** Preempted, without those that get free memory anyway. */
  readonly left: readonly StreamState[]
  readonly joining: readonly StreamState[]
}

/** Those that get memory. `isDue`: others than residents claim it. */
interface Chosen {
  readonly streams: readonly StreamState[]
  readonly isDue: boolean
}

/** Gives out each client's share of the memory; what one does not need, or is too small for a stream, is for all. */
function byShares(claims: Claims, memoryBytes: number, choose: (claims: Claims, bytes: number) => Chosen): Chosen {
  const all = [...claims.residents, ...claims.left, ...claims.joining]
  const demands = new Map<string, number>()
  for (const stream of all) demands.set(stream.client, (demands.get(stream.client) ?? 0) + bytesOf(stream))
  const own = Array.from(maxMinShares(demands, memoryBytes), ([client, bytes]) =>
    choose(
      claimsOf(claims, (stream) => stream.client === client),
      bytes,
    ),
  )
  const chosen = new Set(own.flatMap(({ streams }) => streams))
  const leftBytes = [...chosen].reduce((bytes, stream) => bytes - bytesOf(stream), memoryBytes)
  const others = choose(
    claimsOf(claims, (stream) => !chosen.has(stream)),
    leftBytes,
  )
  return { streams: [...chosen, ...others.streams], isDue: others.isDue || own.some(({ isDue }) => isDue) }
}

const claimsOf = ({ residents, left, joining }: Claims, isOne: (stream: StreamState) => boolean): Claims => ({
  residents: residents.filter(isOne),
  left: left.filter(isOne),
  joining: joining.filter(isOne),
})

function earliest({ residents, left, joining }: Claims, memoryBytes: number): Chosen {
  const ordered = [...residents, ...left, ...joining].sort((a, b) => a.id - b.id)
  return { streams: firstThatFit(ordered, memoryBytes), isDue: left.length + joining.length > 0 }
}

function mostUseful(
  { residents, left, joining }: Claims,
  memoryBytes: number,
  isShort: boolean,
  state: ServingState,
  limits: IntervalLimits,
  nowMs: number,
): Chosen {
  const critical = left.filter((stream) => isCritical(stream, state, limits, nowMs))
  // Newcomers for which running requests can be preempted, because their buffers last out a swap (§4.2.1).
  let spareBytes = memoryBytes
  for (const stream of residents) {
    spareBytes -= isShort ? stream.kvBytes : bytesOf(stream)
    if (!isCritical(stream, state, limits, nowMs)) spareBytes += stream.kvBytes
  }
  const candidates = [...residents, ...critical, ...firstThatFit(joining, spareBytes)]
  const bytes = new Float64Array(candidates.map(bytesOf))
  const chosen = chooseWithin(utilitiesOf(candidates, residents, state, limits, nowMs), bytes, memoryBytes)
  const streams = chosen.sort((a, b) => a - b).map((at) => candidates[at]!)
  return { streams, isDue: candidates.length > residents.length }
}

/** Nothing is resumed, and residents are preempted for the rows of others, until the next choice. */
export function leastChange(
  requests: Requests,
  growing: readonly StreamState[],
  state: ServingState,
  limits: IntervalLimits,
  nowMs: number,
): HandOver {
  const idle = requests.idle.filter((stream) => !isCritical(stream, state, limits, nowMs))
  return { resume: [], growing, replaceable: [...idle, ...requests.residents.filter(isEvictable)] }
}

/** Share of Δt in which all loads of a choice end: until then, what is to be loaded holds memory and generates nothing. */
const loadingShare = 0.25

/** The first of these to run out of tokens, as many as can be loaded in time, but at least one. */
function loadable(
  streams: readonly StreamState[],
  { speeds }: ServingState,
  { intervalMs }: IntervalLimits,
  nowMs: number,
): readonly StreamState[] {
  let leftS = (loadingShare * intervalMs) / 1_000
  const loaded: StreamState[] = []
  for (const stream of byBuffer(streams, nowMs)) {
    leftS -= loadS(stream, speeds)
    if (leftS < 0 && loaded.length > 0) break
    loaded.push(stream)
  }
  return loaded
}

function utilitiesOf(
  candidates: readonly StreamState[],
  residents: readonly StreamState[],
  state: ServingState,
  limits: IntervalLimits,
  nowMs: number,
): Float64Array {
  const { speeds } = state
  const seconds = limits.intervalMs / 1_000
  const running = Math.max(1, residents.length)
  const meanSwapS = residents.reduce((sum, stream) => sum + swapS(stream, state, limits), 0) / running || seconds
  const meanEvictS = residents.reduce((sum, stream) => sum + evictS(stream, speeds), 0) / running
  const queued = { loadS: meanEvictS, recomputeS: 0 }
  const interval = { seconds, swapS: meanSwapS, stallWeight: limits.stallWeight }
  const utilities = new Float64Array(candidates.length)
  for (let at = 0; at < candidates.length; at += 1) {
    const stream = candidates[at]!
    const { reader, residency } = stream
    if (!reader) continue
    const lasts = lastsS(stream, nowMs)
    const request = {
      unread: Math.max(0, lasts) * reader.tokensPerS,
      tokensPerS: reader.tokensPerS,
      waitedS: Math.max(0, -lasts),
      hasBegun: reader.firstTokenMs !== undefined,
      answerTokens: reader.maxTokens,
      missingTokens: reader.maxTokens - reader.sent,
      // Unmeasured, a request is taken to generate what its reader takes.
      speed: speeds.tokensPerS === undefined ? reader.tokensPerS : speeds.tokensPerS / running,
      overheadS: residency === 'evicted' ? wayBack(stream, speeds, queued).s : 0,
    }
    // Free memory is better used than not, however large the buffer.
    utilities[at] = Math.max(leastUtility, utilityOf(request, interval))
  }
  return utilities
}

const leastUtility = 1e-9

const bytesOf = ({ kvBytes, growthBytes }: StreamState) => kvBytes + growthBytes

function firstThatFit(ordered: readonly StreamState[], memoryBytes: number): readonly StreamState[] {
  let left = memoryBytes
  const end = ordered.findIndex((stream) => {
    left -= bytesOf(stream)
    return left < 0
  })
  return end < 0 ? ordered : ordered.slice(0, end)
}

function choiceOf(chosen: readonly StreamState[], residents: readonly StreamState[], short: readonly StreamState[]): HandOver {
  const isChosen = new Set(chosen)
  const replaceable = residents.filter((stream) => !isChosen.has(stream))
  return {
    resume: chosen.filter(({ residency }) => residency === 'evicted'),
    // Those that cannot leave grow, too.
    growing: short.filter((stream) => !replaceable.includes(stream)),
    replaceable,
  }
}
