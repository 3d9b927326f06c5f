/**
 * The two endpoints of an answer (DiSCo §4): the device's own small model, and one that is reached over the network: a bridge's
 * LLM, another server, or HAT.
 */
export type Side = 'device' | 'server'

export const otherSide = (side: Side): Side => (side === 'device' ? 'server' : 'device')

/** Dollars per token; those of the device by the exchange rate λ (DiSCo Eq. 8). */
export interface TokenCosts {
  /** c^p: of the prompt. */
  readonly prompt: number
  /** c^d: of the answer. */
  readonly output: number
}

/** When each side starts, in ms after the request. Infinity: only if the other side fails. */
export type Dispatch = Readonly<Record<Side, number>>
