import { beforeAll, describe, expect, it } from 'vitest'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { type Drafter, stateless } from '../../../core/model/draft/drafter.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { LinkRates } from '../../../core/policy/estimate/link-rates.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { draftAheadSteps } from '../../../core/policy/hat/draft-ahead-steps.ts'
import { rowBytes } from '../../../core/wire/protocol/frame.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'

const prompt = Array.from({ length: 21 }, (_, at) => 3 * at + 2)
const maxTokens = 12
const hidden = 64

const world = shared(() => startHatWorld({ settings: { chunkTokens: 16, draftLimit: 6 } }))
let expected: readonly number[]
beforeAll(async () => {
  expected = await referenceAnswer(world.chain, prompt, greedy, maxTokens, [])
})

/** Opens sessions and applies `change` to each. */
const opening = (change: (session: LinkSession) => void): Partial<HatOptions> => ({
  async open(signal, options) {
    const session = await world.options().open(signal, options)
    change(session)
    return session
  },
})

describe('drafting ahead in a real session', () => {
  /** A link whose measured rates never change. */
  class FixedRates extends LinkRates {
    override get upBytesPerS() {
      return 64_000
    }
    override get downBytesPerS() {
      return 128_000
    }
    override get rttS() {
      return 0.01
    }
    override get cloudS() {
      return 1
    }
    override get verificationS() {
      return 0.004
    }
  }
  class FixedSpeed extends DeviceSpeed {
    override get aheadStepS() {
      return 0.0035
    }
  }

  it('takes the steps that HAT Eq. 6 yields for the measured rates of link, bridge and device', async () => {
    const draftLength = 2
    const rates = new FixedRates()
    const speed = new FixedSpeed()
    // Each term matters: without any of them, or with one row more or less, another number of steps would fit.
    const trip = { rows: draftLength + 1, bytesPerToken: rowBytes('fp16', hidden), waitS: 0, computeS: rates.verificationS }
    const { upBytesPerS, downBytesPerS, rttS } = rates
    const lambda = draftAheadSteps({ ...trip, upBytesPerS, downBytesPerS, rttS }, speed.aheadStepS)
    expect(lambda).toBe(6)

    let isVerifying = false
    let steps = 0
    const stepsPerRound: number[] = []
    /** Always wrong, so that no prepared draft is used; ends its drafts after two tokens, but never while drafting ahead. */
    const drafter: Drafter = {
      ...stateless,
      async next(known, rows) {
        if (isVerifying) steps += 1
        const drafted = known.rows.length - prompt.length - tokensBefore(known.ids)
        return rows.map((row) => {
          const right = expected[known.rows.positionOf(row) + 1 - prompt.length] ?? 0
          const topProbability = isVerifying || drafted < draftLength - 1 ? 1 : 0
          return [
            {
              token: (right + 1) % world.model.manifest.dims.vocab,
              source: 'adapter' as const,
              topProbability,
              alternatives: [],
            },
          ]
        })
      },
    }
    /** Tokens of the answer among the stream's rows: those that the reference has too. */
    const tokensBefore = (ids: readonly number[]) => {
      const answer = ids.slice(prompt.length)
      const differs = answer.findIndex((id, at) => id !== expected[at])
      return differs < 0 ? answer.length : differs
    }
    const { tokens, rounds } = await world.answer(
      { prompt, maxTokens },
      {
        createDrafter: () => drafter,
        speed,
        padding: false,
        ...opening((session) => {
          Object.defineProperty(session, 'rates', { value: rates })
          const exchange = session.exchange.bind(session)
          session.exchange = async (base, rows, want, form) => {
            // Prefill, or a round whose length the end of the answer limits.
            if (rows.rows !== draftLength + 1 || base + 8 > prompt.length + maxTokens) return exchange(base, rows, want, form)
            steps = 0
            isVerifying = true
            const reply = await exchange(base, rows, want, form)
            await expect.poll(() => steps, { interval: 1 }).toBeGreaterThanOrEqual(lambda)
            // Time for one step more.
            await systemClock.sleep(30, new AbortController().signal)
            isVerifying = false
            stepsPerRound.push(steps)
            return reply
          }
        }),
      },
    )
    expect(tokens).toEqual(expected)
    expect(rounds.slice(1).every(({ accepted }) => accepted === 0)).toBe(true)
    expect(stepsPerRound.length).toBeGreaterThan(0)
    expect(new Set(stepsPerRound)).toEqual(new Set([lambda]))
  })
})

describe('the measurements of a session', () => {
  const tokenMs = 2
  /** A device that takes `tokenMs` for each token, by the session's clock. */
  function timedDevice() {
    let nowMs = 1_000
    const clock = { ...systemClock, nowMs: () => nowMs }
    const input = alteredPart(world.model.part('input'), {
      before(items) {
        nowMs += tokenMs * items.reduce((sum, item) => sum + ('ids' in item ? item.ids.length : 0), 0)
      },
    })
    return { clock, input, speed: new DeviceSpeed() }
  }

  it('are the prefill rate in tokens per second, and the drafting step in seconds', async () => {
    const device = timedDevice()
    await world.answer({ prompt, maxTokens }, { ...device, draftAhead: false })
    expect(device.speed.prefillTokensPerS).toBeCloseTo(1_000 / tokenMs)
    expect(device.speed.draftStepS).toBeCloseTo(tokenMs / 1_000)
    expect(device.speed.aheadStepS).toBeUndefined()
  })

  it('report to the drafter the tokens of each round, and its seconds from the first step to the last', async () => {
    const rounds: [tokens: number, seconds: number][] = []
    const drafter: Drafter = {
      ...stateless,
      next: async (_, rows) => rows.map(() => []),
      roundEnded: (tokens, seconds) => rounds.push([tokens, seconds]),
    }
    await world.answer({ prompt, maxTokens }, { ...timedDevice(), createDrafter: () => drafter })
    // Without a draft each round feeds the pending token and adds one.
    expect(rounds).toHaveLength(maxTokens - 1)
    for (const round of rounds) expect(round).toEqual([1, expect.closeTo(tokenMs / 1_000)])
  })
})
