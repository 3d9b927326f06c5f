import type { StreamState } from '../../core/policy/serving/policy.ts'

/** SGLang's defaults (v0.4, `new_token_ratio`): the share at the start and at least, and the steps from one to the other. */
const firstShare = 0.7
const leastShare = 0.14 * firstShare
const decaySteps = 600
/** Tokens of each stream for which there is to be room after a preemption. */
const spareTokens = 20

/**
 * The share of what the running answers lack to their greatest length that SGLang reserves when it admits another one: less with
 * every decoding step, because most answers end early, and more after a preemption. Mutable.
 */
export class ReservedShare {
  value = firstShare

  decoded(): void {
    this.value = Math.max(leastShare, this.value - (firstShare - leastShare) / decaySteps)
  }

  /** @param running those that stay */
  preempted(running: readonly StreamState[]): void {
    let sent = 0
    let most = 0
    for (const { reader } of running) {
      sent += (reader?.sent ?? 0) + spareTokens
      most += reader?.maxTokens ?? 0
    }
    if (most > 0) this.value = Math.min(1, sent / most)
  }
}
