import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hatEndpoint } from '../../../../agent/hat/endpoint.ts'
import { slmEndpoint } from '../../../../agent/slm/endpoint.ts'
import { openLocalModel } from '../../../../agent/slm/local-model.ts'
import { bridgeEndpoint } from '../../../../cloud-bridge/llm/endpoint.ts'
import { splitModel } from '../../../../cloud-bridge/serving/served-model.ts'
import type { Serving } from '../../../../cloud-bridge/serving/serving.ts'
import type { AnswerRequest, TokenDelta, TokenEndpoint } from '../../../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../../../core/answer/endpoint/meter.ts'
import { Prompt } from '../../../../core/answer/endpoint/prompt.ts'
import { collectAnswer, streamAnswer } from '../../../../core/answer/endpoint/stream-answer.ts'
import { loadTextModel, type TextModel } from '../../../../core/answer/endpoint/text-model.ts'
import { systemClock } from '../../../../core/kit/base/clock.ts'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { greedy, type Sampling } from '../../../../core/model/engine/sampler.ts'
import { DeviceSpeed } from '../../../../core/policy/hat/device-speed.ts'
import { buildSlmBundle, buildTextBundle } from '../../../support/agent-world.ts'
import { startHatWorld } from '../../../support/hat-world.ts'
import { testServing } from '../../../support/serving.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const maxTokens = 14
const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }
const never = new AbortController().signal

const dir = shared(tempDir)
const world = shared(async () => startHatWorld({ bundle: await buildTextBundle(dir.path), settings: { chunkTokens: 16 } }))
let serving: Serving
let slm: Awaited<ReturnType<typeof openLocalModel>>
const endpoints: Record<string, TokenEndpoint> = {}
beforeAll(async () => {
  slm = await openLocalModel({ bundle: await buildSlmBundle(dir.path), threads: 1 })
  const model = await loadTextModel(world.bundle, world.model.manifest)
  endpoints.hat = hatEndpoint(world.options(), model)
  endpoints.slm = slmEndpoint(slm, systemClock)
  serving = testServing(splitModel(world.model.part('middle'), { input: world.model.part('input'), head: world.head }))
  endpoints.bridge = bridgeEndpoint(serving, model)
})
afterAll(async () => {
  await serving.close()
  await slm.close()
})

const requestTo = ({ model }: TokenEndpoint, more: Partial<AnswerRequest> = {}): AnswerRequest => ({
  prompt: new Prompt({ kind: 'ids', tokens: { model, ids: [11, 42, 7, 99, 23, 5, 61] } }),
  maxTokens,
  sampling: greedy,
  stop: [],
  ignoreEos: true,
  client: 'app',
  ...more,
})

async function deltasOf(endpoint: TokenEndpoint, request: AnswerRequest): Promise<TokenDelta[]> {
  const deltas: TokenDelta[] = []
  for await (const delta of endpoint.answer(request, never)) deltas.push(delta)
  return deltas
}
const tokensOf = (deltas: readonly TokenDelta[]) => deltas.flatMap(({ tokens }) => tokens)

describe.each(['hat', 'slm', 'bridge'])('the endpoint %s', (name) => {
  it.each([
    ['greedy', greedy],
    ['sampled', sampled],
  ])('continues from any token position with the tokens of the whole answer, %s', async (_, sampling) => {
    const endpoint = endpoints[name]!
    const whole = tokensOf(await deltasOf(endpoint, requestTo(endpoint, { sampling })))
    expect(whole).toHaveLength(maxTokens)
    for (const position of [0, 1, 5, maxTokens - 1]) {
      const answered = { model: endpoint.model, ids: whole.slice(0, position) }
      const rest = await deltasOf(endpoint, requestTo(endpoint, { sampling, answered, maxTokens: maxTokens - position }))
      expect(tokensOf(rest)).toEqual(whole.slice(position))
      expect(rest.map(({ end }) => end)).toEqual([...rest.slice(1).map(() => undefined), 'length'])
      expect(rest.every(({ source }) => source.kind === name && source.model === endpoint.model)).toBe(true)
    }
  })

  it('ends at an end-of-text token', async () => {
    const endpoint = endpoints[name]!
    const whole = tokensOf(await deltasOf(endpoint, requestTo(endpoint)))
    const eos = whole[3]!
    const model: TextModel = { ...endpoint.model, eos: [eos] }
    const endings: Record<string, () => TokenEndpoint> = {
      hat: () => hatEndpoint(world.options(), model),
      slm: () => slmEndpoint({ ...slm, text: model }, systemClock),
      bridge: () => bridgeEndpoint(serving, model),
    }
    const ending = endings[name]!()
    const deltas = await deltasOf(ending, requestTo(ending, { ignoreEos: false }))
    expect(tokensOf(deltas)).toEqual(whole.slice(0, whole.indexOf(eos) + 1))
    expect(deltas.at(-1)!.end).toBe('stop')
  })

  it('reports the log probability of each token where a request asks for it', async () => {
    const endpoint = endpoints[name]!
    const deltas = await deltasOf(endpoint, requestTo(endpoint, { logprobs: 2 }))
    const logprobs = deltas.flatMap((delta) => delta.logprobs ?? [])
    expect(logprobs.map(({ token }) => token)).toEqual(tokensOf(deltas))
    for (const { logprob, top } of logprobs) expect([top.length, top[0]!.logprob]).toEqual([2, logprob])
  })

  it('stops when its request is canceled, and ends at a stop string', async () => {
    const endpoint = endpoints[name]!
    const aborting = new AbortController()
    const canceled = endpoint.answer(requestTo(endpoint, { maxTokens: 100 }), aborting.signal)
    await canceled.next()
    aborting.abort(new BrimError('CANCELED', 'canceled on purpose'))
    await expect(canceled.next()).rejects.toMatchObject({ code: 'CANCELED' })
    const options = { endpoint, clock: systemClock, meter: new AnswerMeter(systemClock) }
    const { text } = await collectAnswer(streamAnswer(options, requestTo(endpoint), never))
    const stop = text.slice(4, 6)
    const stopped = await collectAnswer(streamAnswer(options, requestTo(endpoint, { stop: [stop] }), never))
    expect(stopped).toMatchObject({ text: text.slice(0, text.indexOf(stop)), finishReason: 'stop' })
  })

  it('rejects a new answer that its context cannot hold, and ends a continuation with its context', async () => {
    const endpoint = endpoints[name]!
    const { model } = endpoint
    const ids = Array.from({ length: model.dims.contextLimit - 3 }, (_, at) => at % 50)
    const prompt = new Prompt({ kind: 'ids', tokens: { model, ids } })
    await expect(deltasOf(endpoint, requestTo(endpoint, { prompt, maxTokens: 9 }))).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
    })
    const deltas = await deltasOf(endpoint, requestTo(endpoint, { prompt, maxTokens: 9, answered: { model, ids: [] } }))
    expect([tokensOf(deltas).length, deltas.at(-1)!.end]).toEqual([3, 'length'])
  })
})

it('answers at the bridge with the tokens that a device gets from HAT', async () => {
  for (const sampling of [greedy, sampled]) {
    const [hat, bridge] = await Promise.all(
      [endpoints.hat!, endpoints.bridge!].map((endpoint) => deltasOf(endpoint, requestTo(endpoint, { sampling }))),
    )
    expect(tokensOf(bridge!)).toEqual(tokensOf(hat!))
  }
})

it('measures the prefill of the small model in tokens per second, before its first token', async () => {
  let nowMs = 0
  const stepMs = 40
  const { chain } = slm
  const slow: typeof chain = {
    manifest: chain.manifest,
    createSequence: () => chain.createSequence(),
    step(items) {
      nowMs += stepMs
      return chain.step(items)
    },
  }
  const speed = new DeviceSpeed()
  const endpoint = slmEndpoint({ ...slm, chain: slow, speed }, { ...systemClock, nowMs: () => nowMs })
  const ids = Array.from({ length: 20 }, (_, at) => at)
  const prompt = new Prompt({ kind: 'ids', tokens: { model: endpoint.model, ids } })
  await deltasOf(endpoint, requestTo(endpoint, { prompt }))
  expect(speed.prefillTokensPerS).toBeCloseTo((1_000 * ids.length) / stepMs)
})
