import { unreadOf } from './reader.ts'
import type { ServedStream } from './served-stream.ts'

/** What operators see of a stream while it is served: figures alone. */
export interface StreamView {
  /**
   * `waiting`: it has had no memory yet. `running`: its KV is in the memory, and rows of it wait for a step or are in one; `idle`: none
   * do. `preempted`: its KV has left the memory, or is on its way from there or back.
   */
  readonly state: 'waiting' | 'running' | 'preempted' | 'idle'
  /** Rows that it holds and that wait. */
  readonly contextTokens: number
  /** What its reader has not read at that rate; null: the reader is unknown. */
  readonly unreadTokens: number | null
  readonly tokensPerS: number | null
  readonly preemptions: number
  readonly resumptions: number
  readonly fastKvBytes: number
  readonly slowKvBytes: number
}

export function streamView(stream: Readonly<ServedStream>, nowMs: number): StreamView {
  const { reader, contextLength, waitingRows, preemptions, chargedBytes, writtenRows, size } = stream
  const state = stateOf(stream)
  return {
    state,
    contextTokens: contextLength + waitingRows,
    unreadTokens: reader ? unreadOf(reader, nowMs) : null,
    tokensPerS: reader?.tokensPerS ?? null,
    preemptions,
    // It cannot be preempted again before it has been resumed.
    resumptions: preemptions - (state === 'preempted' ? 1 : 0),
    fastKvBytes: chargedBytes,
    slowKvBytes: writtenRows * size.bytesPerPosition,
  }
}

function stateOf({ isResident, isInStep, preemptions, waitingRows }: Readonly<ServedStream>): StreamView['state'] {
  if (!isResident) return preemptions === 0 ? 'waiting' : 'preempted'
  return waitingRows > 0 || isInStep ? 'running' : 'idle'
}
