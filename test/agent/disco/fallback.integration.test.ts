import { beforeAll, describe, expect, it } from 'vitest'
import type { LocalModel } from '../../../agent/slm/local-model.ts'
import type { AnswerReport } from '../../../core/answer/endpoint/report.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import type { TextTokenizer } from '../../../core/model/text/tokenizer.ts'
import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { type FallbackDevice, startFallbackWorld } from '../../support/fallback-world.ts'
import { postJson } from '../../support/post-json.ts'
import { shared } from '../../support/shared.ts'

const messages = [{ role: 'user', content: 'Tell me a story about a king.' }]
const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 5 }
/** Tokens of the answer when its bridge stops. */
const tokensBefore = 9

const world = shared(startFallbackWorld)
let promptIds: number[]
/** Position at which the bridge stops. */
let midAnswer: number
beforeAll(async () => {
  promptIds = world.text.tokenizer.encode(world.text.chatTemplate!.render(messages), { addSpecialTokens: false })
  // Prefill gives the first token, and each token's row the next.
  midAnswer = promptIds.length + tokensBefore - 1
})

interface Answer {
  choices: { message: { content: string }; finish_reason: string }[]
  usage: { prompt_tokens: number; completion_tokens: number; total_tokens: number }
  brim: AnswerReport & { tokenIds: number[] }
  error?: { code: string; message: string; param: string | null; hint?: string }
}

const post = (device: FallbackDevice, fields: object = {}, path = 'chat/completions') =>
  postJson(`${device.api.url}/v1/${path}`, {
    ...(path === 'chat/completions' ? { messages } : {}),
    max_tokens: 60,
    temperature: 0,
    brim: { fallback: 'slm', token_ids: true },
    ...fields,
  })
const whole = async (...request: Parameters<typeof post>) => (await (await post(...request)).json()) as Answer

async function streamed(device: FallbackDevice, fields: object = {}) {
  const events: { choices?: { delta: { content?: string } }[]; brim?: Answer['brim']; error?: { code: string } }[] = []
  for await (const data of readSse((await post(device, { stream: true, ...fields })).body!))
    if (data !== '[DONE]') events.push(JSON.parse(data))
  const text = events.map(({ choices }) => choices?.[0]?.delta.content ?? '').join('')
  return { text, last: events.at(-1)! }
}

const fieldsOf = ({ temperature, seed }: Sampling) => ({ temperature, seed })
const read = (tokenizer: TextTokenizer, ids: readonly number[], before: readonly number[] = []) => {
  const detokenizer = tokenizer.detokenizer()
  for (const id of before) detokenizer.push(id)
  return ids.map((id) => detokenizer.push(id)).join('')
}
const alone = (model: LocalModel, prefix: readonly number[], tokens: number, sampling = greedy) =>
  referenceAnswer(model.chain, prefix, sampling, tokens, model.chain.manifest.tokens.eos)

describe('an answer whose last bridge fails continues with the small model of the same vocabulary', () => {
  it.each([
    ['greedy', greedy],
    ['sampled', sampled],
  ])('from the same tokens, %s', async (_, sampling) => {
    await using device = await world.startDevice({ until: midAnswer, local: world.deep })
    const { choices, usage, brim } = await whole(device, fieldsOf(sampling))
    const [hat, slm] = brim.sources
    expect(brim.sources).toEqual([
      { from: 0, tokens: expect.any(Number), source: 'hat', model: 'brim-demo' },
      { from: hat!.tokens, tokens: expect.any(Number), source: 'slm', model: 'brim-demo-slm-deep' },
    ])
    const before = brim.tokenIds.slice(0, hat!.tokens)
    expect(before).toHaveLength(tokensBefore)
    expect(before).toEqual(await referenceAnswer(world.hat.chain, promptIds, sampling, before.length, []))
    const after = brim.tokenIds.slice(hat!.tokens)
    expect(after).toEqual(await alone(world.deep, [...promptIds, ...before], 60 - before.length, sampling))
    expect(after).toHaveLength(slm!.tokens)
    expect(after.length).toBeGreaterThan(1)
    expect(choices[0]!.message.content).toBe(read(world.text.tokenizer, brim.tokenIds))
    expect(usage).toEqual({
      prompt_tokens: promptIds.length,
      completion_tokens: brim.tokenIds.length,
      total_tokens: promptIds.length + brim.tokenIds.length,
    })
    expect(brim).toMatchObject({
      mode: 'hat',
      fallback: { code: 'LINK_LOST', message: expect.stringContaining('no bridge took it over in 0.1 s') },
      tbtMs: { p50: expect.any(Number), p95: expect.any(Number) },
    })
    // The wait for a bridge is part of the gap at the seam: 50 ms before the second attempt.
    expect(brim.tpotMs! * (brim.tokenIds.length - 1)).toBeGreaterThan(45)
    expect(device.logged).toContainEqual(expect.objectContaining({ level: 40, sources: brim.sources, fallback: brim.fallback }))
  })

  it('with the same text streamed as whole', async () => {
    await using one = await world.startDevice({ until: midAnswer, local: world.deep })
    await using other = await world.startDevice({ until: midAnswer, local: world.deep })
    const { choices, brim } = await whole(one)
    const { text, last } = await streamed(other)
    expect(text).toBe(choices[0]!.message.content)
    expect(last.brim).toMatchObject({ sources: brim.sources, tokenIds: brim.tokenIds, fallback: { code: 'LINK_LOST' } })
  })

  it('to its end of text, its token limit, or a stop string across the seam', async () => {
    const ask = async (fields: object) => {
      await using device = await world.startDevice({ until: midAnswer, local: world.deep })
      return await whole(device, { ...fieldsOf(sampled), ...fields })
    }
    const full = await ask({ max_tokens: 400 })
    const { tokenIds, sources } = full.brim
    expect(full.choices[0]!.finish_reason).toBe('stop')
    expect(world.deep.chain.manifest.tokens.eos).toContain(tokenIds.at(-1))
    const seam = sources[1]!.from
    const short = await ask({ max_tokens: seam + 2 })
    expect(short.choices[0]!.finish_reason).toBe('length')
    expect(short.brim.tokenIds).toEqual(tokenIds.slice(0, seam + 2))
    // The string begins before the seam and ends after it.
    const text = full.choices[0]!.message.content
    const at = read(world.text.tokenizer, tokenIds.slice(0, seam)).length
    const stop = text.slice(at - 3, at + 3)
    expect(text.indexOf(stop)).toBe(at - 3)
    const stopped = await ask({ max_tokens: 400, stop })
    expect(stopped.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: text.slice(0, at - 3) } })
  })

  it('for concurrent answers, each as if it were alone', async () => {
    const seeds = [1, 2, 3, 4]
    await using device = await world.startDevice({ until: midAnswer, local: world.deep })
    const answers = await Promise.all(seeds.map((seed) => whole(device, { temperature: 0.8, seed })))
    for (const [at, { brim }] of answers.entries()) {
      const sampling = { ...sampled, seed: seeds[at]! }
      const { from: seam } = brim.sources.find(({ source }) => source === 'slm')!
      const prefix = [...promptIds, ...brim.tokenIds.slice(0, seam)]
      expect(brim.tokenIds.slice(seam)).toEqual(await alone(world.deep, prefix, 60 - seam, sampling))
    }
    expect(device.heldBytes()).toBe(0)
  })
})

describe('an answer whose last bridge fails continues with a small model of another vocabulary', () => {
  it('from the same text', async () => {
    await using device = await world.startDevice({ until: midAnswer, local: world.other })
    const { text, last } = await streamed(device, fieldsOf(sampled))
    const { sources, tokenIds } = last.brim!
    const [hat, slm] = sources
    expect([hat!.source, slm!.source, slm!.model]).toEqual(['hat', 'slm', 'brim-demo-slm-other'])
    const before = read(world.text.tokenizer, tokenIds.slice(0, hat!.tokens))
    expect(text.startsWith(before)).toBe(true)
    const { tokenizer, chatTemplate } = world.other.text
    const encode = (part: string) => tokenizer.encode(part, { addSpecialTokens: false })
    const prefix = [...encode(chatTemplate!.render(messages)), ...encode(before)]
    const after = tokenIds.slice(hat!.tokens)
    expect(after).toEqual(await alone(world.other, prefix, 60 - hat!.tokens, sampled))
    expect(text).toBe(before + read(tokenizer, after, encode(before)))
    expect(text).not.toContain('\ufffd')
  })

  it.each([
    ['text', 'Once upon a time'],
    ['tokens', () => world.text.tokenizer.encode('Once upon a time')],
  ])('for a completion whose prompt is %s', async (_, prompt) => {
    await using device = await world.startDevice({ until: 0, local: world.other })
    const fields = { prompt: typeof prompt === 'string' ? prompt : prompt(), max_tokens: 12 }
    const { brim } = await whole(device, fields, 'completions')
    expect(brim.tokenIds).toEqual(await alone(world.other, world.other.text.tokenizer.encode('Once upon a time'), 12))
  })
})

describe('an answer without any bridge', () => {
  it('is made by the small model alone', async () => {
    await using device = await world.startDevice({ until: 0, local: world.deep })
    const { choices, usage, brim } = await whole(device)
    const expected = await alone(world.deep, promptIds, 60)
    expect(brim).toMatchObject({
      mode: 'slm',
      tokenIds: expected,
      sources: [{ from: 0, tokens: expected.length, source: 'slm', model: 'brim-demo-slm-deep' }],
      fallback: { code: 'BRIDGE_UNREACHABLE' },
      acceptLength: null,
      rounds: 0,
      bytesUp: 0,
    })
    expect(brim.ttftMs).toBeGreaterThan(0)
    expect(usage.completion_tokens).toBe(expected.length)
    expect(choices[0]!.message.content).toBe(read(world.text.tokenizer, expected))
    expect((await streamed(device)).text).toBe(choices[0]!.message.content)
  })

  it('fails naming both lengths when the prompt exceeds the small model’s context', async () => {
    await using device = await world.startDevice({ until: 0, local: world.deep })
    const { status, body } = await post(device, { prompt: Array.from({ length: 700 }, () => 5) }, 'completions').then(
      async (response) => ({ status: response.status, body: (await response.json()) as Answer }),
    )
    expect(status).toBe(503)
    expect(body.error).toMatchObject({ code: 'BRIDGE_UNREACHABLE', message: expect.stringMatching(/700 tokens.*512 tokens/) })
  })

  it('ends with the small model’s context, even if the LLM’s holds more', async () => {
    await using device = await world.startDevice({ until: 0, local: world.deep })
    const prompt = Array.from({ length: 505 }, (_, at) => 300 + at)
    const { choices, brim } = await whole(device, { prompt, max_tokens: 50 }, 'completions')
    expect(brim.tokenIds.length).toBeLessThanOrEqual(7)
    expect([brim.tokenIds.length, choices[0]!.finish_reason]).toEqual([7, 'length'])
  })
})

describe('without permission to change the model', () => {
  it.each([undefined, { fallback: 'none' }])('an answer fails with its last bridge (brim: %j)', async (brim) => {
    await using device = await world.startDevice({ until: midAnswer, local: world.deep })
    expect((await streamed(device, { brim })).last.error).toMatchObject({ code: 'LINK_LOST' })
    const { error } = await whole(device, { brim })
    expect(error).toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
  })

  it('the report names HAT as the only source', async () => {
    await using device = await world.startDevice({ until: Number.POSITIVE_INFINITY, local: world.deep })
    const { brim } = await whole(device, { max_tokens: 20 })
    expect(brim).toMatchObject({
      mode: 'hat',
      sources: [{ from: 0, tokens: 20, source: 'hat', model: 'brim-demo' }],
      fallback: null,
    })
  })

  it('a device without a small model rejects the request before any work', async () => {
    await using device = await world.startDevice({ until: 0 })
    const response = await post(device)
    expect(response.status).toBe(400)
    expect(((await response.json()) as Answer).error).toMatchObject({
      code: 'REQUEST_INVALID',
      param: 'brim.fallback',
      hint: expect.stringContaining('--slm'),
    })
    expect((await whole(device, { brim: { fallback: 'llm' } })).error).toMatchObject({ param: 'brim.fallback' })
  })
})

describe('a small model without a chat template', () => {
  it('of another vocabulary makes chats with fallback fail before any work, and completions succeed', async () => {
    const withoutTemplate = { ...world.other, text: { ...world.other.text, chatTemplate: undefined } }
    await using device = await world.startDevice({ until: 0, local: withoutTemplate })
    expect((await whole(device)).error).toMatchObject({ code: 'CHAT_TEMPLATE_INVALID', param: 'brim.fallback' })
    expect((await whole(device, { brim: {} })).error).toMatchObject({ code: 'BRIDGE_UNREACHABLE' })
    expect((await whole(device, { prompt: 'Once' }, 'completions')).brim.mode).toBe('slm')
  })

  it('of the same vocabulary reads the LLM’s tokens', async () => {
    await using device = await world.startDevice({
      until: 0,
      local: { ...world.deep, text: { ...world.deep.text, chatTemplate: undefined } },
    })
    expect((await whole(device)).brim.tokenIds).toEqual(await alone(world.deep, promptIds, 60))
  })
})

/** The model without end-of-text tokens. */
function endless(model: LocalModel): LocalModel {
  return { ...model, text: { ...model.text, eos: [] } }
}

describe('a client that disconnects while the small model answers', () => {
  it.each([true, false])('stops the model and frees its memory (stream: %s)', async (stream) => {
    const leaving = new AbortController()
    let steps = 0
    let held = 0
    await using device: FallbackDevice = await world.startDevice({
      until: midAnswer,
      local: endless(world.deep),
      beforeStep() {
        steps += 1
        if (steps !== 3) return
        held = device.heldBytes()
        leaving.abort()
      },
    })
    const body = JSON.stringify({ messages, max_tokens: 400, temperature: 0, stream, brim: { fallback: 'slm' } })
    const headers = { 'content-type': 'application/json' }
    const url = `${device.api.url}/v1/chat/completions`
    const request = fetch(url, { method: 'POST', headers, body, signal: leaving.signal }).then((response) => response.text())
    await expect(request).rejects.toThrow()
    expect(held).toBeGreaterThan(0)
    await expect.poll(() => device.heldBytes()).toBe(0)
    await expect.poll(() => device.logged.map(({ msg }) => msg)).toContain('the client disconnected before the end of its answer')
  })
})
