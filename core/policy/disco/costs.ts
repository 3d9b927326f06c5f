import type { Side, TokenCosts } from './state.ts'

/** Tokens of one answer on one side. */
export interface Work {
  readonly promptTokens: number
  readonly tokens: number
}

/** Of both sides, as far as they are known. */
export type SideCosts = Readonly<Partial<Record<Side, TokenCosts | undefined>>>

/** Dollars (DiSCo Eq. 8). */
export const costOf = ({ prompt, output }: TokenCosts, { promptTokens, tokens }: Work): number =>
  prompt * promptTokens + output * tokens

/** c_d · λ. @param joules per token of the prompt and of the answer */
export const deviceCosts = (joules: TokenCosts, dollarsPerJoule: number): TokenCosts => ({
  prompt: joules.prompt * dollarsPerJoule,
  output: joules.output * dollarsPerJoule,
})

/**
 * The side whose use the budget limits (DiSCo Algorithm 1): the device if each of its tokens costs more than any of the server's,
 * otherwise the server, and so where a price is unknown: money that cannot be counted is spent within limits.
 */
export function constrainedSide({ device, server }: SideCosts): Side {
  if (!device || !server) return 'server'
  return Math.min(device.prompt, device.output) > Math.max(server.prompt, server.output) ? 'device' : 'server'
}

/** The side where this answer costs less; the device where they cost the same or a price is unknown. */
export function cheaperSide({ device, server }: SideCosts, work: Work): Side {
  if (!device || !server) return 'device'
  return costOf(server, work) < costOf(device, work) ? 'server' : 'device'
}
