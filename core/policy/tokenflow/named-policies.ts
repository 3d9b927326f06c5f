import { decodeFirst } from '../serving/decode-first.ts'
import type { ServingPolicy } from '../serving/policy.ts'
import type { IntervalLimits } from './next-interval.ts'
import { tokenflow } from './tokenflow.ts'

/** The policies that the bridge can serve with. */
export const policyNames = ['decode-first', 'tokenflow'] as const
export type PolicyName = (typeof policyNames)[number]

export interface PolicyOptions {
  /** Rows of prompts in a step while streams decode. */
  readonly promptRows: number
  /** As DecodeFirstLimits. */
  readonly minPromptRows: number
  /** In place of the values here. */
  readonly tokenflow?: Partial<IntervalLimits> | undefined
}

/** A prompt takes priority after this many steps without it. */
const maxStepsSkipped = 4
/** A stream counts as decoding for this long after its last decode step. */
const decodingMs = 500

/** TokenFlow's parameters, as the paper names and bounds them; it publishes values for Δt and μ_b only. */
export const tokenflowLimits = {
  intervalMs: 500,
  conservativeness: 2,
  stallWeight: 50,
  maxRequests: 4_096,
  damping: 0.1,
  overloadTolerance: 0.2,
}

/** A new policy object, for one Serving. */
export function createPolicy(name: PolicyName, options: PolicyOptions): ServingPolicy {
  const { promptRows, minPromptRows } = options
  switch (name) {
    case 'decode-first':
      return decodeFirst({ promptRows, minPromptRows, maxStepsSkipped, decodingMs })
    case 'tokenflow':
      return tokenflow({ ...tokenflowLimits, ...options.tokenflow, promptRows })
  }
}
