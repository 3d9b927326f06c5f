import type { Side, TokenCosts } from './state.ts'

/** An answer that could go on at another side. */
export interface MigrationState {
  readonly source: TokenCosts
  readonly target: TokenCosts
  /** Of the prompt and the answer so far: the target must compute them. */
  readonly contextTokens: number
  /** Expected, of the answer. */
  readonly remainingTokens: number
}

/**
 * Whether what is saved by decoding at the target exceeds the overhead (DiSCo Eq. 4, 5). **Reading**: the overhead, in money, is
 * the target's cost of the prompt and the answer so far.
 */
export const migrationPays = ({ source, target, contextTokens, remainingTokens }: MigrationState): boolean =>
  (source.output - target.output) * remainingTokens > target.prompt * contextTokens

/**
 * B = r_c · t_m (DiSCo Eq. 6): unread tokens with which the reader does not notice a migration. **Reading**: t_m is all that
 * passes until the target's first token: round trip, prompt and answer so far, loading of the model.
 * @param tokensPerS of the reader; 0: it takes tokens as they come, and no buffer builds up
 */
export const bufferTokens = (tokensPerS: number, migrationMs: number): number => Math.ceil((tokensPerS * migrationMs) / 1_000)

/** A migration in progress, and what the source goes on with if it fails. */
export interface Attempt<P> {
  readonly from: Side
  readonly to: Side
  /** When the source must go on, so that the reader notices nothing; Infinity: it cannot. */
  giveUpMs: number
  /** Whether the source has fallen silent: its next piece ends the attempt. */
  readonly isForSilence?: boolean
  /** Pieces of the source: those that were cut off, and those that it has sent since. */
  readonly aside: P[]
}
