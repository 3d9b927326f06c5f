import { serverCandidate } from '../../../agent/disco/candidate.ts'
import { preferredSide } from '../../../agent/disco/planner.ts'
import type { Endpoint } from '../../../core/answer/endpoint.ts'
import { seededRandom } from '../../../core/base/random.ts'
import { costOf } from '../../../core/policy/disco/costs.ts'
import { dispatchOf } from '../../../core/policy/disco/dispatch.ts'
import { createTokenCounts, createTtft, expectedRemaining } from '../../../core/policy/disco/estimates.ts'
import { type Dispatch, otherSide, type Side, type TokenCosts } from '../../../core/policy/disco/state.ts'
import type { Distribution } from '../../../core/policy/estimate/distribution.ts'
import { quantile } from '../../../core/policy/estimate/quantile.ts'
import { mean, sum } from '../statistics.ts'
import { type LatencyTrace, maxOutputTokens, type PromptSet, promptSets, type Shape } from './data.ts'
import { heavyTail, tailOf } from './figures.ts'
import { type MethodName, methodNames, methods } from './methods.ts'
import type { Plan } from './plan.ts'
import { type DeviceProfile, deviceCosts, deviceProfiles, deviceTtftMs, readingTokensPerS, servicePrices } from './profiles.ts'
import { type ReplayedAnswer, replayAnswer } from './replay.ts'
import {
  type AnswerLengths,
  answerLengths,
  type CostFigures,
  type CostSetting,
  type SeedRun,
  type TtftFigures,
  type TtftSetting,
} from './runs.ts'
import { simulatedDevice, simulatedServer } from './simulated-side.ts'
import { type ReplayRequest, requestsOf } from './workload.ts'

/** Requests before those that count: from them a device learns the server's TTFT and the lengths. */
export const lessons = 50

type Prices = Readonly<Record<Side, TokenCosts>>

/** A device that answers all requests by one method. */
interface Replayed {
  readonly method: MethodName
  readonly budget: number | null
  readonly profile: DeviceProfile
  /** Of whole answers that may migrate. */
  readonly prices: Prices | undefined
  /** F as this device has learned it: of a server that it has stopped, it knows only how long it has waited. */
  readonly ttftMs: ReturnType<typeof createTtft>
}

/** Known to each device alike. */
interface Lengths {
  readonly prompts: ReturnType<typeof createTokenCounts>
  readonly answers: ReturnType<typeof createTokenCounts>
}

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
        const device: Replayed = { method, budget, profile, prices: undefined, ttftMs: createTtft() }
        return { device, ttftsMs: [] as number[], prompt: 0, constrained: 0 }
      }),
    )
  })
  for (const { request, lengths, counts } of arrivals(shapes, trace, requests, seed)) {
    for (const cell of cells) {
      const { ttftMs, work } = answerBy(cell.device, request, lengths, 'first token')
      if (!counts) continue
      cell.ttftsMs.push(ttftMs)
      cell.prompt += request.promptTokens
      cell.constrained += work[methods[cell.device.method].constrained].promptTokens
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
        const device = (prices: Prices | undefined): Replayed => ({ method, budget, profile, prices, ttftMs: createTtft() })
        // Without migration, prices change nothing.
        const alone = { device: device(undefined), answers: [] as ReplayedAnswer[] }
        const migrating = Object.entries(servicePrices).map(([name, server]) => {
          const prices = { server, device: deviceCosts(profile, methods[method].constrained) }
          return { name, prices, device: device(prices), answers: [] as ReplayedAnswer[] }
        })
        return [{ method, budget, profile, alone, migrating }]
      }),
    ),
  )
  for (const { request, lengths, counts } of arrivals(shapes, trace, requests, seed)) {
    for (const { alone, migrating } of cells) {
      for (const { device, answers } of [alone, ...migrating]) {
        const answer = answerBy(device, request, lengths, 'end')
        if (counts) answers.push(answer)
      }
    }
  }
  return cells.flatMap(({ method, budget, profile, alone, migrating }) =>
    migrating.flatMap(({ name, prices, answers }) =>
      [false, true].map((migration) => ({
        setting: {
          measured: 'cost',
          trace: trace.name,
          device: profile.name,
          method,
          budget,
          prices: name,
          migration,
          lengths,
        } satisfies CostSetting,
        figures: costFigures(migration ? answers : alone.answers, prices),
      })),
    ),
  )
}

function costFigures(answers: readonly ReplayedAnswer[], prices: Prices): CostFigures {
  const migrated = answers.filter(({ hasMigrated }) => hasMigrated)
  const delayed = migrated.map(({ delayedTokens }) => delayedTokens)
  return {
    dollars:
      sum(answers.map(({ work }) => costOf(prices.server, work.server) + costOf(prices.device, work.device))) / answers.length,
    ...ttftFigures(answers.map(({ ttftMs }) => ttftMs)),
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

/** The requests in order, with the lengths that are known when they arrive. */
function* arrivals(shapes: readonly Shape[], trace: LatencyTrace, count: number, seed: number) {
  const random = { shapes: seededRandom(seed), latencies: seededRandom(1_000 + seed) }
  const lengths: Lengths = { prompts: createTokenCounts(), answers: createTokenCounts() }
  for (const [i, request] of requestsOf(shapes, trace.latencies, lessons + count, random).entries()) {
    lengths.prompts.record(request.promptTokens)
    yield { request, lengths, counts: i >= lessons }
    lengths.answers.record(request.outputTokens)
  }
}

/** Plans as the agent does, from the same parts, and replays the answer. */
function answerBy(device: Replayed, request: ReplayRequest, lengths: Lengths, until: 'first token' | 'end'): ReplayedAnswer {
  const { method, profile, prices } = device
  const { routing, constrained } = methods[method]
  const { promptTokens, outputTokens } = request
  // Where nothing depends on F, it is not worth its time.
  const usesTtft = prices !== undefined || (routing === 'plan' && constrained === 'device')
  const server = usesTtft ? serverCandidate(madeServer, device.ttftMs) : undefined
  return replayAnswer(
    {
      sides: {
        server: { ...serverTraits, costs: prices?.server, startMs: (tokens) => server?.startMs(tokens) ?? 0 },
        device: { ...deviceTraits, costs: prices?.device, startMs: (tokens) => deviceTtftMs(profile, tokens) },
      },
      dispatch: dispatchBy(device, request, lengths, server?.ttftMs ?? device.ttftMs),
      tokensPerS: readingTokensPerS,
      promptTokens,
      preferred: prices && preferredSide('auto', prices),
      expectedRemaining: (tokens) => expectedRemaining(lengths.answers, tokens, maxOutputTokens - tokens),
    },
    { server: simulatedServer(request), device: simulatedDevice(profile) },
    outputTokens,
    until,
    {
      firstToken: (side, ms, tokens) => side === 'server' && server?.firstToken(ms, tokens),
      canceled: (side, ms, tokens) => side === 'server' && server?.canceled(ms, tokens),
    },
  )
}

const serverTraits = { continues: true, pauses: false }
const deviceTraits = { continues: true, pauses: true }
/** Of a candidate's endpoint nothing is used here. */
const madeServer = { ...serverTraits, endpoint: {} as Endpoint, spender: 'server' } as const

function dispatchBy(
  { method, budget }: Replayed,
  { promptTokens, chance }: ReplayRequest,
  { prompts: promptLengths }: Lengths,
  serverTtftMs: Distribution,
): Dispatch {
  const { routing, constrained } = methods[method]
  const share = budget ?? 0
  if (routing === 'plan') return dispatchOf(promptTokens, { constrained, share, serverTtftMs, promptLengths })
  return alone(routing === 'chance' && chance < share ? constrained : otherSide(constrained))
}

const alone = (side: Side): Dispatch => ({ device: Number.POSITIVE_INFINITY, server: Number.POSITIVE_INFINITY, [side]: 0 })
