import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import { beforeAll, describe, expect, it } from 'vitest'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import type { KeyRole } from '../../../core/wire/protocol/http/admin.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { healthOf, startTestBridge } from '../../support/bridge.ts'
import { postJson } from '../../support/post-json.ts'
import { openReference } from '../../support/reference-model.ts'
import { runBrim } from '../../support/run-brim.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const messages = [{ role: 'user' as const, content: 'Where does the river rise?' }]

const dir = shared(tempDir)
const reference = shared(async () => openReference(await buildTextBundle(dir.path, { adapter: false })))
const bridge = shared(() => startTestBridge({ bundle: reference.bundle, stateDir: join(dir.path, 'bridge'), auth: true }))
let chatIds: number[]
beforeAll(() => {
  chatIds = reference.chatIds(messages)
})

/** Identities of the bridge, as the commands on its machine change them. */
function withStore<T>(act: (store: ReturnType<typeof openIdentityStore>) => T): T {
  const store = openIdentityStore(join(dir.path, 'bridge'))
  try {
    return act(store)
  } finally {
    store.close()
  }
}
const newKey = (role: KeyRole, requestsPerMinute: number | null = null) =>
  withStore((store) => store.createKey('operator:test', `a-${role}`, role, { requestsPerMinute, jobsPerDay: null }))

const clientWith = (apiKey: string) => new OpenAI({ baseURL: `${bridge.httpUrl}/v1`, apiKey, maxRetries: 0 })
const post = (body: unknown, key: string, headers: Record<string, string> = {}, signal: AbortSignal | null = null) =>
  postJson(`${bridge.httpUrl}/v1/chat/completions`, body, { authorization: `Bearer ${key}`, ...headers }, signal)

describe('the unmodified openai package at a bridge', () => {
  let openai: OpenAI
  beforeAll(() => {
    openai = clientWith(newKey('client').key)
  })

  it('gets the answer of the reference, whole and streamed', async () => {
    const expected = reference.textOf(await reference.answer(chatIds, greedy, 12))
    const options = { model: 'tiny-llama', messages, max_tokens: 12, temperature: 0 }
    const answer = await openai.chat.completions.create(options)
    expect(answer.choices[0]).toMatchObject({ message: { content: expected }, finish_reason: 'length' })
    expect(answer.usage).toEqual({ prompt_tokens: chatIds.length, completion_tokens: 12, total_tokens: chatIds.length + 12 })
    expect(answer).toMatchObject({ model: 'tiny-llama', brim: { mode: 'bridge' }, _request_id: expect.stringMatching(/^req_/) })
    const chunks = []
    const stream_options = { include_usage: true }
    for await (const chunk of await openai.chat.completions.create({ ...options, model: 'brim', stream: true, stream_options }))
      chunks.push(chunk)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(expected)
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 12 } })
  })

  it('gets several answers at once, each with noise of its own, penalties and log probabilities', async () => {
    const sampling = { temperature: 0.8, topK: 0, topP: 1, minP: 0.01, presencePenalty: 0.3, frequencyPenalty: 0.6 }
    const expected: string[] = []
    for (let seed = 42; seed < 45; seed++)
      expected.push(reference.textOf(await reference.answer(chatIds, { ...sampling, seed }, 10)))
    const request = {
      model: 'brim',
      messages,
      max_tokens: 10,
      n: 3,
      seed: 42,
      temperature: 0.8,
      presence_penalty: 0.3,
      frequency_penalty: 0.6,
      ...{ min_p: 0.01 },
      logprobs: true,
    }
    const { choices } = await openai.chat.completions.create(request)
    expect(choices.map(({ index, message }) => [index, message.content])).toEqual(expected.map((text, index) => [index, text]))
    expect(choices.map(({ logprobs }) => logprobs!.content!.length)).toEqual([10, 10, 10])
    const contents = ['', '', '']
    const order: number[] = []
    for await (const { choices: pieces } of await openai.chat.completions.create({ ...request, stream: true }))
      for (const { index, delta } of pieces) {
        order.push(index)
        contents[index] += delta.content ?? ''
      }
    expect(contents).toEqual(expected)
    // One after the other, the indices would never decrease.
    expect(order.some((index, at) => at > 0 && index < order[at - 1]!)).toBe(true)
  })

  it('completes texts, stops at a stop string, and lists the models', async () => {
    const full = reference.textOf(await reference.answer(reference.tokenizer.encode('The old mill'), greedy, 24))
    const stop = full.slice(4, 6)
    const { choices } = await openai.completions.create({
      model: 'brim',
      prompt: 'The old mill',
      max_tokens: 24,
      temperature: 0,
      stop,
    })
    expect(choices[0]).toMatchObject({ text: full.slice(0, full.indexOf(stop)), finish_reason: 'stop' })
    expect((await openai.models.list()).data.map(({ id }) => id)).toEqual(['tiny-llama', 'brim'])
    expect(await openai.models.retrieve('brim')).toMatchObject({ owned_by: 'brim' })
  })

  it('recognises errors by status, code and type', async () => {
    const ask = (fields: object) => openai.chat.completions.create({ model: 'brim', messages, ...fields })
    const type = 'invalid_request_error'
    await expect(ask({ model: 'gpt-none' })).rejects.toMatchObject({ status: 404, code: 'model_not_found', param: 'model', type })
    await expect(ask({ tools: [{ type: 'function' }] })).rejects.toMatchObject({ status: 400, param: 'tools.0.function', type })
    await expect(ask({ max_tokens: 600 })).rejects.toMatchObject({ status: 400, code: 'context_length_exceeded', type })
    const many = Array.from({ length: 4_097 }, () => messages[0]!)
    await expect(ask({ messages: many })).rejects.toMatchObject({ status: 400, param: 'messages' })
    await expect(clientWith('wrong').models.list()).rejects.toMatchObject({ status: 401, code: 'NOT_AUTHORIZED', type })
    await expect(openai.models.retrieve('none')).rejects.toMatchObject({ status: 404, code: 'model_not_found' })
  })
})

describe('a request to the bridge', () => {
  it('refers to responses of its own key alone', async () => {
    const [own, other] = [clientWith(newKey('client').key), clientWith(newKey('client').key)]
    const asked = { model: 'brim', input: 'Hi', max_output_tokens: 2 }
    const { id } = await own.responses.create(asked)
    await expect(other.responses.retrieve(id)).rejects.toMatchObject({ status: 404, code: 'ANSWER_UNKNOWN' })
    await expect(other.responses.delete(id)).rejects.toMatchObject({ status: 404 })
    await expect(other.responses.create({ ...asked, previous_response_id: id })).rejects.toMatchObject({ status: 400 })
    await expect(clientWith('none').responses.retrieve(id)).rejects.toMatchObject({ status: 401 })
    expect((await own.responses.create({ ...asked, previous_response_id: id })).previous_response_id).toBe(id)
  })

  it.each(['-0.1', '-1', '1e9', 'NaN', 'fast', ''])('is refused with the rate "%s" in its header', async (rate) => {
    const response = await post({ messages, max_tokens: 2 }, newKey('client').key, { 'x-brim-tokens-per-s': rate })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'REQUEST_INVALID', param: 'x-brim-tokens-per-s' } })
  })

  it('may name a rate, in a header or in its body', async () => {
    const { key } = newKey('client')
    const inHeader = await post({ messages, max_tokens: 2 }, key, { 'x-brim-tokens-per-s': '12.5' })
    const inBody = await post({ messages, max_tokens: 2, brim: { tokens_per_s: 3 } }, key)
    expect([inHeader.status, inBody.status]).toEqual([200, 200])
    expect(inBody.headers.get('x-brim-ignored')).toBeNull()
  })

  it('has its id in every response', async () => {
    const { key } = newKey('client')
    for (const body of [{ messages, max_tokens: 2 }, { messages, max_tokens: 2, stream: true }, { messages: [] }]) {
      const response = await post(body, key, { 'x-request-id': 'trace-1' })
      await response.text()
      expect(response.headers.get('x-request-id')).toBe('trace-1')
    }
  })

  it('that is no JSON, or has no content type for JSON, is refused in the form of OpenAI', async () => {
    const { key } = newKey('client')
    const send = async (body: string, type: string) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': type }
      const response = await fetch(`${bridge.httpUrl}/v1/completions`, { method: 'POST', headers, body })
      return { status: response.status, body: await response.json() }
    }
    const refused = { status: 400, body: { error: { type: 'invalid_request_error', code: 'REQUEST_INVALID' } } }
    expect(await send('{', 'application/json')).toMatchObject(refused)
    expect(await send('prompt=x', 'application/x-www-form-urlencoded')).toMatchObject({ ...refused, status: 415 })
  })

  it('ends, and frees its memory, when the client leaves, and when its key is revoked', async () => {
    const leave = new AbortController()
    const { key, id } = newKey('client')
    const endless = { messages, max_tokens: 450, ignore_eos: true, stream: true, n: 2 }
    const left = await post(endless, key, {}, leave.signal)
    await left.body!.getReader().read()
    leave.abort()
    const revoked = await post(endless, key)
    await revoked.body!.getReader().read()
    withStore((store) => store.revokeKey('operator:test', id))
    await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
    expect((await post(endless, key)).status).toBe(401)
  })

  it('leaves nothing in the prefix cache once its key is revoked or has expired, also where it is under way then', async () => {
    const revokeAll = () =>
      withStore((store) => {
        for (const { id } of store.keys()) store.revokeKey('operator:test', id)
      })
    const cachedBytes = async () => (await healthOf(bridge)).keptKvBytes
    revokeAll()
    await expect.poll(cachedBytes).toBe(0)
    const expiring = withStore((store) => store.createKey('operator:test', 'brief', 'client', undefined, 2)).key
    const keys = [newKey('client').key, newKey('client').key]
    for (const key of [expiring, ...keys]) await post({ messages, max_tokens: 2, user: 'u' }, key)
    const kept = await cachedBytes()
    expect(kept).toBeGreaterThan(0)
    await expect.poll(cachedBytes).toBeLessThan(kept)
    expect(await cachedBytes()).toBeGreaterThan(0)
    const running = await post({ messages, max_tokens: 450, ignore_eos: true, stream: true }, keys[0]!)
    await running.body!.getReader().read()
    revokeAll()
    await expect.poll(async () => (await healthOf(bridge)).kvBytes).toBe(0)
    await expect.poll(cachedBytes).toBe(0)
  })
})

describe('without the openai package', () => {
  it('the curl lines of docs/api.md get an answer', async () => {
    const keyFile = join(dir.path, 'app.key')
    writeFileSync(keyFile, newKey('client').key, { mode: 0o600 })
    const page = readFileSync(new URL('docs/api.md', projectRoot), 'utf8')
    const lines = page.split('\n').filter((line) => line.startsWith('curl '))
    expect(lines).toHaveLength(4)
    const outputs: string[] = []
    for (const line of lines) {
      const command = line.replace('http://127.0.0.1:7070', bridge.httpUrl).replace('app.key', keyFile)
      const { stdout } = await promisify(execFile)('bash', ['-c', command], { timeout: 20_000 })
      outputs.push(stdout)
    }
    const [models, chat, response, stream] = outputs
    expect(JSON.parse(models!)).toMatchObject({ object: 'list', data: [{ id: 'tiny-llama' }, { id: 'brim' }] })
    // Sampled: it may end before its limit.
    const { object, choices, usage } = JSON.parse(chat!)
    expect([object, choices[0].finish_reason]).toEqual(['chat.completion', usage.completion_tokens < 16 ? 'stop' : 'length'])
    expect(usage.completion_tokens).toBeGreaterThan(0)
    const { status, usage: used } = JSON.parse(response!)
    expect(status).toBe(used.output_tokens < 16 ? 'completed' : 'incomplete')
    expect(stream).toMatch(/^id: \S+\ndata: \{.*\}\n\n(.*\n)*data: \[DONE\]\n\n$/)
  })

  it('brim ask gets the same answer, and says what failed', async () => {
    const keyFile = join(dir.path, 'ask.key')
    writeFileSync(keyFile, newKey('client').key, { mode: 0o600 })
    const ask = (...more: string[]) =>
      runBrim(['ask', messages[0]!.content, '--bridge', bridge.httpUrl, '--max-tokens', '12', ...more])
    const expected = reference.textOf(await reference.answer(chatIds, greedy, 12))
    const asked = await ask('--api-key-file', keyFile, '--model', 'tiny-llama', '--tokens-per-s', '20')
    expect(asked).toMatchObject({ code: 0, out: `${expected}\n`, err: expect.stringContaining('TTFT') })
    expect(await ask()).toMatchObject({ code: 1, err: expect.stringContaining('NOT_AUTHORIZED') })
    expect(await ask('--api-key-file', keyFile, '--model', 'none')).toMatchObject({
      err: expect.stringContaining('MODEL_UNKNOWN'),
    })
    expect(await ask('--tokens-per-s', '-1')).toMatchObject({ code: 2 })
  })
})

describe('the role client', () => {
  const statusOf = async (path: string, key: string, method = 'GET') => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const body = method === 'GET' ? null : JSON.stringify({})
    return (await fetch(bridge.httpUrl + path, { method, headers, body })).status
  }

  it('asks, and sees nothing else', async () => {
    const { key } = newKey('client')
    expect(await statusOf('/v1/models', key)).toBe(200)
    expect(await statusOf('/v1/whoami', key)).toBe(200)
    for (const path of ['/v1/devices', '/v1/fleet', '/v1/jobs', '/v1/steps', '/v1/bundles', '/v1/admin/keys', '/v1/fleet/events'])
      expect([path, await statusOf(path, key)]).toEqual([path, 403])
    for (const path of ['/v1/jobs', '/v1/admin/keys']) expect([path, await statusOf(path, key, 'POST')]).toEqual([path, 403])
  })

  it.each([
    ['viewer', 403],
    ['operator', 200],
    ['admin', 200],
  ] as const)('is not part of every role: a question of a %s gets %d', async (role, status) => {
    const response = await post({ messages, max_tokens: 2 }, newKey(role).key)
    expect(response.status).toBe(status)
    if (status === 403)
      expect(await response.json()).toMatchObject({ error: { code: 'FORBIDDEN', type: 'invalid_request_error' } })
  })

  it('has quotas, and its questions are not in the audit log', async () => {
    const { key } = newKey('client', 2)
    const statuses = []
    for (let turn = 0; turn < 3; turn++) {
      const response = await post({ messages, max_tokens: 1 }, key)
      statuses.push(response.status)
      if (response.status !== 429) continue
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(await response.json()).toMatchObject({ error: { code: 'QUOTA_EXCEEDED', type: 'rate_limit_error' } })
    }
    expect(statuses).toEqual([200, 200, 429])
    const audited = withStore((store) => store.audit(1_000)).filter(({ action }) => action.includes('completions'))
    expect(audited).toEqual([])
  })
})
