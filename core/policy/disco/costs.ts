import type { SideWork } from './controller-plan.ts'
import { type ReportedSide, type Side, sideNamed, type TokenCosts } from './state.ts'

/** Of both sides, as far as they are known. */
export type SideCosts = Readonly<Partial<Record<Side, TokenCosts | undefined>>>

/** Dollars (DiSCo Eq. 8). */
export const costOf = ({ prompt, output }: TokenCosts, { promptTokens, tokens }: SideWork): number =>
  prompt * promptTokens + output * tokens

/** c_d · λ. @param joules per token of the prompt and of the answer */
export const localCosts = (joules: TokenCosts, dollarsPerJoule: number): TokenCosts => ({
  prompt: joules.prompt * dollarsPerJoule,
  output: joules.output * dollarsPerJoule,
})

/**
 * The side whose use the budget limits (DiSCo Algorithm 1): the local one if each of its tokens costs more than any of the
 * remote one's, otherwise the remote one. Where a price is unknown it is the remote one, because its money cannot be counted.
 */
export function constrainedSide({ local, remote }: SideCosts): Side {
  if (!local || !remote) return 'remote'
  return Math.min(local.prompt, local.output) > Math.max(remote.prompt, remote.output) ? 'local' : 'remote'
}

/** @param setting the owner's */
export const limitedSide = (setting: Side | ReportedSide | 'auto', costs: SideCosts): Side =>
  setting === 'auto' ? constrainedSide(costs) : sideNamed(setting)

/** The side where this answer costs less; the local one where they cost the same or a price is unknown. */
export function cheaperSide({ local, remote }: SideCosts, work: SideWork): Side {
  if (!local || !remote) return 'local'
  return costOf(remote, work) < costOf(local, work) ? 'remote' : 'local'
}
