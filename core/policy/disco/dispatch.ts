import type { Distribution } from '../estimate/distribution.ts'
import type { Side, StartDelays } from './state.ts'

/** p(l), as far as the policies need it; `ForgettingHistogram` is one. */
export interface PromptLengths {
  /** Shares of all prompt tokens, l·p(l) / E[l]: of shorter prompts, and of prompts that count as equally long. */
  sharesAt(length: number): { readonly smaller: number; readonly alike: number }
  /** Part of the prompts that are no longer. */
  cdf(length: number): number
}

/** What the dispatch of a request depends on. */
export interface DispatchState {
  readonly constrained: Side
  /** b: share of all prompt tokens that the constrained side may process, 0..1. */
  readonly share: number
  /** α: share of all prompt tokens kept for the remote side's slowest starts. Default: as of `tailShareOf`. */
  readonly tailShare?: number | undefined
  /** Estimated time to the local side's first token, by tokens of the prompt; absent: unknown. */
  readonly localMs?: ((promptTokens: number) => number) | undefined
  /** F: the remote side's time to the first token, in ms. */
  readonly remoteTtftMs: Distribution
  /** The request's own length included. */
  readonly promptLengths: PromptLengths
  /**
   * How long a reader waits at most for a local side that is to answer alone because the remote one is limited: then that starts,
   * beyond its share. Absent: as long as it takes (the paper).
   */
  readonly patience?: LocalPatience | undefined
}

export interface LocalPatience {
  readonly maxMs: number
  /** Estimated time to the local side's first token for this prompt. */
  readonly localMs: number
}

/** Longer waits lose a reader's attention (Nielsen 1993): seconds. */
export const defaultAutoPatienceS = 10

/** The least α. The paper states no value. */
export const defaultTailShare = 0.05
/** Of all answers, whose TTFT is the tail that α is chosen by. */
const slowest = 0.01
/** Parts of b that α may be. */
const tailParts: readonly number[] = Array.from({ length: 9 }, (_, step) => step / 8)
/** A larger α must lower the tail at least to that, as it takes from the mean. */
const worthwhile = 0.8
const longestPrompt = 2 ** 20

/** When each side starts on a prompt (DiSCo Algorithms 1 to 3). */
export function dispatchOf(promptTokens: number, state: DispatchState): StartDelays {
  if (state.constrained === 'local') return { local: localWaitMs(promptTokens, state), remote: 0 }
  return { local: 0, remote: remoteStarts(promptTokens, state) ? 0 : remoteWaitMs(state) }
}

/**
 * W of a server that the budget would leave out. Algorithm 3 does not ask how long the device takes, and its threshold gives a slow
 * device prompts that it reads for minutes. Where it will be too slow anyway, nothing is gained by waiting for it.
 */
function remoteWaitMs({ share, patience, remoteTtftMs }: DispatchState): number {
  if (!patience || share <= 0) return Number.POSITIVE_INFINITY
  const { maxMs, localMs } = patience
  return localMs > Math.max(maxMs, remoteTtftMs.quantile(0.5)) ? 0 : maxMs
}

/**
 * W[l] (DiSCo Algorithm 2): the device starts on prompts of length l if the server has no token by then. All wait for
 * w_tail = F⁻¹(1 − min(α, b)); what is left of the budget starts the device at once, shortest prompts first; the last ones wait as
 * long as it takes to spend the rest.
 *
 * **Reading** (line 18 and Eq. 2 disagree in sign and normalisation): a device that waits w runs with probability 1 − F(w), and
 * all costs are shares of E[l]. Where F has a step, w_tail spends α' = 1 − F(w_tail) < α. Then
 * Σ l·p(l)·(1 − F(W[l])) / E[l] ≤ b, and equal where F is continuous.
 */
export function localWaitMs(promptTokens: number, state: Omit<DispatchState, 'constrained'>): number {
  const { share, remoteTtftMs } = state
  if (share <= 0) return Number.POSITIVE_INFINITY
  const tailShare = tailShareOf(state)
  const tailMs = remoteTtftMs.quantile(1 - Math.min(tailShare, share))
  // Not even what a step of F has left unspent: else a larger budget, which needs all of it, could make short prompts wait.
  if (share <= tailShare) return tailMs
  const spentOnTail = 1 - remoteTtftMs.cdf(tailMs)
  const { smaller, alike } = state.promptLengths.sharesAt(promptTokens)
  const left = share - spentOnTail - smaller * (1 - spentOnTail)
  if (left >= alike * (1 - spentOnTail) - tolerance) return 0
  return left <= 0 ? tailMs : remoteTtftMs.quantile(1 - spentOnTail - left / alike)
}

/**
 * α, as the paper leaves it open: what lowers the P99 of the TTFT most, by what is known. A larger α lets long prompts wait less for a
 * slow server, and fewer short ones start at once.
 */
export function tailShareOf(state: Omit<DispatchState, 'constrained'>): number {
  const { share, tailShare, localMs } = state
  if (tailShare !== undefined || !localMs || share <= defaultTailShare) return tailShare ?? defaultTailShare
  let best = defaultTailShare
  let bestMs = slowestMs(best, localMs, state)
  for (const part of tailParts) {
    const candidate = part * share
    if (candidate <= defaultTailShare) continue
    const ms = slowestMs(candidate, localMs, state)
    if (ms < worthwhile * bestMs) [best, bestMs] = [candidate, ms]
  }
  return best
}

/** P99 of the TTFT with an α: a later one needs a slow server, and a prompt too long to start at once and to be read by then. */
function slowestMs(tailShare: number, localMs: (tokens: number) => number, state: Omit<DispatchState, 'constrained'>): number {
  const { share, remoteTtftMs, promptLengths } = state
  const waitMs = remoteTtftMs.quantile(1 - tailShare)
  const spent = 1 - remoteTtftMs.cdf(waitMs)
  const startsAtOnce = (length: number) => {
    const { smaller, alike } = promptLengths.sharesAt(length)
    return share - spent >= (smaller + alike) * (1 - spent)
  }
  const longest = firstLength((length) => !startsAtOnce(length))
  const waiting = 1 - promptLengths.cdf(longest - 1)
  if (waiting <= slowest) return localMs(longest)
  const byServerMs = remoteTtftMs.quantile(1 - slowest / waiting)
  const isRare = (length: number) =>
    (1 - remoteTtftMs.cdf(waitMs + localMs(length))) * Math.min(waiting, 1 - promptLengths.cdf(length)) <= slowest
  return Math.min(byServerMs, waitMs + localMs(firstLength(isRare)))
}

/** The shortest prompt with a property that all longer ones have, too. */
function firstLength(has: (length: number) => boolean): number {
  let [low, high] = [1, longestPrompt]
  while (low < high) {
    const middle = (low + high) >> 1
    if (has(middle)) high = middle
    else low = middle + 1
  }
  return low
}

/**
 * Whether the server, as the constrained side, starts on a prompt of length l, beside the device: l ≥ l_th (DiSCo Algorithm 3,
 * Eq. 3). **Reading**: l_th is the smallest l with Σ_{l' < l} l'·p(l') ≥ (1 − b)·E[l]; a discrete p has no equality, and only ≥
 * keeps the server's share ≤ b.
 */
export const remoteStarts = (promptTokens: number, { share, promptLengths }: Pick<DispatchState, 'share' | 'promptLengths'>) =>
  share > 0 && promptLengths.sharesAt(promptTokens).smaller >= 1 - share - tolerance

/** Of sums of shares. */
const tolerance = 1e-12
