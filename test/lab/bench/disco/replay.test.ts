import { describe, expect, it } from 'vitest'
import type { ControllerPlan } from '../../../../core/policy/disco/controller-plan.ts'
import { createTokenCounts, createTtft } from '../../../../core/policy/disco/estimates.ts'
import type { Side } from '../../../../core/policy/disco/state.ts'
import { type ReplayedAnswer, replayAnswer } from '../../../../lab/bench/disco/replay.ts'
import { replaySeed } from '../../../../lab/bench/disco/replay-seed.ts'
import { answerBy, dispatcherOf, type ReplayedDevice } from '../../../../lab/bench/disco/replayed-device.ts'
import { simulatedDevice, simulatedServer } from '../../../../lab/bench/disco/simulated-side.ts'
import { Simulation } from '../../../../lab/simulate/kernel/simulation.ts'
import { deviceProfiles, readingTokensPerS } from '../../../../lab/simulate/paper/disco/profiles.ts'

const [profile] = deviceProfiles as [(typeof deviceProfiles)[number]]
const never = Number.POSITIVE_INFINITY
const gapMs = 1_000 / readingTokensPerS
const cheap = { prompt: 1e-7, output: 1e-7 }
const dear = { prompt: 1e-6, output: 1e-5 }

const plan: Omit<ControllerPlan, 'learn'> = {
  sides: {
    remote: { continues: true, pauses: false, costs: cheap, startMs: () => 600 },
    local: { continues: true, pauses: true, costs: dear, startMs: (tokens) => (1_000 * tokens) / profile.prefillTokensPerS },
  },
  dispatch: { local: 0, remote: 0 },
  tokensPerS: readingTokensPerS,
  promptTokens: 10,
  expectedRemaining: (tokens) => 100 - tokens,
}
const localMs = (1_000 * 10) / profile.prefillTokensPerS

function replayed(changes: Partial<ControllerPlan>, ttftMs: number, until: 'first token' | 'end' = 'end') {
  const seen: string[] = []
  const latency = { ttftMs, tokenMs: 20 }
  const learn = {
    started() {},
    gap() {},
    failed() {},
    firstToken: (side: Side, ms: number) => void seen.push(`${side} began after ${ms.toFixed(0)} ms`),
    canceled: (side: Side, ms: number) => void seen.push(`${side} stopped after ${ms.toFixed(0)} ms`),
  }
  const simulation = new Simulation(1)
  const answer: ReplayedAnswer = replayAnswer(
    simulation,
    { ...plan, learn, ...changes },
    {
      remote: simulatedServer(simulation, { server: latency, serverAgain: { ttftMs: 500, tokenMs: 20 } }),
      local: simulatedDevice(simulation, profile),
    },
    100,
    until,
  )
  return { ...answer, seen }
}

describe('a replayed answer', () => {
  it('begins with the faster side, and the other one is stopped', () => {
    expect(replayed({}, 200)).toMatchObject({
      ttftMs: 200,
      seen: ['remote began after 200 ms', 'local stopped after 200 ms'],
    })
    const slow = replayed({}, 5_000)
    expect(slow.ttftMs).toBeCloseTo(localMs)
    expect(slow.work.remote).toEqual({ promptTokens: 10, tokens: 0 })
    expect(slow.work.local).toEqual({ promptTokens: 10, tokens: 100 })
  })

  it('is delivered at the rate of the reader', () => {
    const { gapsMs } = replayed({}, 200)
    expect(gapsMs).toHaveLength(99)
    for (const each of gapsMs) expect(each).toBeCloseTo(gapMs)
  })

  it('has a device that waits, and is not used where the server is in time', () => {
    expect(replayed({ dispatch: { local: 300, remote: 0 } }, 200).work.local.promptTokens).toBe(0)
    expect(replayed({ dispatch: { local: 300, remote: 0 } }, 5_000).ttftMs).toBeCloseTo(300 + localMs)
    expect(replayed({ dispatch: { local: never, remote: 0 } }, 5_000).ttftMs).toBe(5_000)
  })

  it('moves to the side that decodes for less, and no reader waits', () => {
    const moved = replayed({ preferred: { side: 'remote', reason: 'cost' } }, 5_000)
    expect(moved).toMatchObject({ hasMigrated: true, failedMigrations: 0, delayedTokens: 0 })
    expect(moved.work.local.tokens + moved.work.remote.tokens).toBe(100)
    expect(moved.work.local.tokens).toBeLessThan(20)
    expect(moved.work.remote.promptTokens).toBe(10 + 10 + moved.work.local.tokens)
    for (const each of moved.gapsMs) expect(each).toBeCloseTo(gapMs)
  })

  it('has the same first token without what follows it', () => {
    const race = replayed({}, 200, 'first token')
    expect(race).toMatchObject({ ttftMs: 200, gapsMs: [] })
  })
})

it('a device makes up for the share that its earlier answers have left, as an agent does', () => {
  const lengths = { prompts: createTokenCounts(), answers: createTokenCounts() }
  const device: ReplayedDevice = {
    ...({ method: 'DiSCo-D', budget: 0.4, profile, prices: undefined } as const),
    ...{ ttftMs: createTtft(), tokensPerS: readingTokensPerS, maxTokens: 20 },
  }
  const server = { ttftMs: 600, tokenMs: 20 }
  const request = { atMs: 0, chance: 0, promptTokens: 10, outputTokens: 20, server, serverAgain: server }
  const dispatcher = dispatcherOf(device, lengths)
  const simulation = new Simulation(1)
  let begun = 0
  for (let i = 0; i < 100; i += 1) {
    lengths.prompts.record(10)
    const { work } = answerBy(simulation, device, dispatcher, request, 'first token')
    if (i >= 20) begun += work.local.promptTokens / 10 / 80
  }
  // A plan by F alone, which is a step, lets the device wait for the server each time.
  expect(begun).toBeGreaterThan(0.3)
  expect(begun).toBeLessThan(0.5)
})

describe('the replay of a trace', () => {
  const latencies = Array.from({ length: 40 }, (_, i) => ({ ttftMs: i % 20 === 0 ? 30_000 : 500 + 10 * i, tokenMs: 15 }))
  const trace = { name: 'made up', latencies, failed: 0 }
  const shapes = Array.from({ length: 30 }, (_, i) => ({ promptTokens: 5 + i, outputTokens: 20 + i }))
  const tiny = {
    seeds: 1,
    ttft: { alpaca: { requests: 200, budgets: [0.3, 1] }, azure: { requests: 10, budgets: [0.5] } },
    cost: { requests: 3, budgets: [0.5] },
    liveRequests: 0,
  }
  const runs = replaySeed(tiny, trace, { alpaca: shapes, azure: shapes }, 1)

  it('has every method, device and budget, and the same figures again', () => {
    const ttft = runs.filter(({ setting }) => setting.measured === 'ttft' && setting.prompts === 'alpaca')
    expect(ttft).toHaveLength(3 * (2 + 4 * 2))
    expect(replaySeed(tiny, trace, { alpaca: shapes, azure: shapes }, 1)).toEqual(runs)
  })

  it('has DiSCo within its budget, and no tail where the device is in time', () => {
    const of = (method: string, budget: number | null) =>
      runs.find(
        ({ setting }) =>
          setting.measured === 'ttft' &&
          setting.prompts === 'alpaca' &&
          setting.device === profile.name &&
          setting.method === method &&
          setting.budget === budget,
      )!.figures
    expect(of('server only', null)).toMatchObject({ p99Ms: 30_000 })
    for (const method of ['DiSCo-S', 'DiSCo-D']) {
      const figures = of(method, 0.3)
      expect('share' in figures && figures.share, method).toBeLessThan(0.4)
      expect(figures.p99Ms, method).toBeLessThan(5_000)
    }
    expect(of('DiSCo-D', 1).meanMs).toBeLessThan(of('Stoch-D', 1).meanMs)
  })
})
