/**
 * The two endpoints of an answer (DiSCo §4). Local: the device's own small model. Remote: one that is reached over the network, a
 * bridge's LLM, another server, or HAT.
 */
export type Side = 'local' | 'remote'

export const otherSide = (side: Side): Side => (side === 'local' ? 'remote' : 'local')

/** The sides as configurations, results and the figures of answers have named them first, and still do: local, remote. */
export type ReportedSide = 'device' | 'server'

export const reportedSide = (side: Side): ReportedSide => (side === 'local' ? 'device' : 'server')

/** By either name. */
export const sideNamed = (name: Side | ReportedSide): Side => (name === 'device' ? 'local' : name === 'server' ? 'remote' : name)

/** Dollars per token; those of the local side by the exchange rate λ (DiSCo Eq. 8). */
export interface TokenCosts {
  /** c^p: of the prompt. */
  readonly prompt: number
  /** c^d: of the answer. */
  readonly output: number
}

/** When each side starts, in ms after the request. Infinity: only if the other side fails. */
export type StartDelays = Readonly<Record<Side, number>>
