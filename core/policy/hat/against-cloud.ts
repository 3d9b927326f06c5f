/** HAT beside the cloud that writes answers alone, with the whole model. */
export interface DistantRounds {
  /** Seconds per token of HAT, and of the cloud alone: both of one token, or both of the same answer. */
  readonly tokenS: number
  readonly cloudTokenS: number
  /** Of a token's round, where it was measured. */
  readonly round?: {
    readonly rttS: number
    /** Tokens per round. */
    readonly acceptLength: number
    /** Of the cloud, for a verification. */
    readonly computeS: number
  }
}

export interface AgainstCloud {
  readonly isSlower: boolean
  /** HAT's seconds over the cloud's. */
  readonly ratio: number
  /** Up to this round-trip time HAT's tokens come as soon as the cloud's; 0: at none. */
  readonly maxRttS: number | undefined
  /** Sessions that the same cloud serves at the same tokens per second, over those that it serves alone. */
  readonly sessions: number | undefined
}

/**
 * Whether drafting on a device is slower than the cloud alone, and what it buys. A round of R seconds gives τ tokens, so it pays as
 * long as R <= τ·t_cloud: round trips beyond that lose, however good the drafts. What remains is capacity: the cloud computes only
 * verifications, of v seconds for τ tokens. "Speculation at a Distance", Lyu et al. 2026, arXiv:2606.25091, has both
 * inequalities, with a draft model in the cloud as the other side of the second.
 */
export function againstCloud({ tokenS, cloudTokenS, round }: DistantRounds): AgainstCloud {
  const base = { isSlower: tokenS > cloudTokenS, ratio: tokenS / cloudTokenS }
  if (!round) return { ...base, maxRttS: undefined, sessions: undefined }
  const { rttS, acceptLength, computeS } = round
  const otherS = acceptLength * tokenS - rttS
  return {
    ...base,
    maxRttS: Math.max(0, acceptLength * cloudTokenS - otherS),
    sessions: (acceptLength * cloudTokenS) / computeS,
  }
}
