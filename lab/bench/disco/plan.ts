import type { PromptSet, TraceName } from './data.ts'
import { budgets } from './methods.ts'

/** What is replayed, and how often. */
export interface Plan {
  readonly seeds: number
  /** Names of those that are replayed; absent: all. */
  readonly traces?: readonly TraceName[]
  readonly ttft: Readonly<Record<PromptSet, TtftPlan>>
  readonly cost: {
    /** Requests of each seed, setting and method. */
    readonly requests: number
    readonly budgets: readonly number[]
  }
  /** Of each agent; 0: no live run. */
  readonly liveRequests: number
  /** Of the requests over the wire; absent: all. */
  readonly wireShare?: number
}

interface TtftPlan {
  readonly requests: number
  readonly budgets: readonly number[]
}

/** The paper: 1,000 requests, means of ten runs. */
export const fullPlan: Plan = {
  seeds: 10,
  ttft: { alpaca: { requests: 1_000, budgets }, azure: { requests: 200, budgets: [0.2, 0.4, 0.6, 0.8, 1] } },
  cost: { requests: 25, budgets: [0.2, 0.5, 1] },
  liveRequests: 16,
}

/** Every goal, from fewer seeds and requests. */
export const quickPlan: Plan = {
  seeds: 2,
  ttft: { alpaca: { requests: 500, budgets: [0.2, 0.5, 1] }, azure: { requests: 100, budgets: [0.5] } },
  cost: { requests: 30, budgets: [0.5, 1] },
  liveRequests: 4,
}
