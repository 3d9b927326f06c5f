import { seededRandom } from '../../../core/kit/base/random.ts'
import { costOf } from '../../../core/policy/disco/costs.ts'
import { createTokenCounts, createTtft } from '../../../core/policy/disco/estimates.ts'
import { sideNamed } from '../../../core/policy/disco/state.ts'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import { mean, sum } from '../../frame/statistics.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import {
  deviceCosts,
  deviceProfiles,
  deviceTtftMs,
  readingTokensPerS,
  servicePrices,
} from '../../simulate/paper/disco/profiles.ts'
import { type LatencyTrace, maxOutputTokens, type PromptSet, promptSets, type Shape } from './data.ts'
import { heavyTail, tailOf } from './figures.ts'
import { methodNames, methods } from './methods.ts'
import { type KnownStarts, leastDollars, leastP99Ms } from './oracle.ts'
import type { Plan } from './plan.ts'
import type { ReplayedAnswer } from './replay.ts'
import { answerBy, dispatcherOf, type KnownLengths, type ReplayedDevice, type SidePrices } from './replayed-device.ts'
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

const deviceOf = (of: Pick<ReplayedDevice, 'method' | 'budget' | 'profile'> & Partial<ReplayedDevice>): ReplayedDevice => ({
  prices: undefined,
  ttftMs: createTtft(),
  tokensPerS: readingTokensPerS,
  maxTokens: maxOutputTokens,
  ...of,
})

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
  const devices = methodNames.flatMap((method) =>
    (methods[method].routing === 'one side' ? [null] : budgets).flatMap((budget) =>
      deviceProfiles.map((profile) => deviceOf({ method, budget, profile })),
    ),
  )
  const answersOf = replay(devices, shapes, trace, requests, seed, 'first token')
  return devices.map((device) => {
    const { method, budget, profile } = device
    const answers = answersOf(device)
    const constrained = sideNamed(methods[method].constrained)
    const known = answers.map(({ promptTokens, serverMs }): KnownStarts => {
      const deviceMs = deviceTtftMs(profile, promptTokens)
      return constrained === 'local'
        ? { promptTokens, freeMs: serverMs, limitedMs: deviceMs }
        : { promptTokens, freeMs: deviceMs, limitedMs: serverMs }
    })
    const share =
      sum(answers.map(({ work }) => work[constrained].promptTokens)) / sum(answers.map(({ promptTokens }) => promptTokens))
    return {
      setting: { measured: 'ttft', prompts, trace: trace.name, device: profile.name, method, budget } satisfies TtftSetting,
      figures: {
        ...ttftFigures(answers),
        leastP99Ms: budget === null ? Number.NaN : leastP99Ms(known, budget),
        share,
      } satisfies TtftFigures,
    }
  })
}

const ttftFigures = (answers: readonly ReplayedAnswer[]) => {
  const ttfts = answers.map(({ ttftMs }) => ttftMs)
  return { meanMs: mean(ttfts) ?? Number.NaN, p99Ms: quantile(ttfts, 0.99) }
}

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
      deviceProfiles.map((profile) => {
        const of = { method, budget, profile }
        const migrating = Object.entries(servicePrices).map(([name, remote]) => {
          const prices = { remote, local: deviceCosts(profile, methods[method].constrained) }
          return { name, prices, device: deviceOf({ ...of, prices }) }
        })
        // Without migration, prices change nothing.
        return { of, alone: deviceOf(of), migrating }
      }),
    ),
  )
  const devices = cells.flatMap(({ alone, migrating }) => [alone, ...migrating.map(({ device }) => device)])
  const answersOf = replay(devices, shapes, trace, requests, seed, 'end')
  return cells.flatMap(({ of: { method, budget, profile }, alone, migrating }) =>
    migrating.map(({ name, prices, device }) => {
      const of = { trace: trace.name, device: profile.name, method, budget, prices: name, lengths }
      const setting: CostSetting = { measured: 'cost', ...of }
      return { setting, figures: costFigures(answersOf(device), answersOf(alone), prices) }
    }),
  )
}

/** @param alone without migration */
function costFigures(answers: readonly ReplayedAnswer[], alone: readonly ReplayedAnswer[], prices: SidePrices): CostFigures {
  const migrated = answers.filter(({ hasMigrated }) => hasMigrated)
  const delayed = migrated.map(({ delayedTokens }) => delayedTokens)
  const { meanMs: meanMsAlone, p99Ms: p99MsAlone } = ttftFigures(alone)
  return {
    dollars: dollarsOf(answers, prices),
    ...ttftFigures(answers),
    dollarsAlone: dollarsOf(alone, prices),
    dollarsLeast: (1e6 * sum(alone.map(({ work }) => leastDollars(work, prices)))) / alone.length,
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

type Answered = ReplayedAnswer & {
  readonly promptTokens: number
  /** TTFT of the server, whether or not it was asked. */
  readonly serverMs: number
}

/** Every device answers the same requests, of which the first are not counted. @returns what a device answered */
function replay(
  devices: readonly ReplayedDevice[],
  shapes: readonly Shape[],
  trace: LatencyTrace,
  count: number,
  seed: number,
  until: 'first token' | 'end',
): (device: ReplayedDevice) => readonly Answered[] {
  const simulation = new Simulation(seed)
  const random = { shapes: seededRandom(seed), latencies: seededRandom(1_000 + seed) }
  const lengths: KnownLengths = { prompts: createTokenCounts(), answers: createTokenCounts() }
  const answers = new Map(devices.map((device) => [device, { dispatcher: dispatcherOf(device, lengths), own: [] as Answered[] }]))
  for (const [i, request] of requestsOf(shapes, trace.latencies, lessons + count, random).entries()) {
    const { promptTokens, outputTokens } = request
    lengths.prompts.record(promptTokens)
    for (const [device, { dispatcher, own }] of answers) {
      const answer = answerBy(simulation, device, dispatcher, request, until)
      if (i >= lessons) own.push({ ...answer, promptTokens, serverMs: request.server.ttftMs })
    }
    lengths.answers.record(outputTokens)
  }
  return (device) => answers.get(device)!.own
}
