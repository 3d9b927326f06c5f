export interface WorkingSetLimits {
  /** W_max: requests at once, whatever the memory holds. */
  readonly maxRequests: number
  /** λ_w of Eq. 5, 0 <= λ_w < 1: how far the working set shrinks towards the requests that run. */
  readonly damping: number
}

/**
 * How many requests may share the memory, those with their KV in the slow tier included (TokenFlow Eq. 4, 5). M is the memory
 * of both tiers: with the fast tier alone no request would ever be preempted.
 * @param memoryBytes M; infinite where an evicted request needs none
 * @param requestBytes β, > 0: KV of a request
 * @param running N_running: requests whose KV is in the fast tier
 * @returns an integer >= 1
 */
export function workingSetSize(memoryBytes: number, requestBytes: number, running: number, limits: WorkingSetLimits): number {
  const { maxRequests, damping } = limits
  const fitting = Math.min(maxRequests, Math.floor(memoryBytes / requestBytes))
  const size = running < maxRequests ? fitting - damping * (fitting - running) : fitting
  return Math.max(1, Math.ceil(size))
}
