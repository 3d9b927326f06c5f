import type { DispatchRule } from '../core/policy/pice/dispatch-rules.ts'
import type { PlanTerms } from '../core/policy/pice/plan-answer.ts'
import type { PlanPolicy } from '../core/policy/pice/plan-policy.ts'
import type { ServingPolicy } from '../core/policy/serving/policy.ts'
import type { PolicyOptions } from '../core/policy/tokenflow/named-policies.ts'
import type { Attester } from './attestation/attester.ts'
import type { OpenModel } from './serving/open-served-model.ts'

/** What a benchmark or test puts in the place of a bridge's own; each is absent in production. */
export interface BridgeVariant {
  readonly attester?: Attester | undefined
  /** Opens a bundle that is served. */
  readonly openModel?: OpenModel | undefined
  /** A new policy, for each served model. */
  readonly servingPolicy?: ((options: PolicyOptions) => ServingPolicy) | undefined
  readonly sketches?: SketchVariant | undefined
  /** Chunks of prompts have the configured size, in place of that of HAT Eq. 3. */
  readonly fixedChunks?: boolean | undefined
  /** What the slow tier of KV does not do. */
  readonly withoutKv?: { readonly writeThrough: boolean; readonly overlap: boolean } | undefined
}

export interface SketchVariant {
  /** In recordings. */
  readonly policy: 'static'
  plans(terms: PlanTerms): PlanPolicy
  batches(maxSketches: number): DispatchRule
}
