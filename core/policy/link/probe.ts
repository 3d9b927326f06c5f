/** State of a connection; times in ms of the device's clock. */
export interface ProbeState {
  /** Sessions that are open or requested. */
  readonly sessions: number
  /** When the device last sent anything. */
  readonly sentMs: number
  /** When the older of β_up and β_down was measured; undefined if either is unknown. */
  readonly measuredMs: number | undefined
  /** When the last probe started. */
  readonly probedMs: number | undefined
}

export interface ProbeLimits {
  /** Idle time before a probe: a device that has just connected or finished an answer may start another. */
  readonly quietMs: number
  /** Age from which rates are measured again. */
  readonly staleMs: number
  /** Shortest time between two probes, successful or not. */
  readonly everyMs: number
}

export type ProbeStep = { kind: 'probe' } | { kind: 'wait'; ms: number }

/**
 * Whether to measure an idle link by a probe. Real frames measure β_up and β_down (HAT 'State monitoring'), so a probe is
 * needed only after a long time without any. It never runs beside a session.
 */
export function nextProbeStep(state: ProbeState, { quietMs, staleMs, everyMs }: ProbeLimits, nowMs: number): ProbeStep {
  if (state.sessions > 0) return { kind: 'wait', ms: quietMs }
  const { sentMs, measuredMs = Number.NEGATIVE_INFINITY, probedMs = Number.NEGATIVE_INFINITY } = state
  const dueMs = Math.max(sentMs + quietMs, measuredMs + staleMs, probedMs + everyMs)
  return dueMs > nowMs ? { kind: 'wait', ms: dueMs - nowMs } : { kind: 'probe' }
}
