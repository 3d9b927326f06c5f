import type { Distribution } from '../estimate/distribution.ts'
import type { Side, StartDelays } from './state.ts'

/** p(l), as far as the policies need it; `ForgettingHistogram` is one. */
export interface PromptLengths {
  /** Shares of all prompt tokens, l·p(l) / E[l]: of shorter prompts, and of prompts that count as equally long. */
  sharesAt(length: number): { readonly smaller: number; readonly alike: number }
}

/** What the dispatch of a request depends on. */
export interface DispatchState {
  readonly constrained: Side
  /** b: share of all prompt tokens that the constrained side may process, 0..1. */
  readonly share: number
  /** α: share of the budget's tokens kept for the remote side's slowest starts. Default: `defaultTailShare`. */
  readonly tailShare?: number
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

/** The paper states no value. */
export const defaultTailShare = 0.05

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
  const { share, remoteTtftMs, tailShare = defaultTailShare } = state
  if (share <= 0) return Number.POSITIVE_INFINITY
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
 * Whether the server, as the constrained side, starts on a prompt of length l, beside the device: l ≥ l_th (DiSCo Algorithm 3,
 * Eq. 3). **Reading**: l_th is the smallest l with Σ_{l' < l} l'·p(l') ≥ (1 − b)·E[l]; a discrete p has no equality, and only ≥
 * keeps the server's share ≤ b.
 */
export const remoteStarts = (promptTokens: number, { share, promptLengths }: Pick<DispatchState, 'share' | 'promptLengths'>) =>
  share > 0 && promptLengths.sharesAt(promptTokens).smaller >= 1 - share - tolerance

/** Of sums of shares. */
const tolerance = 1e-12
