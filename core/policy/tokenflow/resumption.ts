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
  const loadingS = queued.loadS + loadS(stream, speeds) + prefillS(stream.waitingRows, speeds)
  const recomputingS = queued.recomputeS + prefillS(stream.contextLength + stream.waitingRows, speeds)
  const { resumptions } = stream
  // Unmeasured, both take no time: a copy is then the better guess.
  const isLoaded = resumptions.includes('load') && (loadingS <= recomputingS || !resumptions.includes('recompute'))
  return isLoaded ? { by: 'load', s: loadingS } : { by: 'recompute', s: recomputingS }
}

/** Without a single row, which is decoded as in every step. */
function prefillS(rows: number, { prefillSPerRow = 0 }: ServingSpeeds): number {
  return rows > 1 ? rows * prefillSPerRow : 0
}
