import type { DrafterName } from './create-drafter.ts'

/**
 * How a prompt reaches the bridge. `chunked`: in chunks of HAT Eq. 3, each sent while the next is computed. `whole`: the
 * device computes all of it before it sends any. `whole-all`: the same, and the bridge returns the deep states of all positions.
 */
export const prefills = ['chunked', 'whole', 'whole-all'] as const
export type Prefill = (typeof prefills)[number]

export interface Strategy {
  readonly prefill: Prefill
  readonly drafter: DrafterName
  /** Whether the next draft is prepared during a verification (HAT 'Parallel drafting'). */
  readonly draftAhead: boolean
  /** Whether prompts resume prefixes that the bridge has cached. */
  readonly reuse: boolean
}

/** The baselines that HAT is compared with (HAT §4.1). U-Sarathi cuts prompts into chunks at the bridge. */
const uShape: Strategy = { prefill: 'whole-all', drafter: 'none', draftAhead: false, reuse: false }
export const strategies = {
  hat: { prefill: 'chunked', drafter: 'auto', draftAhead: true, reuse: true },
  'u-shape': uShape,
  'u-shape-lean': { ...uShape, prefill: 'whole' },
  'u-sarathi': uShape,
  'u-medusa': { ...uShape, drafter: 'medusa' },
} as const satisfies Record<string, Strategy>
export const strategyNames = ['hat', 'u-shape', 'u-shape-lean', 'u-sarathi', 'u-medusa'] as const
export type StrategyName = (typeof strategyNames)[number]
