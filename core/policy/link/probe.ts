/** What is known of a connection; times in ms of the device's clock. */
export interface ProbeState {
  /** Sessions that are open or being opened. */
  readonly sessions: number
  /** When the device last sent anything on it. */
  readonly sentMs: number
  /** When the older of β_up and β_down was measured; undefined while one of them is unknown. */
  readonly measuredMs: number | undefined
  /** When the last probe began. */
  readonly probedMs: number | undefined
}

export interface ProbeLimits {
  /** Nothing is sent for so long before a probe: who has just connected or answered may be about to ask. */
  readonly quietMs: number
  /** Rates older than this are measured anew. */
  readonly staleMs: number
  /** From one probe to the next at least, whatever became of it. */
  readonly everyMs: number
}

export type ProbeStep = { kind: 'probe' } | { kind: 'wait'; ms: number }

/**
 * Whether an idle link shall be measured by a probe. β_up and β_down come from real frames (HAT 'State monitoring'), so
 * only where there have been none for long, and never beside a session.
 */
export function nextProbeStep(state: ProbeState, { quietMs, staleMs, everyMs }: ProbeLimits, nowMs: number): ProbeStep {
  if (state.sessions > 0) return { kind: 'wait', ms: quietMs }
  const { sentMs, measuredMs = Number.NEGATIVE_INFINITY, probedMs = Number.NEGATIVE_INFINITY } = state
  const dueMs = Math.max(sentMs + quietMs, measuredMs + staleMs, probedMs + everyMs)
  return dueMs > nowMs ? { kind: 'wait', ms: dueMs - nowMs } : { kind: 'probe' }
}
