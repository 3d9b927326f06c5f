import type { ReportedSide } from '../../../core/policy/disco/state.ts'

/** How requests reach the sides: to one side always, by chance within the budget, or by DiSCo's plan. */
export type Routing = 'one side' | 'chance' | 'plan'

export interface Method {
  readonly routing: Routing
  /** The side that the budget limits; of 'one side', the side that is not used. */
  readonly constrained: ReportedSide
}

/** By the paper's names; "server only" is its vLLM, "device only" its llama.cpp. */
export const methods = {
  'server only': { routing: 'one side', constrained: 'device' },
  'device only': { routing: 'one side', constrained: 'server' },
  'Stoch-S': { routing: 'chance', constrained: 'server' },
  'DiSCo-S': { routing: 'plan', constrained: 'server' },
  'Stoch-D': { routing: 'chance', constrained: 'device' },
  'DiSCo-D': { routing: 'plan', constrained: 'device' },
} as const satisfies Record<string, Method>

export type MethodName = keyof typeof methods
export const methodNames = Object.keys(methods) as MethodName[]

export const constrainedSides = ['server', 'device'] as const
/** The two that a goal compares. */
export const comparedMethods = {
  server: { stochastic: 'Stoch-S', disco: 'DiSCo-S' },
  device: { stochastic: 'Stoch-D', disco: 'DiSCo-D' },
} as const satisfies Record<ReportedSide, { readonly stochastic: MethodName; readonly disco: MethodName }>

export const budgets = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1] as const
