import { mostImportant, type SpooledLeaf, type SpoolQueue } from './spool.ts'

/** State of the device's reporting loop. Due times are ms of its monotonic clock; Infinity: turned off, or in progress. */
export interface ReportingState {
  /** Next sample of the device's condition. */
  readonly sampleDueMs: number
  /** Next comparison of the measurements with the last reports. */
  readonly checkDueMs: number
  /** Next spooled message, if there is one and a bridge to receive it. */
  readonly replayDueMs: number
  readonly queues: readonly Pick<SpoolQueue, 'leaf' | 'count'>[]
  readonly hasBridge: boolean
}

export type ReportingStep =
  | { readonly kind: 'sample' }
  | { readonly kind: 'check' }
  | { readonly kind: 'replay'; readonly leaf: SpooledLeaf }
  | { readonly kind: 'wait'; readonly ms: number }

/** What the reporting loop does next. Live reports come before spooled messages. */
export function nextReportingStep(state: ReportingState, nowMs: number): ReportingStep {
  const { sampleDueMs, checkDueMs, replayDueMs } = state
  if (sampleDueMs <= nowMs) return { kind: 'sample' }
  if (checkDueMs <= nowMs) return { kind: 'check' }
  const leaf = state.hasBridge ? mostImportant(state.queues) : undefined
  if (leaf && replayDueMs <= nowMs) return { kind: 'replay', leaf }
  return { kind: 'wait', ms: Math.min(sampleDueMs, checkDueMs, leaf ? replayDueMs : Number.POSITIVE_INFINITY) - nowMs }
}
