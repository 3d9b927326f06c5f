import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { bridgeLlm } from '../../../agent/disco/bridge-llm.ts'
import type { AnswerRequest, TokenDelta } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import type { UpstreamLimits } from '../../../core/answer/upstream/endpoint.ts'
import { type LeavingOf, leftByClients } from '../../../core/answer/upstream/leaving.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { KeptConnections } from '../../../core/kit/base/kept-connections.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { unpackIds } from '../../../core/wire/protocol/token-ids.ts'
import { memoryDisclosures } from '../../../lab/bench/hat/memory-disclosures.ts'
import { startRelay } from '../../../lab/cluster/relay.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { healthOf, startTestBridge } from '../../support/bridge.ts'
import { openReference } from '../../support/reference-model.ts'
import { failing, type Received, scriptedUpstream, startStream } from '../../support/scripted-upstream.ts'
import { shared } from '../../support/shared.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const testLimits: UpstreamLimits = {
  requests: 4,
  queue: 4,
  retries: 0,
  maxRetryAfterMs: 1_000,
  connectMs: 5_000,
  firstTokenMs: 20_000,
  idleMs: 20_000,
  totalMs: 60_000,
  eventChars: 65_536,
  answerBytes: 65_536,
}

const dir = shared(tempDir)
const reference = shared(async () => openReference(await buildTextBundle(dir.path, { adapter: false })))
const bridge = shared(() => startTestBridge({ bundle: reference.bundle, stateDir: join(dir.path, 'bridge') }))
const model = shared(() => loadTextModel(reference.bundle, reference.manifest))
let prompt: Prompt
let promptIds: readonly number[]
beforeAll(async () => {
  prompt = new Prompt({ kind: 'chat', messages: [{ role: 'user', content: 'Where does the river rise?' }] })
  promptIds = await prompt.idsFor(model, '', never)
})

const never = new AbortController().signal
const sampling = { temperature: 0.9, topK: 0, topP: 0.95, presencePenalty: 1.5, frequencyPenalty: 0.5, seed: 11 }

const endpointAt = (
  origin: string | undefined,
  limits: Partial<UpstreamLimits> = {},
  modelId = bridge.modelId,
  leavingOf: LeavingOf = leftByClients,
) =>
  bridgeLlm({
    model,
    modelId,
    bridge: () => (origin === undefined ? undefined : { origin, credentials: undefined, connections: new KeptConnections() }),
    limits: { ...testLimits, ...limits },
    leavingOf,
    clock: systemClock,
    random: { next: () => 0 },
    logger: silentLogger(),
  })
type Llm = ReturnType<typeof endpointAt>

const requestOf = (request: Partial<AnswerRequest> = {}): AnswerRequest => ({
  prompt,
  sampling,
  stop: [],
  client: 'app',
  maxTokens: 12,
  ...request,
})

async function deltasOf(llm: Llm, request: Partial<AnswerRequest> = {}, signal = never): Promise<TokenDelta[]> {
  const deltas: TokenDelta[] = []
  for await (const delta of llm.answer(requestOf(request), signal)) deltas.push(delta)
  return deltas
}
const tokensOf = (deltas: readonly TokenDelta[]) => deltas.flatMap(({ tokens }) => tokens)

describe("the bridge's own model", () => {
  it('answers with the tokens of the reference, from its start or after tokens of another endpoint', async () => {
    const llm = endpointAt(bridge.httpUrl)
    const expected = await reference.answer(promptIds, sampling, 12)
    const whole = await deltasOf(llm)
    expect(tokensOf(whole)).toEqual(expected)
    expect(whole.at(-1)).toMatchObject({ end: 'length', source: { kind: 'bridge' } })
    for (const from of [1, 7]) {
      const answered = { model, ids: expected.slice(0, from) }
      expect(tokensOf(await deltasOf(llm, { answered, maxTokens: 12 - from }))).toEqual(expected.slice(from))
    }
  })

  it('reports the log probabilities of its tokens', async () => {
    const deltas = await deltasOf(endpointAt(bridge.httpUrl), { logprobs: 3, maxTokens: 5 })
    const scored = deltas.flatMap(({ logprobs }) => logprobs ?? [])
    expect(scored.map(({ token }) => token)).toEqual(tokensOf(deltas))
    for (const { logprob, top } of scored) {
      expect(top).toHaveLength(3)
      expect(top.map((each) => each.logprob)).toEqual(top.map((each) => each.logprob).sort((a, b) => b - a))
      expect(logprob).toBeLessThanOrEqual(top[0]!.logprob)
    }
  })

  it('ends where its context is full', async () => {
    const room = model.dims.contextLimit - promptIds.length
    const deltas = await deltasOf(endpointAt(bridge.httpUrl), {
      ignoreEos: true,
      sampling: greedy,
      maxTokens: room + 50,
      answered: { model, ids: Array.from({ length: room - 3 }, () => 5) },
    })
    expect(tokensOf(deltas)).toHaveLength(3)
    expect(deltas.at(-1)?.end).toBe('length')
  })

  it('stops computing an answer that is left, as one that is canceled', async () => {
    const llm = endpointAt(bridge.httpUrl)
    const long = requestOf({ ignoreEos: true, maxTokens: 400 })
    const canceled = new AbortController()
    for (const leave of [true, false]) {
      const answer = llm.answer(long, canceled.signal)
      await answer.next()
      expect((await healthOf(bridge)).kvBytes).toBeGreaterThan(0)
      if (leave) await answer.return()
      else {
        canceled.abort(new Error('lost the race'))
        await expect(answer.next()).rejects.toThrow('lost the race')
      }
      await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
      const { tokens } = (await healthOf(bridge)).serving
      await new Promise((resolve) => setTimeout(resolve, 50))
      expect((await healthOf(bridge)).serving.tokens).toBe(tokens)
    }
  })

  it('is resumed after connections that break, each token once and the same', async () => {
    await using relay = await startRelay(Number(new URL(bridge.httpUrl).port))
    const disclosures = memoryDisclosures(silentLogger())
    const llm = endpointAt(`http://127.0.0.1:${relay.port}`, {}, bridge.modelId, disclosures.text('bridge'))
    const tokens: number[] = []
    for await (const delta of llm.answer(requestOf({ ignoreEos: true, maxTokens: 40 }), never)) {
      const before = tokens.length
      tokens.push(...delta.tokens)
      for (const at of [3, 4, 20]) if (before < at && tokens.length >= at) relay.cut()
    }
    expect(relay.connections.length).toBeGreaterThan(1)
    const whole = await deltasOf(endpointAt(bridge.httpUrl), { ignoreEos: true, maxTokens: 40 })
    expect(tokens).toEqual(tokensOf(whole))
    // Each stream is a request that the ledger knows.
    const entries = disclosures.list({ limit: 9 }).disclosures
    expect(entries).toMatchObject([{ content: 'text', way: 'bridge', tokens: 40, state: 'ended' }])
    expect(entries[0]!.requests).toBeGreaterThan(1)
  })

  it('is refused where the bridge serves another model, or has no address yet', async () => {
    const modelId = bridge.modelId.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))
    await expect(deltasOf(endpointAt(bridge.httpUrl, {}, modelId))).rejects.toMatchObject({
      code: 'BUNDLE_MISMATCH',
      hint: expect.stringContaining('must serve the bundle of this device'),
    })
    await expect(deltasOf(endpointAt(undefined))).rejects.toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
  })
})

describe('a bridge that fails', () => {
  const servers: AsyncDisposable[] = []
  afterEach(async () => {
    for (const server of servers.splice(0)) await server[Symbol.asyncDispose]()
  })
  async function scripted(...scripts: Parameters<typeof scriptedUpstream>) {
    const server = await scriptedUpstream(...scripts)
    servers.push(server)
    return server
  }
  const llmAt = async (script: (response: ServerResponse, request: Received) => void, limits: Partial<UpstreamLimits> = {}) =>
    endpointAt(new URL((await scripted(script)).url).origin, limits)
  const event = (total: number, token_ids: number[], fields: object = {}) =>
    `id: cmpl-1/${total}\ndata: ${JSON.stringify({ model: 'tiny-llama', choices: [{ index: 0, text: '', token_ids }], ...fields })}\n\n`
  const last = `data: ${JSON.stringify({ model: 'tiny-llama', choices: [{ index: 0, text: '', finish_reason: 'length' }] })}\n\n`
  const sending =
    (...events: string[]) =>
    (response: ServerResponse) => {
      startStream(response, ...events)
      response.end()
    }

  it('is asked with nothing but token ids, and a name of its own for the client', async () => {
    const server = await scripted(sending(event(1, [5]), last))
    await deltasOf(endpointAt(new URL(server.url).origin), { answered: { model, ids: [7, 8] }, stop: ['end'], tokensPerS: 5 })
    const { path, body } = server.requests[0]!
    const brim = body.brim as { prompt_ids: string }
    expect(path).toBe('/v1/completions')
    expect(unpackIds(brim.prompt_ids, model.dims.vocab)).toEqual([...promptIds, 7, 8])
    expect(body).toMatchObject({ model: bridge.modelId, max_tokens: 12, brim: { answered: 2, tokens_per_s: 5 } })
    expect(body).not.toHaveProperty('stop')
    expect(body.user).not.toContain('app')
  })

  it('by sending events again has no effect', async () => {
    const llm = await llmAt(sending(event(2, [5, 6]), event(2, [5, 6]), event(3, [6, 7]), event(3, [7]), last))
    expect(tokensOf(await deltasOf(llm))).toEqual([5, 6, 7])
  })

  it('in the middle of an answer is asked for the rest, after the last event', async () => {
    const breaking = sending(event(1, [5]), event(2, [6]))
    const server = await scripted(breaking, failing(503), sending(event(2, [6]), event(3, [7]), last))
    expect(tokensOf(await deltasOf(endpointAt(new URL(server.url).origin)))).toEqual([5, 6, 7])
    expect(server.requests.map(({ path, headers }) => [path, headers['last-event-id']])).toEqual([
      ['/v1/completions', undefined],
      ['/v1/answers/cmpl-1/events', 'cmpl-1/2'],
      ['/v1/answers/cmpl-1/events', 'cmpl-1/2'],
    ])
  })

  it.each<[string, string[], object]>([
    ['leaves events out', [event(1, [5]), event(4, [7])], { code: 'UPSTREAM_FAILED', message: /left out 2 tokens/ }],
    ['ends its stream', [event(1, [5])], { code: 'LINK_LOST' }],
    ['sends what is no event', [event(1, [5]), 'data: {"choices": 5}\n\n'], { message: /cannot be read/ }],
    ['sends broken JSON', ['data: {"choi\n\n'], { message: /cannot be read/ }],
    ['sends tokens that the vocabulary lacks', [event(1, [1_000_000])], { message: /token id 1000000/ }],
    ['answers with another model', [event(1, [5], { model: 'other' })], { code: 'BUNDLE_MISMATCH', message: /the model other/ }],
    ['reports an error', ['data: {"error": {"message": "no memory"}}\n\n'], { message: /reports: no memory/ }],
    [
      'stops without an end-of-text token',
      [event(1, [5]), last.replace('length', 'stop')],
      { message: /without an end-of-text token/ },
    ],
  ])('is an error where it %s', async (_, events, { message, ...error }: { message?: RegExp }) => {
    const expected = { ...error, ...(message ? { message: expect.stringMatching(message) } : {}) }
    await expect(deltasOf(await llmAt(sending(...events)))).rejects.toMatchObject(expected)
  })

  it('by never answering, or falling silent after some tokens, is given up', async () => {
    await expect(deltasOf(await llmAt(() => {}, { firstTokenMs: 50 }))).rejects.toMatchObject({
      message: expect.stringContaining('sent no token within 0.05 s'),
    })
    const silent = await llmAt((response) => startStream(response, event(2, [5, 6])), { idleMs: 50 })
    const tokens: number[] = []
    await expect(async () => {
      for await (const delta of silent.answer(requestOf(), never)) tokens.push(...delta.tokens)
    }).rejects.toMatchObject({ message: expect.stringContaining('sent nothing for 0.05 s') })
    expect(tokens).toEqual([5, 6])
  })

  it.each([
    [429, 'QUOTA_EXCEEDED', 'QUOTA_EXCEEDED'],
    [429, 'QUEUE_FULL', 'QUEUE_FULL'],
    [400, 'CONTEXT_OVERFLOW', 'CONTEXT_OVERFLOW'],
    [400, 'REQUEST_INVALID', 'UPSTREAM_FAILED'],
    [401, 'NOT_AUTHORIZED', 'NOT_AUTHORIZED'],
    [503, 'MODEL_MISSING', 'BUNDLE_MISMATCH'],
  ])('with status %i and %s is %s', async (status, code, expected) => {
    const refused = failing(status, {}, JSON.stringify({ error: { message: 'no', code } }))
    await expect(deltasOf(await llmAt(refused))).rejects.toMatchObject({ code: expected })
  })
})
