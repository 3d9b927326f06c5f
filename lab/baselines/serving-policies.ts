import type { ServingPolicy } from '../../core/policy/serving/policy.ts'
import { createPolicy, type PolicyOptions, policyNames } from '../../core/policy/tokenflow/named-policies.ts'
import { andes } from './andes.ts'
import { type FirstComeOptions, firstCome } from './first-come.ts'

/** What TokenFlow is compared with. */
export const baselinePolicyNames = ['fcfs', 'chunked', 'andes'] as const
/** Those of the bridge, and the baselines. */
export const servingPolicyNames = [...policyNames, ...baselinePolicyNames] as const
export type ServingPolicyName = (typeof servingPolicyNames)[number]

export interface ServingPolicyOptions extends PolicyOptions {
  /** Of fcfs and chunked; `whole` by default. */
  readonly reserves?: FirstComeOptions['reserves']
}

/** Readers expect a first token within 1.3 s (TokenFlow §2.2); P = 1 is Andes' default. */
const andesLimits = { horizonS: 5, expectedTtftS: 1.3, maxPreemptions: 1 }

/** A new policy object, for one engine. */
export function createServingPolicy(name: ServingPolicyName, options: ServingPolicyOptions): ServingPolicy {
  const { promptRows, reserves = 'whole' } = options
  switch (name) {
    case 'andes':
      return andes({ ...andesLimits, promptRows })
    case 'fcfs':
      return firstCome({ reserves })
    case 'chunked':
      return firstCome({ chunkRows: promptRows, reserves })
    default:
      return createPolicy(name, options)
  }
}
