import { describe, expect, it } from 'vitest'
import { drafterMaker } from '../../../agent/hat/create-drafter.ts'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import { PrefixMemory } from '../../../agent/hat/prefix-memory.ts'
import { answerByHat } from '../../../agent/hat/session.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import { type Drafter, stateless } from '../../../core/model/draft/drafter.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import type { States } from '../../../core/wire/protocol/states.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { startHatWorld, withoutDrafts } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'

const vocab = 160
const contextLimit = 256
const random = seededRandom(11)
const randomIds = (count: number) => Array.from({ length: count }, () => Math.floor(random.next() * vocab))
const prompt = randomIds(21)
const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }

const world = shared(() => startHatWorld({ settings: { chunkTokens: 8, draftLimit: 6 } }))

const reference = (maxTokens: number, sampling = greedy, eos: number[] = [], ids = prompt) =>
  referenceAnswer(world.chain, ids, sampling, maxTokens, eos)

const drafterParts = () => ({
  adapter: world.model.part('adapter'),
  medusa: undefined,
  vocab,
  head: world.head,
  draftAhead: true,
})

/** Drafts the tokens that `next` returns, `run` at a time; the draft ends where it returns undefined. */
const scripted = (next: (position: number) => number | undefined, { topProbability = 1, run = 1 } = {}): Drafter => ({
  ...stateless,
  next: async (known, rows) =>
    rows.map((row) => {
      const tokens = Array.from({ length: run }, (_, at) => next(known.rows.positionOf(row) + 1 + at))
      return tokens
        .filter((token) => token !== undefined)
        .map((token) => ({ token, source: 'adapter' as const, topProbability, alternatives: [] }))
    }),
})
/** Drafts the tokens of the answer. */
const oracle = (answer: readonly number[], ids = prompt, run = 1): Partial<HatOptions> => ({
  createDrafter: () => scripted((position) => answer[position - ids.length], { run }),
})

/** A link with each exchange wrapped by `around`. */
const aroundExchanges = (
  around: (link: LinkSession, exchange: LinkSession['exchange']) => LinkSession['exchange'],
): Partial<HatOptions> => ({
  async open(signal) {
    const link = await world.options().open(signal)
    const exchange = link.exchange.bind(link)
    link.exchange = around(link, exchange)
    return link
  },
})

describe('an answer by the split model', () => {
  it.each([
    ['greedy', greedy],
    ['sampled', sampled],
  ])('is the reference, with the adapter drafting or without (%s)', async (_, sampling) => {
    const expected = await reference(24, sampling)
    const drafting = await world.answer({ prompt, maxTokens: 24, sampling })
    const plain = await world.answer({ prompt, maxTokens: 24, sampling }, withoutDrafts)
    expect(drafting.tokens).toEqual(expected)
    expect(plain.tokens).toEqual(expected)
    expect(drafting.figures.drafted).toBeGreaterThan(0)
    expect(plain.figures).toMatchObject({ drafted: 0, rounds: 23, acceptLength: 1 })
  })

  it('is the reference where drafts end by their gain, in this answer and in those that go on from what it has learned', async () => {
    const byGain = { threshold: undefined, draftLimit: Number.POSITIVE_INFINITY, speed: new DeviceSpeed() }
    const expected = await reference(40)
    for (const padding of [true, false]) {
      for (const createDrafter of [world.options().createDrafter, oracle(expected).createDrafter!]) {
        const { tokens } = await world.answer({ prompt, maxTokens: 40 }, { ...byGain, padding, createDrafter })
        expect(tokens).toEqual(expected)
      }
    }
    const { tokens = 0, counts } = byGain.speed.drafts!
    expect(tokens).toBeGreaterThanOrEqual(1)
    expect(Object.keys(counts)).toContain('next')
  })

  it('is the reference where the bridge refuses what was sent before it had opened the session', async () => {
    await using full = await startHatWorld({ settings: { chunkTokens: 8, limits: { deviceSessions: 1 } } })
    // The link knows the terms of sessions from now on.
    await full.answer({ prompt, maxTokens: 2 })
    const { modelId } = full.model.manifest
    const taken = await full.link.open(modelId, new AbortController().signal)
    const refused = { code: 'SESSION_REFUSED', hint: 'try again in 1000 ms' }
    await expect(full.answer({ prompt })).rejects.toMatchObject(refused)
    const asked: (boolean | undefined)[] = []
    const { tokens } = await full.answer(
      { prompt, maxTokens: 24 },
      {
        open(signal, options) {
          asked.push(options?.early)
          if (!options?.early) taken.close()
          return full.link.open(modelId, signal, options)
        },
      },
    )
    expect(asked).toEqual([true, undefined])
    expect(tokens).toEqual(await referenceAnswer(full.chain, prompt, greedy, 24, []))
  })

  it('is the reference with penalties and min-p, whatever is drafted, and reports the same log probabilities', async () => {
    const sampling = { ...sampled, minP: 0.02, presencePenalty: 0.7, frequencyPenalty: 1.1 }
    const expected = await reference(24, sampling)
    expect(expected).not.toEqual(await reference(24, sampled))
    const request = { prompt, maxTokens: 24, sampling, logprobs: 2 }
    const plain = await world.answer(request, withoutDrafts)
    const drafting = await world.answer(request)
    const guided = await world.answer(request, oracle(expected))
    expect(plain.tokens).toEqual(expected)
    expect(drafting.tokens).toEqual(expected)
    expect(guided.tokens).toEqual(expected)
    expect(guided.figures.acceptLength).toBeGreaterThan(3)
    const scores = plain.logprobs.map(({ token, logprob }) => ({ token, logprob: expect.closeTo(logprob, 3) }))
    expect(scores.map(({ token }) => token)).toEqual(expected)
    expect(guided.logprobs).toMatchObject(scores)
    expect(guided.logprobs.every(({ top }) => top.length === 2 && top[0]!.logprob >= top[1]!.logprob)).toBe(true)
    // A continuation penalises the answer before it.
    const rest = await world.answer({
      ...request,
      prompt: [...prompt, ...expected.slice(0, 9)],
      answered: expected.slice(0, 9),
      maxTokens: 15,
    })
    expect(rest.tokens).toEqual(expected.slice(9))
  })

  it('is the reference while drafters are measured and chosen, and reports which', async () => {
    const expected = await reference(80)
    const { tokens, figures } = await world.answer(
      { prompt, maxTokens: 80 },
      { createDrafter: drafterMaker('auto', drafterParts()) },
    )
    expect(tokens).toEqual(expected)
    const { chosen, drafters } = figures.drafting!
    expect(drafters.map(({ name }) => name)).toEqual(['adapter+lookup ahead', 'adapter+lookup', 'lookup', 'none'])
    expect(drafters.map(({ name }) => name)).toContain(chosen)
    expect(drafters.reduce((sum, { rounds }) => sum + rounds, 0)).toBe(figures.rounds)
    for (const { tokensPerS } of drafters) expect(tokensPerS).toBeGreaterThan(0)
  })

  it.each(['adapter+lookup', 'lookup', 'none'] as const)('is the reference when "%s" drafts', async (name) => {
    const { tokens, figures } = await world.answer(
      { prompt, maxTokens: 40 },
      { createDrafter: drafterMaker(name, drafterParts()) },
    )
    expect(tokens).toEqual(await reference(40))
    expect(figures.drafting).toBeNull()
  })

  it('is the reference when a small model drafts, alone or as one of several, with or without an adapter', async () => {
    let lent = 0
    const borrow = async () => {
      lent += 1
      return { chain: world.chain, release: () => void lent-- }
    }
    const parts = { ...drafterParts(), adapter: undefined, slm: { borrow, vocab } }
    const expected = await reference(60)
    const alone = await world.answer({ prompt, maxTokens: 60 }, { createDrafter: drafterMaker('slm', parts), threshold: 0 })
    expect(alone.tokens).toEqual(expected)
    // The LLM itself as the small model guesses everything right.
    expect(alone.figures.acceptLength).toBeGreaterThan(4)
    const { tokens, figures } = await world.answer(
      { prompt, maxTokens: 60 },
      { createDrafter: drafterMaker('auto', parts), threshold: 0 },
    )
    expect(tokens).toEqual(expected)
    expect(figures.drafting?.drafters.map(({ name }) => name)).toEqual(['lookup', 'slm', 'none'])
    expect(lent).toBe(0)
    expect(() => drafterMaker('slm', drafterParts())).toThrow(/needs a small model/)
  })

  it('cannot be drafted by an adapter that the bundle lacks', () => {
    const parts = { ...drafterParts(), adapter: undefined }
    expect(() => drafterMaker('adapter+lookup', parts)).toThrow(/needs an adapter/)
    expect(drafterMaker('auto', parts)(greedy)).toBeDefined()
  })

  it("is the reference if its reader's rate is known, which the bridge is told before each verification", async () => {
    const reports: number[][] = []
    const reporting = aroundExchanges((link, exchange) => {
      const report = link.report.bind(link)
      link.report = (tokensPerS, undelivered) => {
        reports.push([tokensPerS, undelivered])
        report(tokensPerS, undelivered)
      }
      return exchange
    })
    const { tokens } = await world.answer({ prompt, maxTokens: 12, tokensPerS: 0.01 }, { ...withoutDrafts, ...reporting })
    expect(tokens).toEqual(await reference(12))
    expect(reports.map(([, undelivered]) => Math.round(undelivered!))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    expect(new Set(reports.map(([rate]) => rate))).toEqual(new Set([0.01]))
  })

  it('comes in fewer rounds when drafts are right', async () => {
    const expected = await reference(29)
    const { tokens, rounds, figures } = await world.answer({ prompt, maxTokens: 29 }, oracle(expected))
    expect(tokens).toEqual(expected)
    expect(rounds.map((round) => round.tokens.length)).toEqual([1, 7, 7, 7, 7])
    expect(figures).toMatchObject({ rounds: 4, acceptLength: 7, drafted: 24, accepted: 24 })
  })

  it('is the same for drafts of several tokens at once as token by token, in fewer input steps', async () => {
    const expected = await reference(29)
    const stepsOf = async (run: number) => {
      let steps = 0
      const before = () => {
        steps += 1
      }
      const input = alteredPart(world.model.part('input'), { before })
      const options = { ...oracle(expected, prompt, run), input, draftAhead: false }
      const { tokens, rounds } = await world.answer({ prompt, maxTokens: 29 }, options)
      expect(tokens).toEqual(expected)
      expect(rounds.map((round) => round.tokens.length)).toEqual([1, 7, 7, 7, 7])
      return steps
    }
    // The remainder of a prompt is sent with its last whole chunk.
    const prefill = Math.floor(prompt.length / 8)
    expect(await stepsOf(1)).toBe(prefill + 4 * 7)
    expect(await stepsOf(10)).toBe(prefill + 4 * 2)
  })

  it.each([1, 2, 3, 6, 7, 8, 9])('is cut at exactly %i tokens', async (maxTokens) => {
    for (const run of [1, 5]) {
      const { tokens } = await world.answer({ prompt, maxTokens }, oracle(await reference(40), prompt, run))
      expect(tokens).toEqual(await reference(maxTokens))
    }
  })

  it('ends with the first end-of-text token, in the middle of a round too', async () => {
    const full = await reference(40)
    const eos = [full.find((token, at) => at >= 9 && full.indexOf(token) === at)!]
    for (const run of [1, 5]) {
      const { tokens, rounds, figures } = await world.answer({ prompt, maxTokens: 40, eos }, oracle(full, prompt, run))
      expect(tokens).toEqual(await reference(40, greedy, eos))
      expect(tokens.length).toBeLessThan(40)
      expect(rounds.at(-1)!.tokens.at(-1)).toBe(eos[0])
      // No token is drafted after an end of text.
      expect(figures.drafted).toBe(figures.accepted)
    }
  })

  it('uses the context up to its last position', async () => {
    const long = randomIds(contextLimit - 12)
    const expected = await reference(12, greedy, [], long)
    const { tokens } = await world.answer({ prompt: long, maxTokens: 12 }, oracle([...expected, ...expected], long))
    expect(tokens).toEqual(expected)
    await expect(world.answer({ prompt: long, maxTokens: 13 })).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' })
  })

  it('ends a draft with the token that fell under the threshold', async () => {
    const drafter = { createDrafter: () => scripted(() => 3, { topProbability: 0.59 }) }
    const { rounds } = await world.answer({ prompt, maxTokens: 12 }, drafter)
    expect(rounds.slice(1, -1).every(({ drafted }) => drafted === 1)).toBe(true)
    const sure = await world.answer(
      { prompt, maxTokens: 12 },
      { createDrafter: () => scripted(() => 3, { topProbability: 0.6 }) },
    )
    expect(sure.rounds[1]!.drafted).toBe(6)
  })

  it('never drafts more than the bridge advises or the device wants', async () => {
    const right = oracle(await reference(40))
    const drafted = async (draftLimit: number) =>
      (await world.answer({ prompt, maxTokens: 40 }, { ...right, draftLimit })).rounds.map((round) => round.drafted)
    expect(Math.max(...(await drafted(100)))).toBe(6)
    expect(Math.max(...(await drafted(2)))).toBe(2)
    expect(Math.max(...(await drafted(0)))).toBe(0)
  })

  it('reports rates, and bytes that add up', async () => {
    const { figures } = await world.answer({ prompt, maxTokens: 20 })
    expect(figures.rates).toMatchObject({ prefillTokensPerS: expect.any(Number), draftStepMs: expect.any(Number) })
    const rowBytes = 64 * 2
    expect(figures.bytesUp).toBeGreaterThan((prompt.length + figures.rounds + figures.drafted) * rowBytes)
    expect(figures.bytesDown).toBeGreaterThan((1 + figures.rounds + figures.drafted) * rowBytes)
  })
})

describe('verifications', () => {
  /** Bytes on the wire, either way, of every frame after prefill. */
  async function lengths(
    padding: boolean,
    rule: Partial<HatOptions> = {},
  ): Promise<{ up: Set<number>; down: Set<number>; tokens: number[] }> {
    await using relay = await startRelay(portOf(world.bridge.dataUrl))
    const link = dataLinkTo(through(relay, world.bridge.dataUrl), { device: 'padded' })
    const sizes = { up: new Set<number>(), down: new Set<number>() }
    const expected = await reference(40)
    let drafts = 0
    const { tokens } = await world.answer(
      { prompt, maxTokens: 40 },
      {
        padding,
        ...rule,
        createDrafter: () => scripted((position) => (drafts++ % 3 === 0 ? undefined : expected[position - prompt.length])),
        async open(signal) {
          const session = await link.open(world.model.manifest.modelId, signal)
          const exchange = session.exchange.bind(session)
          session.exchange = async (base, rows, want, paddedRows) => {
            const before = { up: session.bytesUp, down: session.bytesDown }
            const reply = await exchange(base, rows, want, paddedRows)
            if (want === rows.rows) {
              sizes.up.add(session.bytesUp - before.up)
              sizes.down.add(session.bytesDown - before.down)
            }
            return reply
          }
          return session
        },
      },
    )
    await link.close()
    return { ...sizes, tokens }
  }

  it('have one length in each direction, whatever was drafted', async () => {
    for (const rule of [{}, { threshold: undefined, draftLimit: Number.POSITIVE_INFINITY, speed: new DeviceSpeed() }]) {
      const { up, down, tokens } = await lengths(true, rule)
      expect([up.size, down.size]).toEqual([1, 1])
      expect(tokens).toEqual(await reference(40))
    }
  })

  it('have different lengths without padding', async () => {
    const { up, down } = await lengths(false)
    expect(up.size).toBeGreaterThan(1)
    expect(down.size).toBeGreaterThan(1)
  })
})

describe('frames at an interval', () => {
  /** Bytes of each frame up, of an answer to a prompt of so many tokens, for which these positions are drafted right. */
  async function lengths(promptTokens: number, isRight: (position: number) => boolean) {
    const asked = randomIds(promptTokens)
    const { tokens: expected } = await world.answer({ prompt: asked, maxTokens: 24 }, withoutDrafts)
    const sent: number[] = []
    const recorded = aroundExchanges((session, exchange) => (base, rows, want, form) => {
      const before = session.bytesUp
      const replied = exchange(base, rows, want, form)
      sent.push(session.bytesUp - before)
      return replied
    })
    const next = (position: number) => {
      const right = expected[position - asked.length] ?? 0
      return isRight(position) ? right : (right + 1) % vocab
    }
    const paced = { ...recorded, createDrafter: () => scripted(next), intervalMs: 10, padding: false }
    const { tokens, figures } = await world.answer({ prompt: asked, maxTokens: 24 }, paced)
    expect(tokens).toEqual(expected)
    return { sent, rounds: figures.rounds }
  }

  it('give the same tokens in frames of two lengths: those of prompts, and those of verifications and covers', async () => {
    // In five chunks of 8 each; the last chunk of one prompt is a single row.
    const all = [
      await lengths(40, () => true),
      await lengths(33, (position) => position % 3 !== 0),
      await lengths(36, () => false),
    ]
    const [ofPrompt, ofRound] = [...new Set(all[0]!.sent)]
    for (const { sent, rounds } of all) {
      expect(sent.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => ofPrompt))
      expect(new Set(sent.slice(5))).toEqual(new Set([ofRound]))
      expect(sent.length - 5).toBeGreaterThanOrEqual(rounds)
    }
  })

  it('send covers while the bridge takes its time, and what follows them is still the answer', async () => {
    let rows = 0
    let waited = false
    const slow = aroundExchanges((_, exchange) => async (base, states, want, form) => {
      rows += 1
      const reply = await exchange(base, states, want, form)
      if (want === states.rows && !waited) {
        waited = true
        await systemClock.sleep(100)
      }
      return reply
    })
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 24 }, { ...slow, intervalMs: 10 })
    expect(tokens).toEqual(await reference(24))
    // Three frames of the prompt.
    expect(rows - 3).toBeGreaterThan(figures.rounds)
  })
})

describe('states as int8', () => {
  it('take about half the bytes, are reported, and yield the same answer when sent again', async () => {
    const long = randomIds(60)
    const half = await world.answer({ prompt: long, maxTokens: 12 })
    const int8 = await world.answer({ prompt: long, maxTokens: 12 }, { wire: 'int8' })
    const again = await world.answer({ prompt: long, maxTokens: 12 }, { wire: 'int8', ...withoutDrafts })
    expect([half.figures.wire, int8.figures.wire]).toEqual(['fp16', 'int8'])
    expect(int8.figures.bytesUp / half.figures.bytesUp).toBeLessThan(0.8)
    expect(int8.tokens).toEqual(again.tokens)
  })
})

describe('prefill', () => {
  it('sends chunks of the advised size, at most two unanswered, and receives only the last row', async () => {
    const frames: { base: number; rows: number; want: number; unanswered: number }[] = []
    let unanswered = 0
    let secondSent = () => {}
    const second = new Promise<void>((resolve) => {
      secondSent = resolve
    })
    const recorded = aroundExchanges((_, exchange) => async (base, rows, want) => {
      unanswered += 1
      frames.push({ base, rows: rows.rows, want, unanswered })
      if (frames.length === 2) secondSent()
      const reply = await exchange(base, rows, want)
      // Even with a fast bridge, the second frame is sent before the first reply.
      await second
      unanswered -= 1
      return reply
    })
    const long = randomIds(45)
    await world.answer({ prompt: long, maxTokens: 1 }, recorded)
    expect(frames.map(({ base, rows, want }) => ({ base, rows, want }))).toEqual([
      { base: 0, rows: 8, want: 0 },
      { base: 8, rows: 8, want: 0 },
      { base: 16, rows: 8, want: 0 },
      { base: 24, rows: 8, want: 0 },
      { base: 32, rows: 13, want: 1 },
    ])
    expect(Math.max(...frames.map((frame) => frame.unanswered))).toBe(2)
  })

  it('yields the reference for any length of the prompt', async () => {
    for (const length of [1, 2, 7, 8, 9, 16, 17]) {
      const ids = randomIds(length)
      expect((await world.answer({ prompt: ids, maxTokens: 6 })).tokens).toEqual(await reference(6, greedy, [], ids))
    }
  })
})

describe('rows that the bridge has lost', () => {
  const noRows: States = { rows: 0, width: 64, half: new Uint16Array(0) }

  it.each([0, 1, 13, 20])('are sent again, and the answer is the same (truncated to %i)', async (kept) => {
    let frames = 0
    let resent = 0
    const forgetful = aroundExchanges((_, exchange) => async (base, rows, want) => {
      frames += 1
      if (base < 21 && frames > 6) resent += 1
      // A frame without rows, unknown to the session, truncates the bridge's KV.
      if (frames === 6) await exchange(kept, noRows, 0)
      return exchange(base, rows, want)
    })
    const { tokens } = await world.answer({ prompt, maxTokens: 20 }, forgetful)
    expect(tokens).toEqual(await reference(20))
    expect(resent).toBeGreaterThan(0)
  })

  it('are sent again when they are lost during prefill', async () => {
    let frames = 0
    const forgetful = aroundExchanges((_, exchange) => async (base, rows, want) => {
      frames += 1
      if (frames === 2) await exchange(0, noRows, 0)
      return exchange(base, rows, want)
    })
    const { tokens } = await world.answer({ prompt, maxTokens: 10 }, forgetful)
    expect(tokens).toEqual(await reference(10))
    expect(frames).toBeGreaterThan(12)
  })

  it('end the answer when they are lost every time', async () => {
    const hopeless = aroundExchanges((_, exchange) => async (base, rows, want) => {
      await exchange(0, noRows, 0)
      const reply = await exchange(base, rows, want)
      return want > 0 ? { kind: 'gap', length: 0 } : reply
    })
    await expect(world.answer({ prompt, maxTokens: 10 }, hopeless)).rejects.toMatchObject({ code: 'LINK_LOST' })
  })
})

describe('a failing answer', () => {
  const poison = (states: States): States => ({ ...states, half: states.half.map((value, at) => (at === 5 ? 0x7e00 : value)) })

  it('continues in another session if the bridge returns too few rows, at most a few times', async () => {
    const missing = (times: number) => {
      let left = times
      return aroundExchanges((_, exchange) => async (base, rows, want, form) => {
        const reply = await exchange(base, rows, want, form)
        if (reply.kind !== 'deep' || want === 0 || base < 24 || left === 0) return reply
        left -= 1
        return { ...reply, states: { ...reply.states, rows: want - 1 } }
      })
    }
    const { tokens, figures } = await world.answer({ prompt, maxTokens: 20 }, missing(2))
    expect(tokens).toEqual(await reference(20))
    expect(figures.failovers).toBe(2)
    await expect(world.answer({ prompt, maxTokens: 20 }, missing(100))).rejects.toMatchObject({
      code: 'LINK_LOST',
      cause: { code: 'FRAME_INVALID' },
    })
  })

  it('names the part that returns NaN: input', async () => {
    const input = alteredPart(world.model.part('input'), { returns: poison })
    await expect(world.answer({ prompt }, { input })).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: expect.stringContaining('"input"'),
    })
  })

  it('names the part that returns NaN: adapter', async () => {
    const adapter = alteredPart(world.model.part('adapter'), { returns: poison })
    const createDrafter = (sampling: Sampling) => adapterDrafter(adapter, world.head, sampling)
    await expect(world.answer({ prompt }, { createDrafter })).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: expect.stringContaining('"adapter"'),
    })
  })

  it('names the part that returns NaN: middle', async () => {
    const broken = aroundExchanges((_, exchange) => async (base, rows, want) => {
      const reply = await exchange(base, rows, want)
      return reply.kind === 'deep' && want > 0 ? { ...reply, states: poison(reply.states) } : reply
    })
    await expect(world.answer({ prompt }, broken)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: expect.stringContaining('"middle"'),
    })
  })

  it('frees the KV on both sides when the device runs out of memory, and the next answer works', async () => {
    let steps = 0
    const input = alteredPart(world.model.part('input'), {
      before() {
        steps += 1
        if (steps === 5) throw new BrimError('OUT_OF_MEMORY', 'no memory for a KV cache')
      },
    })
    await expect(world.answer({ prompt }, { input })).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    expect(input.usedBytes()).toBe(0)
    await expect.poll(() => world.sessionsAtBridge()).toBe(0)
    expect((await world.answer({ prompt, maxTokens: 5 })).tokens).toEqual(await reference(5))
  })

  it('stops within one step on both sides when it is canceled, and frees the KV', async () => {
    for (const stopAfter of [1, 4, 9]) {
      const stop = new AbortController()
      let steps = 0
      const input = alteredPart(world.model.part('input'), {
        before() {
          steps += 1
          if (steps === stopAfter) stop.abort(new BrimError('CANCELED', 'enough'))
        },
      })
      await expect(world.answer({ prompt, maxTokens: 100 }, { input }, stop.signal)).rejects.toMatchObject({ code: 'CANCELED' })
      expect(steps).toBe(stopAfter)
      expect(input.usedBytes()).toBe(0)
      await expect.poll(() => world.sessionsAtBridge()).toBe(0)
    }
  })

  it('stops while it waits for the bridge', async () => {
    const stop = new AbortController()
    let frames = 0
    const slow = aroundExchanges((_, exchange) => (base, rows, want) => {
      frames += 1
      if (frames === 5) queueMicrotask(() => stop.abort(new BrimError('CANCELED', 'enough')))
      return exchange(base, rows, want)
    })
    await expect(world.answer({ prompt, maxTokens: 100 }, slow, stop.signal)).rejects.toMatchObject({ code: 'CANCELED' })
    expect(frames).toBe(5)
    await expect.poll(() => world.sessionsAtBridge()).toBe(0)
  })

  it('frees the KV when its reader stops reading', async () => {
    const input = alteredPart(world.model.part('input'), {})
    const request = { client: 'app', prompt, maxTokens: 50, sampling: greedy, eos: [], acceptedMs: 0 }
    const prefixes = new PrefixMemory(systemClock)
    for await (const round of answerByHat(world.options({ input, prefixes }), request, new AbortController().signal)) {
      if (round.drafted > 0) break
    }
    expect(input.usedBytes()).toBeGreaterThan(0)
    prefixes.release()
    expect(input.usedBytes()).toBe(0)
    await expect.poll(() => world.sessionsAtBridge()).toBe(0)
  })
})
