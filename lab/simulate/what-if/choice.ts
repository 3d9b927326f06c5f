import { costOf } from '../../../core/policy/disco/costs.ts'
import type { TokenCosts } from '../../../core/policy/disco/state.ts'
import type { whatIfGoals } from '../../../core/wire/protocol/http/what-if.ts'
import type { ScenarioResult } from '../run/result.ts'
import type { FleetCandidate } from './candidates.ts'

/** What is wanted most. */
export type Goal = (typeof whatIfGoals)[number]

/** A candidate that was simulated. */
export interface Tried {
  readonly candidate: FleetCandidate
  readonly result: ScenarioResult
}

/** Requests that may be refused, or never end. */
const maxLost = 0.01

/** Less is better. @param price of the bridge’s tokens, HAT’s too */
const score: Readonly<Record<Goal, (result: ScenarioResult, price: TokenCosts) => number>> = {
  ttft: ({ all }) => all.ttftMs.p95,
  latency: ({ all }) => all.latencyMs.p95,
  qos: ({ all }) => -all.qos,
  cost: ({ all: { work } }, price) => costOf(price, { promptTokens: work.serverPromptTokens, tokens: work.serverOutputTokens }),
  energy: ({ all }) => all.work.joules,
}

/** Whether it loses next to no request. */
export const servesAll = ({ result: { all } }: Tried): boolean => all.answered >= (1 - maxLost) * all.requests

/** The first of those that answer most requests. */
export const leastLost = (tried: readonly Tried[]): Tried =>
  tried.reduce((least, each) => (each.result.all.answered > least.result.all.answered ? each : least))

/** Scores that differ by less than this share count as equal: another day differs as much, the price of tokens does not. */
const ties = { goal: 0.1, second: 0.01 }

/**
 * Of the candidates that lose next to no request, and are as good as the best by the goal: the one that costs least, or
 * where cost is the goal, the one that is fastest. Of equals the one whose answers end first, then the one that takes least of
 * the devices' energy; where they hardly differ, the first.
 * @param price of the bridge’s tokens; absent: each counts as much
 * @returns undefined where every candidate loses requests
 */
export function bestOf(tried: readonly Tried[], goal: Goal, price: TokenCosts = { prompt: 1, output: 1 }): Tried | undefined {
  const second = goal === 'cost' ? 'ttft' : 'cost'
  const asGood = (all: readonly Tried[], by: Goal, tie: number) => {
    const scores = all.map(({ result }) => score[by](result, price))
    const least = Math.min(...scores)
    return all.filter((_, at) => scores[at]! <= least + tie * Math.abs(least))
  }
  const good = tried.filter(servesAll)
  const order = [
    [goal, ties.goal],
    [second, ties.second],
    ['latency', ties.goal],
    ['energy', ties.goal],
  ] as const
  return order.reduce<readonly Tried[]>((left, [by, tie]) => asGood(left, by, tie), good)[0]
}
