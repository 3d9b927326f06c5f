import type { Endpoint } from '../../core/answer/endpoint.ts'
import type { Clock } from '../../core/base/clock.ts'
import type { Probe } from '../../core/protocol/jobs.ts'
import { probeProblem } from './probe.ts'

export interface HealthGateOptions {
  /** Whether a bridge receives what the device publishes. */
  readonly hasBridge: () => boolean
  /** What answers the probe; undefined: the device has no model. */
  readonly endpoint: () => Endpoint | undefined
  readonly limits: { readonly healthBridgeS: number; readonly healthProbeS: number }
  readonly clock: Clock
}

const pollMs = 250

/**
 * Whether the device is healthy after a change: a bridge is connected, and the device answers the probe.
 * @param probe absent: no answer is required
 * @returns why it is not; undefined: it is healthy
 * @throws the signal's reason when aborted
 */
export async function healthProblem(
  { hasBridge, endpoint, limits, clock }: HealthGateOptions,
  probe: Probe | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const untilMs = clock.nowMs() + limits.healthBridgeS * 1_000
  while (!hasBridge()) {
    if (clock.nowMs() >= untilMs) return `no bridge was connected within ${limits.healthBridgeS} s`
    await clock.sleep(pollMs, signal)
  }
  return probe && probeProblem(endpoint(), probe, limits.healthProbeS, clock, signal)
}
