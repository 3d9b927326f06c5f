import { turnsOf } from '../fairness/in-turns.ts'
import type { ServingState, StreamState } from '../serving/policy.ts'
import type { Requests } from './tracker.ts'
import { type WorkingSetLimits, workingSetSize } from './working-set.ts'

export interface AdmissionLimits extends WorkingSetLimits {
  /** Share by which the rates may exceed Γ, which is an estimate, before nothing is admitted and the order of arrival governs. */
  readonly overloadTolerance: number
}

/**
 * Whether the readers take more than the engine generates, so that no schedule serves them all (Eq. 6 violated).
 * @param admitted that are about to join the requests
 */
export function isOverloaded(
  requests: Requests,
  state: ServingState,
  limits: AdmissionLimits,
  admitted: readonly StreamState[] = [],
): boolean {
  const tokensPerS = admitted.reduce((sum, { reader }) => sum + (reader?.tokensPerS ?? 0), requests.tokensPerS)
  return tokensPerS > (1 + limits.overloadTolerance) * throughput(requests, state)
}

/**
 * Γ of Eq. 6: the most that has been measured, but no more than the requests that the memory holds at their present lengths get
 * together; infinite where nothing has been measured.
 */
function throughput({ residents }: Requests, { speeds, memory, step }: ServingState): number {
  const measured = speeds.tokensPerS ?? Number.POSITIVE_INFINITY
  if (residents.length === 0) return measured
  const fitting = Math.max(1, Math.floor(memory.budgetBytes / meanBytes(residents)))
  const streams = Math.min(fitting, step.streams)
  const stepS = speeds.stepSOf(streams)
  return stepS ? Math.min(measured, streams / stepS) : measured
}

const meanBytes = (streams: readonly StreamState[]): number =>
  Math.max(1, streams.reduce((sum, { kvBytes }) => sum + kvBytes, 0) / streams.length)

/**
 * The requests that may join the working set, those whose turn it is first: while it has room (Eq. 4, 5) and the readers take no
 * more than the engine generates (Eq. 6), within the tolerance. Whatever others have of both, a client with fewer
 * requests in the working set than another one may have more.
 * @param ratesCount false for memory that nothing else could use: whatever the rates, it is better used than free
 */
export function admissible(
  requests: Requests,
  state: ServingState,
  limits: AdmissionLimits,
  ratesCount: boolean,
): readonly StreamState[] {
  const { newcomers, residents } = requests
  const [first] = newcomers
  if (!first) return []
  const sample = residents.length > 0 ? residents : [first]
  const requestBytes = meanBytes(sample)
  const memoryBytes = state.slow ? state.memory.budgetBytes + state.slow.budgetBytes : Number.POSITIVE_INFINITY
  const size = workingSetSize(memoryBytes, requestBytes, residents.length, limits)
  const places = Math.max(0, size - requests.working)
  const maxTokensPerS = ratesCount ? (1 + limits.overloadTolerance) * throughput(requests, state) : Number.POSITIVE_INFINITY
  const { length: owing } = owed(requests)
  let { tokensPerS } = requests
  let count = 0
  while (count < newcomers.length) {
    tokensPerS += newcomers[count]!.reader?.tokensPerS ?? 0
    if ((count >= places || tokensPerS > maxTokensPerS) && count >= owing) break
    count += 1
  }
  return newcomers.slice(0, count)
}

/** The newcomers, which take turns, of clients that have fewer requests in the working set than another one. */
export function owed({ newcomers, byClient }: Requests): readonly StreamState[] {
  if (!byClient) return []
  const most = Math.max(0, ...byClient.values())
  const turns = turnsOf(newcomers, byClient)
  const first = turns.findIndex((turn) => turn + 1 >= most)
  return first < 0 ? newcomers : newcomers.slice(0, first)
}
