import { countByClient, hasSeveralClients, inTurns } from '../fairness/in-turns.ts'
import { isEvictable } from '../serving/place-devices.ts'
import type { ServingState, StreamState } from '../serving/policy.ts'
import { ascending } from './ascending.ts'

/** The streams with a reader and waiting rows, by what the scheduler can do with them (TokenFlow's request tracker). */
export interface Requests {
  /** With their KV in the fast tier. */
  readonly residents: readonly StreamState[]
  /** Devices' streams without waiting rows whose reader is known: they can be preempted while their buffers last. */
  readonly idle: readonly StreamState[]
  /** Preempted. */
  readonly away: readonly StreamState[]
  /** Not admitted yet: clients take turns, each of them in the order of arrival. */
  readonly newcomers: readonly StreamState[]
  /** Of those without memory: what the smallest resumption charges. */
  readonly smallestBytes: number
  /** Requests in the working set, those in a step or transfer included. */
  readonly working: number
  /** Σ r_i of Eq. 6: tokens per second that their readers take. */
  readonly tokensPerS: number
  /** Of `working`, how many each client has; undefined where all requests are of one. */
  readonly byClient: ReadonlyMap<string, number> | undefined
}

export function track(state: ServingState): Requests {
  const residents: StreamState[] = []
  const away: StreamState[] = []
  const newcomers: StreamState[] = []
  let smallestBytes = Number.POSITIVE_INFINITY
  let working = 0
  let tokensPerS = 0
  for (const stream of state.waiting) {
    const { residency, reader } = stream
    if (!reader) continue
    if (residency === 'evicted' && stream.kvBytes < smallestBytes) smallestBytes = stream.kvBytes
    if (residency === 'evicted' && reader.sent === 0 && stream.contextLength === 0) {
      newcomers.push(stream)
      continue
    }
    working += 1
    tokensPerS += reader.tokensPerS
    if (residency === 'evicted') away.push(stream)
    else if (residency === 'resident') residents.push(stream)
  }
  const byClient = hasSeveralClients(state.waiting) ? countByClient(workingOf(state.waiting, newcomers)) : undefined
  return {
    residents,
    // Collected on demand: most plans preempt nothing.
    get idle() {
      return state.idle.filter((stream) => stream.reader && isEvictable(stream))
    },
    away,
    newcomers: byClient ? inTurns(newcomers, byClient) : newcomers,
    smallestBytes,
    working,
    tokensPerS,
    byClient,
  }
}

function workingOf(waiting: readonly StreamState[], newcomers: readonly StreamState[]): readonly StreamState[] {
  const isNew = new Set(newcomers)
  return waiting.filter((stream) => stream.reader && !isNew.has(stream))
}

/** Those whose buffer ends first first; put in order as far as they are taken. */
export const byBuffer = (streams: readonly StreamState[], nowMs: number) => inOrder(streams, (stream) => lastsS(stream, nowMs))

/** The other way round. */
export const byBufferDescending = (streams: readonly StreamState[], nowMs: number) =>
  inOrder(streams, (stream) => -lastsS(stream, nowMs))

function* inOrder(streams: readonly StreamState[], keyOf: (stream: StreamState) => number): Generator<StreamState> {
  const keys = new Float64Array(streams.length)
  for (let at = 0; at < keys.length; at += 1) keys[at] = keyOf(streams[at]!)
  for (const at of ascending(keys)) yield streams[at]!
}

/** Seconds until the reader has read everything; negative: since when it waits. Streams without a reader never last. */
export function lastsS({ reader }: StreamState, nowMs: number): number {
  if (!reader) return Number.NEGATIVE_INFINITY
  return ((reader.drainedMs ?? reader.requestedMs) - nowMs) / 1_000
}
