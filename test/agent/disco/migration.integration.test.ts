import { beforeAll, describe, expect, it } from 'vitest'
import { discoEndpoint } from '../../../agent/disco/endpoint.ts'
import type { EndpointPlan } from '../../../agent/disco/plan.ts'
import { hatEndpoint } from '../../../agent/hat/endpoint.ts'
import { slmEndpoint } from '../../../agent/slm/endpoint.ts'
import type { LocalModel } from '../../../agent/slm/local-model.ts'
import type { AnswerRequest, TokenEndpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../../core/answer/endpoint/meter.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { collectAnswer, streamAnswer } from '../../../core/answer/endpoint/stream-answer.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import type { Sampling } from '../../../core/model/engine/sampler.ts'
import type { PreferredSide } from '../../../core/policy/disco/controller-plan.ts'
import { reportedSide } from '../../../core/policy/disco/state.ts'
import { answerPlan, answerSide } from '../../support/answer-plan.ts'
import { startFallbackWorld } from '../../support/fallback-world.ts'
import { shared } from '../../support/shared.ts'
import { unrecorded } from '../../support/unrecorded.ts'

const sampling: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }
const messages = [{ role: 'user', content: 'Tell me a story about a king.' }]
const maxTokens = 40
const never = Number.POSITIVE_INFINITY

const world = shared(startFallbackWorld)
let hat: TokenEndpoint
beforeAll(async () => {
  hat = hatEndpoint(world.hat.options(), world.text)
})

const requestOf = (more: Partial<AnswerRequest> = {}): AnswerRequest => ({
  prompt: new Prompt({ kind: 'chat', messages }),
  maxTokens,
  sampling,
  stop: [],
  client: 'app',
  ...more,
})

async function answerBy(plan: EndpointPlan, request = requestOf()) {
  const endpoint = discoEndpoint({ model: world.text, clock: systemClock, begin: unrecorded, plan: async () => plan })
  const options = { endpoint, clock: systemClock, meter: new AnswerMeter(systemClock) }
  return collectAnswer(streamAnswer(options, request, new AbortController().signal))
}

/** Long enough on a busy machine, too: a target that is later is given up. */
const startMs = () => 250

/** Begins at one side, and is to move to the other at once. */
function movingPlan(slm: TokenEndpoint, to: PreferredSide['side'], more: Partial<EndpointPlan> = {}) {
  const costs = (side: 'local' | 'remote') => ({ prompt: 0, output: side === to ? 1 : 2 })
  return answerPlan(
    {
      local: answerSide(slm, { costs: costs('local'), startMs }),
      remote: answerSide(hat, { costs: costs('remote'), startMs }),
    },
    {
      dispatch: { local: to === 'local' ? never : 0, remote: to === 'remote' ? never : 0 },
      preferred: { side: to, reason: 'cost' },
      tokensPerS: 40,
      ...more,
    },
  ).plan
}

const promptOf = ({ tokenizer, chatTemplate }: LocalModel['text']) =>
  tokenizer.encode(chatTemplate!.render(messages), { addSpecialTokens: false })

describe.each([
  ['local', 'remote'],
  ['remote', 'local'],
] as const)('an answer that moves from %s to %s', (from, to) => {
  it.each([0, 40])('has the target’s own tokens after the source’s, at a rate of %s', async (tokensPerS) => {
    const plan = movingPlan(slmEndpoint(world.deep, systemClock), to, { tokensPerS })
    const { tokenIds, text, report } = await answerBy(plan)
    expect(report.disco!.migrations).toMatchObject([
      { from: reportedSide(from), to: reportedSide(to), reason: 'cost', succeeded: true },
    ])
    const [first, second] = report.sources
    expect([first!.source, second!.source]).toEqual(from === 'local' ? ['slm', 'hat'] : ['hat', 'slm'])
    const chains = { local: world.deep.chain, remote: world.hat.chain }
    const before = tokenIds.slice(0, second!.from)
    const prompt = promptOf(world.text)
    expect(before).toEqual(await referenceAnswer(chains[from], prompt, sampling, before.length, []))
    const rest = await referenceAnswer(chains[to], [...prompt, ...before], sampling, maxTokens - before.length, world.text.eos)
    expect(tokenIds.slice(second!.from)).toEqual(rest)
    const detokenizer = world.text.tokenizer.detokenizer()
    expect(text).toBe(tokenIds.map((id) => detokenizer.push(id)).join(''))
    expect(report.fallback).toBeNull()
  })

  it.each([0, 40])('to a model of another vocabulary goes on after a whole word, at a rate of %s', async (tokensPerS) => {
    const plan = movingPlan(slmEndpoint(world.other, systemClock), to, { tokensPerS })
    const { tokenIds, text, report } = await answerBy(plan)
    expect(report.disco!.migrations).toMatchObject([{ from: reportedSide(from), to: reportedSide(to), succeeded: true }])
    const seam = report.sources[1]!.from
    const target = to === 'local' ? world.other : { ...world.hat, text: world.text }
    const source = from === 'local' ? world.other.text : world.text
    const before = source.tokenizer.decode(tokenIds.slice(0, seam), { skipSpecialTokens: false })
    expect(text.startsWith(before)).toBe(true)
    // The word that the source has ended with is whole: what it wrote after it is made again.
    const chain = from === 'local' ? world.other.chain : world.hat.chain
    const [next] = (await referenceAnswer(chain, promptOf(source), sampling, seam + 1, [])).slice(seam)
    expect(source.tokenizer.decode([next!], { skipSpecialTokens: false })).toMatch(/^\s/)
    const encoded = target.text.tokenizer.encode(before, { addSpecialTokens: false })
    const prompt = [...promptOf(target.text), ...encoded]
    const rest = await referenceAnswer(target.chain, prompt, sampling, maxTokens - seam, target.text.eos)
    expect(tokenIds.slice(seam)).toEqual(rest)
    expect(text).not.toContain('\ufffd')
  })
})

describe('an answer that has lost its bridge', () => {
  it('goes on with the small model, and moves back when the bridge has returned', async () => {
    let attempts = 0
    const broken: TokenEndpoint = {
      model: hat.model,
      async *answer(request, signal) {
        attempts += 1
        let left = attempts === 1 ? 5 : never
        for await (const delta of hat.answer(request, signal)) {
          if (left <= 0) throw new BrimError('LINK_LOST', 'lost on purpose')
          left -= delta.tokens.length
          yield delta
        }
      },
    }
    let isBack = () => {}
    const untilReachable = () => new Promise<void>((resolve) => (isBack = resolve))
    let steps = 0
    const chain: typeof world.deep.chain = {
      manifest: world.deep.chain.manifest,
      createSequence: () => world.deep.chain.createSequence(),
      step(items) {
        if (++steps === 8) isBack()
        return world.deep.chain.step(items)
      },
    }
    const { plan } = answerPlan(
      {
        local: answerSide(slmEndpoint({ ...world.deep, chain }, systemClock)),
        remote: answerSide(broken, { untilReachable }),
      },
      { mode: 'private', dispatch: { local: never, remote: 0 }, preferred: { side: 'remote', reason: 'return' } },
    )
    const { tokenIds, report } = await answerBy(plan)
    expect(report.sources.map(({ source }) => source)).toEqual(['hat', 'slm', 'hat'])
    expect(report.disco!.migrations).toMatchObject([
      { from: 'server', to: 'device', reason: 'failure', succeeded: true },
      { from: 'device', to: 'server', reason: 'return', succeeded: true },
    ])
    expect(report.fallback).toMatchObject({ code: 'LINK_LOST' })
    const seam = report.sources[2]!.from
    const prompt = [...promptOf(world.text), ...tokenIds.slice(0, seam)]
    expect(tokenIds.slice(seam)).toEqual(
      await referenceAnswer(world.hat.chain, prompt, sampling, maxTokens - seam, world.text.eos),
    )
  })
})

describe('an answer that fills the context of one side', () => {
  it('goes on at the other one, which has more', async () => {
    const { contextLimit } = world.deep.text.dims
    const ids = Array.from({ length: contextLimit - 6 }, (_, at) => 300 + (at % 100))
    const prompt = new Prompt({ kind: 'ids', tokens: { model: world.text, ids } })
    const dims = { ...world.text.dims, contextLimit: contextLimit + 9 }
    const { plan } = answerPlan(
      {
        local: answerSide(slmEndpoint(world.deep, systemClock)),
        remote: answerSide(hatEndpoint(world.hat.options(), { ...world.text, dims })),
      },
      { dispatch: { local: 0, remote: never } },
    )
    const { maxTokens: _, ...unlimited } = requestOf({ prompt, ignoreEos: true })
    const { report, tokenIds, finishReason } = await answerBy(plan, unlimited)
    expect(report.sources).toMatchObject([
      { source: 'slm', tokens: 6 },
      { source: 'hat', from: 6 },
    ])
    expect([tokenIds.length, finishReason]).toEqual([dims.contextLimit - ids.length, 'length'])
  })

  it('ends there where the other one cannot go on', async () => {
    const ids = Array.from({ length: world.deep.text.dims.contextLimit - 3 }, (_, at) => 300 + (at % 100))
    const prompt = new Prompt({ kind: 'ids', tokens: { model: world.text, ids } })
    const lost: TokenEndpoint = {
      model: world.text,
      // biome-ignore lint/correctness/useYield: it fails before its first delta
      async *answer() {
        throw new BrimError('LINK_LOST', 'lost on purpose')
      },
    }
    const { plan } = answerPlan(
      { local: answerSide(slmEndpoint(world.deep, systemClock)), remote: answerSide(lost) },
      { dispatch: { local: 0, remote: never } },
    )
    const { maxTokens: _, ...unlimited } = requestOf({ prompt, ignoreEos: true })
    const { tokenIds, finishReason, report } = await answerBy(plan, unlimited)
    expect([tokenIds.length, finishReason, report.fallback]).toEqual([3, 'length', null])
  })
})
