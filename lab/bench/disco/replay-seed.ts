import { seededRandom } from '../../../core/kit/base/random.ts'
import { costOf } from '../../../core/policy/disco/costs.ts'
import { createTokenCounts, createTtft } from '../../../core/policy/disco/estimates.ts'
import { sideNamed } from '../../../core/policy/disco/state.ts'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import { mean, sum } from '../../frame/statistics.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import { deviceCosts, deviceProfiles, readingTokensPerS, servicePrices } from '../../simulate/paper/disco/profiles.ts'
import { type LatencyTrace, maxOutputTokens, type PromptSet, promptSets, type Shape } from './data.ts'
import { heavyTail, tailOf } from './figures.ts'
import { methodNames, methods } from './methods.ts'
import type { Plan } from './plan.ts'
import type { ReplayedAnswer } from './replay.ts'
import { answerBy, type KnownLengths, type ReplayedDevice, type SidePrices } from './replayed-device.ts'
import {
  type AnswerLengths,
  answerLengths,
  type CostFigures,
  type CostSetting,
  type SeedRun,
  type TtftFigures,
  type TtftSetting,
} from './runs.ts'
import { requestsOf } from './workload.ts'

/** Requests before those that count: from them a device learns the server's TTFT and the lengths. */
export const lessons = 25

const common = { tokensPerS: readingTokensPerS, maxTokens: maxOutputTokens }

/** Replays one trace with one seed in all settings of a plan. */
export function replaySeed(
  plan: Plan,
  trace: LatencyTrace,
  shapes: Readonly<Record<PromptSet, readonly Shape[]>>,
  seed: number,
): SeedRun[] {
  return [
    ...promptSets.flatMap((prompts) => replayTtft(plan, trace, prompts, shapes[prompts], seed)),
    ...answerLengths.flatMap((lengths) => replayCosts(plan, trace, lengths, shapes.alpaca, seed)),
  ]
}

function replayTtft(plan: Plan, trace: LatencyTrace, prompts: PromptSet, shapes: readonly Shape[], seed: number): SeedRun[] {
  const { requests, budgets } = plan.ttft[prompts]
  const cells = methodNames.flatMap((method) => {
    const own = methods[method].routing === 'one side' ? [null] : budgets
    return own.flatMap((budget) =>
      deviceProfiles.map((profile) => {
        const device = { ...common, method, budget, profile, prices: undefined, ttftMs: createTtft() }
        return { device, ttftsMs: [] as number[], prompt: 0, constrained: 0 }
      }),
    )
  })
  const simulation = new Simulation(seed)
  for (const { request, lengths, counts } of arrivals(shapes, trace, requests, seed)) {
    for (const cell of cells) {
      const { ttftMs, work } = answerBy(simulation, cell.device, request, lengths, 'first token')
      if (!counts) continue
      cell.ttftsMs.push(ttftMs)
      cell.prompt += request.promptTokens
      cell.constrained += work[sideNamed(methods[cell.device.method].constrained)].promptTokens
    }
  }
  return cells.map(({ device: { method, budget, profile }, ttftsMs, prompt, constrained }) => ({
    setting: { measured: 'ttft', prompts, trace: trace.name, device: profile.name, method, budget } satisfies TtftSetting,
    figures: { ...ttftFigures(ttftsMs), share: constrained / prompt } satisfies TtftFigures,
  }))
}

const ttftFigures = (ttftsMs: readonly number[]) => ({ meanMs: mean(ttftsMs) ?? Number.NaN, p99Ms: quantile(ttftsMs, 0.99) })

/** Whole answers: of DiSCo on every trace, and for the ablation of stochastic dispatch on heavy-tailed ones. */
function replayCosts(
  { cost: { requests, budgets } }: Plan,
  trace: LatencyTrace,
  lengths: AnswerLengths,
  alpaca: readonly Shape[],
  seed: number,
): SeedRun[] {
  const shapes = lengths === 'alpaca' ? alpaca : alpaca.map((shape) => ({ ...shape, outputTokens: maxOutputTokens }))
  const isAblated = lengths === 'alpaca' && tailOf(trace) >= heavyTail
  const replayed = methodNames.filter((method) => {
    const { routing } = methods[method]
    return routing === 'plan' || (isAblated && routing === 'chance')
  })
  const cells = replayed.flatMap((method) =>
    budgets.flatMap((budget) =>
      deviceProfiles.flatMap((profile) => {
        const device = (prices: SidePrices | undefined): ReplayedDevice => ({
          ...common,
          method,
          budget,
          profile,
          prices,
          ttftMs: createTtft(),
        })
        // Without migration, prices change nothing.
        const alone = { device: device(undefined), answers: [] as ReplayedAnswer[] }
        const migrating = Object.entries(servicePrices).map(([name, remote]) => {
          const prices = { remote, local: deviceCosts(profile, methods[method].constrained) }
          return { name, prices, device: device(prices), answers: [] as ReplayedAnswer[] }
        })
        return [{ method, budget, profile, alone, migrating }]
      }),
    ),
  )
  const simulation = new Simulation(seed)
  for (const { request, lengths, counts } of arrivals(shapes, trace, requests, seed)) {
    for (const { alone, migrating } of cells) {
      for (const { device, answers } of [alone, ...migrating]) {
        const answer = answerBy(simulation, device, request, lengths, 'end')
        if (counts) answers.push(answer)
      }
    }
  }
  return cells.flatMap(({ method, budget, profile, alone, migrating }) =>
    migrating.map(({ name, prices, answers }) => ({
      setting: {
        measured: 'cost',
        trace: trace.name,
        device: profile.name,
        method,
        budget,
        prices: name,
        lengths,
      } satisfies CostSetting,
      figures: costFigures(answers, alone.answers, prices),
    })),
  )
}

/** @param alone without migration */
function costFigures(answers: readonly ReplayedAnswer[], alone: readonly ReplayedAnswer[], prices: SidePrices): CostFigures {
  const migrated = answers.filter(({ hasMigrated }) => hasMigrated)
  const delayed = migrated.map(({ delayedTokens }) => delayedTokens)
  const { meanMs: meanMsAlone, p99Ms: p99MsAlone } = ttftFigures(alone.map(({ ttftMs }) => ttftMs))
  return {
    dollars: dollarsOf(answers, prices),
    ...ttftFigures(answers.map(({ ttftMs }) => ttftMs)),
    dollarsAlone: dollarsOf(alone, prices),
    meanMsAlone,
    p99MsAlone,
    failedMigrations: mean(answers.map(({ failedMigrations }) => failedMigrations)) ?? Number.NaN,
    migrated: migrated.length / answers.length,
    delayedMean: mean(delayed) ?? Number.NaN,
    delayedP99: quantile(delayed, 0.99),
    tbtP99Ms: quantile(
      migrated.flatMap(({ gapsMs }) => gapsMs),
      0.99,
    ),
  }
}

/** Per 10⁶ answers. */
function dollarsOf(answers: readonly ReplayedAnswer[], prices: SidePrices): number {
  const dollars = answers.map(({ work }) => costOf(prices.remote, work.remote) + costOf(prices.local, work.local))
  return (1e6 * sum(dollars)) / answers.length
}

/** The requests in order, with the lengths that are known when they arrive. */
function* arrivals(shapes: readonly Shape[], trace: LatencyTrace, count: number, seed: number) {
  const random = { shapes: seededRandom(seed), latencies: seededRandom(1_000 + seed) }
  const lengths: KnownLengths = { prompts: createTokenCounts(), answers: createTokenCounts() }
  for (const [i, request] of requestsOf(shapes, trace.latencies, lessons + count, random).entries()) {
    lengths.prompts.record(request.promptTokens)
    yield { request, lengths, counts: i >= lessons }
    lengths.answers.record(request.outputTokens)
  }
}
