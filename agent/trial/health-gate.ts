import type { Endpoint } from '../../core/answer/endpoint/endpoint.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import type { TrialQuestion } from '../../core/wire/protocol/jobs.ts'
import { answerProblem } from './trial-question.ts'

export interface HealthGateOptions {
  /** Whether a bridge receives what the device publishes. */
  readonly hasBridge: () => boolean
  /** What answers the probe; undefined: the device has no model. */
  readonly endpoint: () => Endpoint | undefined
  readonly limits: { readonly healthBridgeS: number; readonly healthProbeS: number; readonly healthSoakS: number }
  readonly clock: Clock
}

const pollMs = 250

/**
 * Whether the device is healthy after a change: a bridge is connected, the device answers the probe, and then runs on with a
 * bridge for the soak time. A process that ends before has not decided.
 * @param probe absent: no answer is required
 * @returns why it is not; undefined: it is healthy
 * @throws the signal's reason when aborted
 */
export async function healthProblem(
  options: HealthGateOptions,
  probe: TrialQuestion | undefined,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { endpoint, limits, clock } = options
  const unanswered = () => probe && answerProblem(endpoint(), probe, limits.healthProbeS, clock, signal)
  return (
    (await linkProblem(options, 0, signal)) ??
    (await unanswered()) ??
    (await linkProblem(options, limits.healthSoakS * 1_000, signal))
  )
}

/** Waits until a bridge has been connected for this long in all. @returns why not: it was away for too long */
async function linkProblem({ hasBridge, limits, clock }: HealthGateOptions, forMs: number, signal: AbortSignal) {
  let connectedMs = 0
  let lastMs = clock.nowMs()
  let seenMs = lastMs
  for (;;) {
    const nowMs = clock.nowMs()
    if (hasBridge()) {
      connectedMs += nowMs - lastMs
      seenMs = nowMs
      if (connectedMs >= forMs) return undefined
    } else if (nowMs - seenMs >= limits.healthBridgeS * 1_000) {
      return `no bridge was connected within ${limits.healthBridgeS} s`
    }
    lastMs = nowMs
    await clock.sleep(pollMs, signal)
  }
}
