import { beforeAll, describe, expect, it } from 'vitest'
import { discoEndpoint } from '../../../agent/disco/endpoint.ts'
import { answeredAfter, piecesOf } from '../../../agent/disco/pieces.ts'
import type { EndpointPlan } from '../../../agent/disco/plan.ts'
import type { AnswerDelta, AnswerRequest } from '../../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../../core/answer/endpoint/meter.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { collectAnswer, streamAnswer } from '../../../core/answer/endpoint/stream-answer.ts'
import { loadTextModel, type TextModel, textOf } from '../../../core/answer/endpoint/text-model.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError, type ErrorCode } from '../../../core/kit/base/errors.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { answerPlan, answerSide } from '../../support/answer-plan.ts'
import { type ScriptedSideOptions, scriptedSide, scriptedTextSide } from '../../support/scripted-side.ts'
import { unrecorded } from '../../support/unrecorded.ts'

let model: TextModel
let ids: readonly number[]
beforeAll(async () => {
  const bundle = await ensureDemoBundle('llm')
  model = await loadTextModel(bundle, await readManifest(bundle))
  ids = model.tokenizer.encode('Once upon a time there was a king who had three daughters, and the youngest of them was so fair.')
})

const never = new AbortController().signal
const requestOf = (more: Partial<AnswerRequest> = {}): AnswerRequest => ({
  prompt: new Prompt({ kind: 'ids', tokens: { model, ids: [11, 42, 7] } }),
  sampling: greedy,
  stop: [],
  client: 'app',
  ...more,
})
const slm = (more: Partial<ScriptedSideOptions> = {}) => scriptedSide({ model, kind: 'slm', ids, ...more })
const server = (more: Partial<ScriptedSideOptions> = {}) => scriptedSide({ model, kind: 'bridge', ids, ...more })

async function answerBy(plan: EndpointPlan, request = requestOf(), signal = never) {
  const deltas: { delta: AnswerDelta; atMs: number }[] = []
  const endpoint = discoEndpoint({ model, clock: systemClock, begin: unrecorded, plan: async () => plan })
  for await (const delta of endpoint.answer(request, signal)) deltas.push({ delta, atMs: performance.now() })
  return {
    deltas,
    tokens: deltas.flatMap(({ delta }) => ('tokens' in delta ? delta.tokens : [])),
    disco: deltas.at(-1)!.delta.disco!(),
  }
}
const kinds = (deltas: readonly { delta: AnswerDelta }[]) => [...new Set(deltas.map(({ delta }) => delta.source.kind))]

describe('a race', () => {
  it('is won by the first token, and the other side’s work stops', async () => {
    const device = slm({ firstMs: 10 })
    const slow = server({ firstMs: 5_000 })
    const { plan, observed } = answerPlan({ local: answerSide(device), remote: answerSide(slow) })
    const askedMs = performance.now()
    const { deltas, tokens, disco } = await answerBy(plan)
    const tookMs = performance.now() - askedMs
    expect(tokens).toEqual(ids)
    expect(kinds(deltas)).toEqual(['slm'])
    expect([slow.working, slow.steps]).toEqual([0, 0])
    expect(disco).toMatchObject({ winner: 'device', migrations: [], startMs: { device: 0, server: 0 } })
    expect(observed.first).toEqual([{ side: 'local', ms: expect.any(Number), tokens: 7 }])
    expect(observed.canceled).toEqual([{ side: 'remote', ms: expect.any(Number), tokens: 7 }])
    for (const { ms } of [...observed.first, ...observed.canceled]) expect([ms >= 9, ms <= tookMs]).toEqual([true, true])
    expect(observed.spent).toEqual({ local: { promptTokens: 7, tokens: ids.length }, remote: { promptTokens: 7, tokens: 0 } })
    expect(observed.ended).toEqual([ids.length])
  })

  it('stops the loser while the winner still writes', async () => {
    const slow = server({ firstMs: 5_000 })
    const { plan } = answerPlan({ local: answerSide(slm({ gapMs: 5 })), remote: answerSide(slow) })
    const endpoint = discoEndpoint({ model, clock: systemClock, begin: unrecorded, plan: async () => plan })
    const working: number[] = []
    for await (const _ of endpoint.answer(requestOf(), never)) working.push(slow.working)
    expect(working.slice(1).every((runs) => runs === 0)).toBe(true)
    expect(working.length).toBeGreaterThan(2)
  })
})

it('what was answered is all tokens and texts so far, in their order', () => {
  const source = { kind: 'slm', model } as const
  const piecesFrom = (from: number, to: number) => piecesOf({ source, tokens: ids.slice(from, to), end: undefined }, true)
  const text = piecesOf(
    { source: { kind: 'upstream', model: { name: 'remote' } }, text: ' and then', tokenCount: 2, end: undefined },
    true,
  )
  const answered = answeredAfter({ model, ids: [] }, [...piecesFrom(0, 3), ...text, ...piecesFrom(3, 5)])
  const detokenizer = model.tokenizer.detokenizer()
  const before = ids.slice(0, 3).map((id) => detokenizer.push(id))
  expect(textOf(answered).startsWith(`${before.join('')} and then`)).toBe(true)
})

describe('migration', () => {
  it('goes on with the same tokens at the side that costs less, once the buffer lasts until its first token', async () => {
    const device = slm()
    const cheap = server({ firstMs: 60 })
    const costs = { local: { prompt: 0, output: 2 }, remote: { prompt: 0, output: 1 } }
    const { plan, observed } = answerPlan(
      {
        local: answerSide(device, { costs: costs.local }),
        remote: answerSide(cheap, { costs: costs.remote, startMs: () => 100 }),
      },
      {
        tokensPerS: 50,
        dispatch: { local: 0, remote: Number.POSITIVE_INFINITY },
        preferred: { side: 'remote', reason: 'cost' },
      },
    )
    const { deltas, tokens, disco } = await answerBy(plan)
    expect(tokens).toEqual(ids)
    expect(kinds(deltas)).toEqual(['slm', 'bridge'])
    // B = 50 tokens/s × (100 ms, and the time of one token in which the source could come back).
    const [migration] = disco.migrations
    expect(migration).toMatchObject({ from: 'device', to: 'server', reason: 'cost', delayedTokens: 0, succeeded: true })
    expect(migration!.bufferTokens).toBeOneOf([5, 6])
    expect(device.steps).toBe(migration!.afterTokens)
    expect(observed.spent.remote).toEqual({ promptTokens: 7 + device.steps, tokens: ids.length - device.steps })
    expect(disco).toMatchObject({ winner: 'device', tokensPerS: 50, stalls: 0 })
  })
})

describe('a stop string', () => {
  it('ends the work when it is written, not when it is read', async () => {
    const device = slm()
    const { plan, observed } = answerPlan({ local: answerSide(device) }, { tokensPerS: 100 })
    const endpoint = discoEndpoint({ model, clock: systemClock, begin: unrecorded, plan: async () => plan })
    const options = { endpoint, clock: systemClock, meter: new AnswerMeter(systemClock) }
    const text = model.tokenizer.decode([...ids], { skipSpecialTokens: false })
    const stop = [text.slice(20, 26)]
    const answer = await collectAnswer(streamAnswer(options, requestOf({ stop }), never))
    expect(answer).toMatchObject({ text: text.slice(0, 20), finishReason: 'stop' })
    expect(device.steps).toBe(answer.tokens)
    expect(answer.tokens).toBeLessThan(ids.length)
    expect(observed.ended).toEqual([answer.tokens])
  })
})

describe('a side that fails', () => {
  const broken = (code: ErrorCode, after = 4) =>
    server({ failsAfter: () => ({ tokens: after, error: new BrimError(code, 'failed on purpose') }) })
  const onlyIfServerFails = { dispatch: { local: Number.POSITIVE_INFINITY, remote: 0 } }

  it.each<[ErrorCode, boolean]>([
    ['LINK_LOST', true],
    ['BRIDGE_UNREACHABLE', true],
    ['SESSION_REFUSED', true],
    ['NOT_AUTHORIZED', true],
    ['CONTEXT_OVERFLOW', true],
    ['BUNDLE_MISMATCH', false],
    ['PROTOCOL_VERSION', false],
    ['OUT_OF_MEMORY', false],
    ['RUNTIME_FAILED', false],
  ])('with %s is replaced in a private answer: %s; in others always', async (code, isReplaced) => {
    const answer = (mode: EndpointPlan['mode']) =>
      answerBy(answerPlan({ local: answerSide(slm()), remote: answerSide(broken(code)) }, { mode, ...onlyIfServerFails }).plan)
    expect((await answer('cloud')).tokens).toEqual(ids)
    if (isReplaced) expect((await answer('private')).tokens).toEqual(ids)
    else await expect(answer('private')).rejects.toMatchObject({ code })
  })

  it('leaves the other one what is left of the token limit', async () => {
    const device = slm()
    const { plan } = answerPlan({ local: answerSide(device), remote: answerSide(broken('LINK_LOST')) }, onlyIfServerFails)
    const { tokens } = await answerBy(plan, requestOf({ maxTokens: 6 }))
    expect(tokens).toEqual(ids.slice(0, 6))
    expect(device.requests).toMatchObject([{ maxTokens: 2, answered: { ids: ids.slice(0, 4) } }])
  })

  it('in the race leaves the answer to the other one, also before that was to start', async () => {
    const { plan } = answerPlan(
      { local: answerSide(slm()), remote: answerSide(broken('UPSTREAM_FAILED', 0)) },
      { dispatch: { local: 60_000, remote: 0 } },
    )
    const { tokens, disco } = await answerBy(plan)
    expect(tokens).toEqual(ids)
    expect(disco).toMatchObject({ winner: 'device', migrations: [], startMs: { device: 60_000, server: 0 } })
  })

  it('fails the answer where the other one fails too, or cannot go on', async () => {
    const both = { local: answerSide(broken('OUT_OF_MEMORY', 2)), remote: answerSide(broken('LINK_LOST')) }
    const { plan, observed } = answerPlan(both, onlyIfServerFails)
    await expect(answerBy(plan)).rejects.toMatchObject({ code: 'OUT_OF_MEMORY' })
    expect(observed.ended).toEqual([undefined])
    const device = answerSide(slm(), { continues: false })
    const stuck = answerPlan({ local: device, remote: answerSide(broken('LINK_LOST')) }, onlyIfServerFails)
    await expect(answerBy(stuck.plan)).rejects.toMatchObject({ code: 'LINK_LOST' })
  })

  it('as the target of a migration fails nothing: the source goes on, also in a private answer', async () => {
    const failures = ['LINK_LOST', 'RUNTIME_FAILED'] as const
    const hat = server({
      failsAfter: (attempt) =>
        attempt < 2 ? { tokens: attempt === 0 ? 2 : 0, error: new BrimError(failures[attempt]!, 'failed') } : undefined,
    })
    const { plan } = answerPlan(
      { local: answerSide(slm()), remote: answerSide(hat, { untilReachable: async () => {} }) },
      { mode: 'private', ...onlyIfServerFails, preferred: { side: 'remote', reason: 'return' } },
    )
    const { tokens, disco } = await answerBy(plan)
    expect(tokens).toEqual(ids)
    expect(disco.migrations.map(({ reason, succeeded }) => [reason, succeeded])).toEqual([
      ['failure', true],
      ['return', false],
      ...(hat.requests.length > 2 ? [['return', true]] : []),
    ])
  })

  it('with an error that is none of Brim’s fails the answer', async () => {
    const bug = scriptedSide({ model, kind: 'bridge', ids, failsAfter: () => ({ tokens: 1, error: new TypeError('a bug') }) })
    const { plan } = answerPlan({ local: answerSide(slm()), remote: answerSide(bug) }, onlyIfServerFails)
    await expect(answerBy(plan)).rejects.toThrow('a bug')
  })

  it('is replaced by the other one, which goes on with the same tokens', async () => {
    const error = new BrimError('LINK_LOST', 'lost on purpose')
    const broken = server({ failsAfter: () => ({ tokens: 4, error }) })
    const { plan } = answerPlan(
      { local: answerSide(slm()), remote: answerSide(broken) },
      { dispatch: { local: Number.POSITIVE_INFINITY, remote: 0 } },
    )
    const { deltas, tokens, disco } = await answerBy(plan)
    expect(tokens).toEqual(ids)
    expect(kinds(deltas)).toEqual(['bridge', 'slm'])
    expect(deltas.map(({ delta }) => delta.cause?.code)).toEqual(ids.map((_, at) => (at < 4 ? undefined : 'LINK_LOST')))
    expect(disco.migrations).toMatchObject([{ from: 'server', to: 'device', reason: 'failure', afterTokens: 4, succeeded: true }])
  })
})

describe('a server that does not tell its tokens', () => {
  const text = 'The king 👑 of the Köln fair — ça va? — had a 三 crown 👑👑 and 一二三 more of them.'
  const textIds = () => model.tokenizer.encode(text)
  const options = (plan: EndpointPlan) => ({
    endpoint: discoEndpoint({ model, clock: systemClock, begin: unrecorded, plan: async () => plan }),
    clock: systemClock,
    meter: new AnswerMeter(systemClock),
  })
  const textBy = async (plan: EndpointPlan) => (await collectAnswer(streamAnswer(options(plan), requestOf(), never))).text

  it.each([0, 1_000])('goes on after whole characters, wherever the small model breaks off (rate %s)', async (tokensPerS) => {
    const all = textIds()
    const failedAfter = async (tokens: number) => {
      const remote = scriptedTextSide(text)
      const error = new BrimError('OUT_OF_MEMORY', 'failed on purpose')
      const device = slm({ ids: all, atOnce: tokens, failsAfter: () => ({ tokens, error }) })
      const { plan } = answerPlan(
        { local: answerSide(device), remote: answerSide(remote, { pauses: false }) },
        { tokensPerS, dispatch: { local: 0, remote: Number.POSITIVE_INFINITY } },
      )
      expect(await textBy(plan)).toBe(text)
      expect(text.startsWith(remote.answered[0]!)).toBe(true)
    }
    await Promise.all(all.slice(1).map((_, at) => failedAfter(at + 1)))
  })

  it.each([0, 1_000])('is continued by the small model after a whole word (rate %s)', async (tokensPerS) => {
    const failedAfter = async (failsAfter: number) => {
      const device = slm({ ids: [...textIds(), model.eos[0]!] })
      const { plan } = answerPlan(
        {
          local: answerSide(device),
          remote: answerSide(scriptedTextSide(text, failsAfter), { pauses: false, continues: false }),
        },
        { tokensPerS, dispatch: { local: Number.POSITIVE_INFINITY, remote: 0 } },
      )
      expect(await textBy(plan)).toBe(text)
    }
    const words = text.split(' ')
    await Promise.all(words.slice(1).map((_, at) => failedAfter(at + 1)))
  })

  it('that goes on by itself is kept aside while the small model starts, and takes the answer back if that does not', async () => {
    const device = slm({ ids: textIds(), firstMs: 60_000 })
    const costs = { local: { prompt: 0, output: 1 }, remote: { prompt: 0, output: 2 } }
    const { plan } = answerPlan(
      {
        local: answerSide(device, { costs: costs.local, startMs: () => 20 }),
        remote: answerSide(scriptedTextSide(text), { pauses: false, continues: false, costs: costs.remote }),
      },
      {
        tokensPerS: 100,
        dispatch: { local: Number.POSITIVE_INFINITY, remote: 0 },
        preferred: { side: 'local', reason: 'cost' },
      },
    )
    const { text: given, report } = await collectAnswer(streamAnswer(options(plan), requestOf(), never))
    expect(given).toBe(text)
    expect(report.disco!.migrations).toMatchObject([{ from: 'server', to: 'device', succeeded: false }])
    expect(device.working).toBe(0)
  })
})

describe('a client that leaves', () => {
  it('stops both sides, in the race and while tokens wait for it', async () => {
    const leaving = new AbortController()
    const device = slm({ firstMs: 5_000 })
    const slow = server({ firstMs: 5_000 })
    const race = answerPlan({ local: answerSide(device), remote: answerSide(slow) })
    const racing = answerBy(race.plan, requestOf(), leaving.signal)
    await expect.poll(() => slow.working).toBe(1)
    leaving.abort(new BrimError('CANCELED', 'the client disconnected'))
    await expect(racing).rejects.toMatchObject({ code: 'CANCELED' })
    expect([device.working, slow.working]).toEqual([0, 0])
    expect(race.observed.ended).toEqual([undefined])

    const paced = slm()
    const { plan, observed } = answerPlan({ local: answerSide(paced) }, { tokensPerS: 1 })
    for await (const delta of discoEndpoint({ model, clock: systemClock, begin: unrecorded, plan: async () => plan }).answer(
      requestOf(),
      never,
    )) {
      expect(delta).toMatchObject({ tokens: [ids[0]] })
      break
    }
    expect(paced.working).toBe(0)
    expect(observed.ended).toEqual([1])
  })

  it('that reads slowly is not run ahead of where nothing is paced', async () => {
    const device = slm({ atOnce: 2 })
    const { plan } = answerPlan({ local: answerSide(device) })
    const answer = discoEndpoint({ model, clock: systemClock, begin: unrecorded, plan: async () => plan }).answer(
      requestOf(),
      never,
    )
    await answer.next()
    await systemClock.sleep(20)
    expect(device.steps).toBe(2)
    await answer.return()
  })
})
