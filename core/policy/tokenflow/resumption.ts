import type { Resumption, ServingSpeeds, StreamState } from '../serving/policy.ts'

/** Seconds that preempting a stream takes: writing the rows that the slow tier lacks. 0 where nothing has been measured. */
export function evictS({ contextLength, writtenRows, kvBytes }: StreamState, { evictBytesPerS }: ServingSpeeds): number {
  if (evictBytesPerS === undefined || contextLength === 0) return 0
  return (kvBytes * (1 - Math.min(1, writtenRows / contextLength))) / evictBytesPerS
}

/** Seconds that copying an evicted stream's KV back takes. */
export function loadS({ contextLength, kvBytes }: StreamState, { loadBytesPerS }: ServingSpeeds): number {
  return loadBytesPerS === undefined || contextLength === 0 ? 0 : kvBytes / loadBytesPerS
}

/**
 * The cheaper way back for an evicted stream, and the seconds until it can decode (TokenFlow §4.2.3): t_IO, or the measured
 * prefill time of all its rows. Rows of a prompt that no tier holds are computed either way.
 * @param queued seconds of what goes before it: evicting, evict and load queueing; and recomputations, which share one engine
 */
export function wayBack(
  stream: StreamState,
  speeds: ServingSpeeds,
  queued: { readonly loadS: number; readonly recomputeS: number },
): { readonly by: Resumption; readonly s: number } {
  const { contextLength, waitingRows, resumptions } = stream
  const perRow = speeds.prefillSPerRow ?? 0
  const load = { by: 'load', s: queued.loadS + loadS(stream, speeds) + prefillRows(waitingRows) * perRow } as const
  const recompute = { by: 'recompute', s: queued.recomputeS + prefillRows(contextLength + waitingRows) * perRow } as const
  if (!resumptions.includes('load')) return recompute
  if (!resumptions.includes('recompute')) return load
  // Unmeasured, both take no time: a copy is then the better guess.
  return recompute.s < load.s ? recompute : load
}

/** A single row is decoded, which every stream does. */
const prefillRows = (rows: number) => (rows > 1 ? rows : 0)
