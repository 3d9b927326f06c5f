import { createServer } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { AnswerRequest } from '../../../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../../../core/answer/endpoint/meter.ts'
import { Prompt } from '../../../../core/answer/endpoint/prompt.ts'
import { collectAnswer, streamAnswer } from '../../../../core/answer/endpoint/stream-answer.ts'
import { type UpstreamLimits, type UpstreamOptions, upstreamEndpoint } from '../../../../core/answer/upstream/endpoint.ts'
import { leftByClients } from '../../../../core/answer/upstream/leaving.ts'
import { type Clock, systemClock } from '../../../../core/kit/base/clock.ts'
import { BrimError } from '../../../../core/kit/base/errors.ts'
import { freePort } from '../../../../lab/cluster/free-port.ts'
import { recordingLogger } from '../../../support/recording-logger.ts'
import { failing, finish, piece, scriptedUpstream, sse, startStream, streamed } from '../../../support/scripted-upstream.ts'
import { silentLogger } from '../../../support/silent-logger.ts'

type Scripts = Parameters<typeof scriptedUpstream>

const testLimits: UpstreamLimits = {
  requests: 4,
  queue: 4,
  retries: 2,
  maxRetryAfterMs: 10_000,
  connectMs: 5_000,
  firstTokenMs: 5_000,
  idleMs: 5_000,
  totalMs: 20_000,
  eventChars: 65_536,
  answerBytes: 65_536,
}

const opened: AsyncDisposable[] = []
afterEach(async () => {
  for (const server of opened.splice(0)) await server[Symbol.asyncDispose]()
})

async function upstream(...scripts: Scripts) {
  const server = await scriptedUpstream(...scripts)
  opened.push(server)
  return server
}

const chat = new Prompt({ kind: 'chat', messages: [{ role: 'user', content: 'Where does the river rise?' }] })
const sampling = { temperature: 0.5, topP: 1, topK: 0, seed: 7 }
const asked: AnswerRequest = { prompt: chat, sampling, stop: [], client: 'app' }

const endpointAt = (url: string, limits: Partial<UpstreamLimits> = {}, options: Partial<UpstreamOptions> = {}) =>
  upstreamEndpoint({
    url,
    model: 'large',
    key: () => undefined,
    leavingOf: leftByClients,
    limits: { ...testLimits, ...limits },
    clock: systemClock,
    // Without a random wait before attempts.
    random: { next: () => 0 },
    logger: silentLogger(),
    ...options,
  })

const never = new AbortController().signal
const meter = new AnswerMeter(systemClock)
const answerOf = (endpoint: ReturnType<typeof endpointAt>, request: Partial<AnswerRequest> = {}, signal = never) =>
  collectAnswer(streamAnswer({ endpoint, clock: systemClock, meter }, { ...asked, ...request }, signal))

const failure = (code: string, message: string) =>
  expect.objectContaining({ code, message: expect.stringContaining(message) as unknown })

const closed = (server: { readonly connections: number }) => expect.poll(() => server.connections).toBe(0)

describe('the connections of an upstream', () => {
  it('serve one answer after the other, and as many as there are answers at once', async () => {
    const server = await upstream(streamed('yes', ' and no'))
    const endpoint = endpointAt(server.url)
    for (let nth = 0; nth < 8; nth++) expect(await answerOf(endpoint)).toMatchObject({ text: 'yes and no' })
    expect(server.opened).toBe(1)
    await Promise.all(Array.from({ length: 8 }, () => answerOf(endpoint)))
    expect(server.opened).toBeLessThanOrEqual(testLimits.requests)
  })

  it('end with an answer that is left, and with a response that has no end', async () => {
    const endless = (response: Parameters<typeof startStream>[0]) => startStream(response, piece('yes'), finish)
    const server = await upstream(endless, (response) => startStream(response, piece('yes')), streamed('no'))
    const endpoint = endpointAt(server.url)
    expect(await answerOf(endpoint)).toMatchObject({ text: 'yes', finishReason: 'stop' })
    await closed(server)
    for await (const _ of endpoint.answer(asked, never)) break
    await closed(server)
    expect(await answerOf(endpoint)).toMatchObject({ text: 'no' })
    expect(server.opened).toBe(3)
  })
})

describe('a request to an upstream', () => {
  it('has OpenAI’s fields, the key, and other settings only where they have an effect', async () => {
    const server = await upstream(streamed('yes'))
    const endpoint = endpointAt(server.url, {}, { key: () => 'secret-key' })
    const answer = await answerOf(endpoint, { maxTokens: 5, stop: ['A', 'B', 'C', 'D', 'E'] })
    expect(answer).toMatchObject({ text: 'yes', finishReason: 'stop', tokens: 1, report: { mode: 'upstream' } })
    const [received] = server.requests
    expect(received).toMatchObject({ path: '/v1/chat/completions', headers: { authorization: 'Bearer secret-key' } })
    expect(received?.body).toEqual({
      model: 'large',
      messages: [{ role: 'user', content: 'Where does the river rise?' }],
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 5,
      temperature: 0.5,
      top_p: 1,
      seed: 7,
      stop: ['A', 'B', 'C', 'D'],
    })
  })

  it('carries extensions, penalties and plain prompts', async () => {
    const server = await upstream((response) => {
      startStream(response, sse({ choices: [{ text: 'yes', finish_reason: 'stop' }] }), sse('[DONE]'))
      response.end()
    })
    const extended = { ...sampling, topK: 40, minP: 0.1, presencePenalty: 0.5, frequencyPenalty: -0.5 }
    const prompt = new Prompt({ kind: 'text', text: 'Once upon' })
    expect((await answerOf(endpointAt(`${server.url}/`), { prompt, sampling: extended })).text).toBe('yes')
    expect(server.requests[0]?.path).toBe('/v1/completions')
    expect(server.requests[0]?.body).toMatchObject({
      prompt: 'Once upon',
      top_k: 40,
      min_p: 0.1,
      presence_penalty: 0.5,
      frequency_penalty: -0.5,
    })
  })

  it('has the beginning of an answer, where the server continues it', async () => {
    const server = await upstream(streamed(' mountains'), (response) => {
      startStream(response, sse({ choices: [{ text: ' time', finish_reason: 'stop' }] }), sse('[DONE]'))
      response.end()
    })
    const endpoint = endpointAt(server.url, {}, { continues: true })
    expect((await answerOf(endpoint, { answered: { text: 'In the' }, maxTokens: 3 })).text).toBe(' mountains')
    expect(server.requests[0]?.body).toMatchObject({
      messages: [
        { role: 'user', content: 'Where does the river rise?' },
        { role: 'assistant', content: 'In the' },
      ],
      continue_final_message: true,
      add_generation_prompt: false,
      max_tokens: 3,
    })
    const prompt = new Prompt({ kind: 'text', text: 'Once' })
    expect((await answerOf(endpoint, { prompt, answered: { text: ' upon a' } })).text).toBe(' time')
    expect(server.requests[1]?.body).toMatchObject({ prompt: 'Once upon a' })
    expect(server.requests[1]?.body).not.toHaveProperty('continue_final_message')
  })

  it('with the beginning of an answer is refused where the server may not continue it', async () => {
    const server = await upstream(streamed('yes'))
    await expect(answerOf(endpointAt(server.url), { answered: { text: 'In the' } })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      param: 'continue_final_message',
    })
    expect(server.requests).toEqual([])
  })

  it.each([
    ['OpenAI', { code: 'context_length_exceeded', message: 'at most 8192 tokens' }],
    ['llama.cpp', { code: 400, type: 'exceed_context_size_error', message: 'at most 8192 tokens' }],
  ])('that is longer than the context is told from others, as %s says it', async (_, error) => {
    const server = await upstream(failing(400, {}, JSON.stringify({ error })))
    await expect(answerOf(endpointAt(server.url))).rejects.toEqual(failure('CONTEXT_OVERFLOW', 'at most 8192 tokens'))
  })

  it('that another model answers is reported with its name, and logged once', async () => {
    const named = (content: string, model: string) => sse({ model, choices: [{ index: 0, delta: { content } }] })
    const server = await upstream((response) => {
      startStream(response, named('In', 'small'), named(' the', 'small'), finish)
      response.end()
    })
    const { logger, lines } = recordingLogger('warn')
    const endpoint = endpointAt(server.url, {}, { logger })
    for (let request = 0; request < 2; request++)
      expect((await answerOf(endpoint)).report.sources).toEqual([{ from: 0, tokens: 2, source: 'upstream', model: 'small' }])
    expect(lines.filter(({ answers }) => answers === 'small')).toHaveLength(1)
  })

  it('ends at a stop string that the server ignores, and closes the connection', async () => {
    const server = await upstream((response) => startStream(response, piece('one t'), piece('wo three'), piece(' four')))
    expect(await answerOf(endpointAt(server.url), { stop: ['two'] })).toMatchObject({ text: 'one ', finishReason: 'stop' })
    await closed(server)
  })
})

describe('before the first token, a request is repeated', () => {
  it.each([
    ['after status 429, when the server says', failing(429, { 'retry-after': '0' })],
    ['after status 503', failing(503, { 'retry-after': '0' }, '{"error":{"message":"Loading model"}}')],
    ['after status 500 with a date', failing(500, { 'retry-after': new Date(0).toUTCString() })],
    ['when the connection breaks', (response) => void response.socket?.destroy()],
    ['when the stream ends early', stream(': hello\n\n')],
  ] satisfies [string, Scripts[number]][])('%s', async (_, script) => {
    const server = await upstream(script, streamed('yes'))
    expect((await answerOf(endpointAt(server.url))).text).toBe('yes')
    expect(server.requests).toHaveLength(2)
  })

  it('while the server refuses connections, as often as the limit allows', async () => {
    const endpoint = endpointAt(`http://127.0.0.1:${await freePort()}/v1`, { retries: 1 })
    await expect(answerOf(endpoint)).rejects.toThrow(failure('UPSTREAM_FAILED', 'cannot be reached'))
  })

  it('no more often than the limit allows', async () => {
    const server = await upstream(failing(503, { 'retry-after': '0' }, '{"error":{"message":"Loading model"}}'))
    await expect(answerOf(endpointAt(server.url))).rejects.toThrow(failure('UPSTREAM_FAILED', 'status 503: Loading model'))
    expect(server.requests).toHaveLength(3)
  })

  it('but not where the server asks for too long a wait, which the client is told', async () => {
    const server = await upstream(failing(429, { 'retry-after': '60' }))
    const refused = expect.objectContaining({ code: 'QUEUE_FULL', retryAfterMs: 60_000 }) as Error
    await expect(answerOf(endpointAt(server.url))).rejects.toThrow(refused)
    expect(server.requests).toHaveLength(1)
  })
})

describe('a failure that would repeat ends the request', () => {
  it.each([
    [
      '400',
      failing(400, {}, '{"error":{"message":"too many tokens"}}'),
      'REQUEST_INVALID',
      'rejects the request: too many tokens',
    ],
    ['401', failing(401, {}, '{"message":"wrong key"}'), 'UPSTREAM_FAILED', 'status 401: wrong key'],
    ['404 with HTML', failing(404, { 'content-type': 'text/html' }, '<html>'), 'UPSTREAM_FAILED', 'responds with status 404'],
    ['an endless error', endlessError, 'UPSTREAM_FAILED', 'responds with status 403'],
    ['HTML', failing(200, { 'content-type': 'text/html' }, '<html>'), 'UPSTREAM_FAILED', 'responds with text/html instead'],
    ['JSON', failing(200, { 'content-type': 'application/json' }, '{}'), 'UPSTREAM_FAILED', 'responds with application/json'],
    ['no content type', failing(200), 'UPSTREAM_FAILED', 'responds with no content type'],
    ['malformed events', stream('data: {"choices"\n\n'), 'UPSTREAM_FAILED', 'none of OpenAI’s API'],
    ['an event of megabytes', stream(`data: ${'x'.repeat(200_000)}`), 'UPSTREAM_FAILED', 'ended its stream in the middle'],
    ['an error event', stream(sse({ error: { message: 'no slot' } })), 'UPSTREAM_FAILED', 'reports: no slot'],
  ] satisfies [string, Scripts[number], string, string][])('%s', async (_, script, code, message) => {
    const server = await upstream(script)
    await expect(answerOf(endpointAt(server.url, { retries: 0 }))).rejects.toThrow(failure(code, message))
    expect(server.requests).toHaveLength(1)
    await closed(server)
  })

  it('a redirect, which would take the key to another server', async () => {
    const other = await upstream(streamed('stolen'))
    const server = await upstream(failing(307, { location: `${other.url}/chat/completions` }))
    const endpoint = endpointAt(server.url, {}, { key: () => 'secret-key' })
    await expect(answerOf(endpoint)).rejects.toThrow(failure('UPSTREAM_FAILED', 'redirects are not followed'))
    expect(other.requests).toEqual([])
  })
})

describe('after the first token', () => {
  it.each([
    ['a stream that ends', stream(piece('one'))],
    ['a connection that breaks', broken],
  ] satisfies [string, Scripts[number]][])('%s fails the answer, and is not repeated', async (_, script) => {
    const server = await upstream(script)
    await expect(answerOf(endpointAt(server.url))).rejects.toThrow(failure('UPSTREAM_FAILED', 'ended its stream in the middle'))
    expect(server.requests).toHaveLength(1)
  })

  it('an endless answer ends at the limit of its size', async () => {
    const server = await upstream(async (response) => {
      startStream(response)
      while (!response.destroyed) {
        response.write(piece('again and again'))
        await new Promise((turn) => setImmediate(turn))
      }
    })
    await expect(answerOf(endpointAt(server.url, { answerBytes: 2_000 }))).rejects.toThrow(
      failure('UPSTREAM_FAILED', 'more than 2000 bytes'),
    )
    await closed(server)
  })
})

describe('a server that is too slow fails the answer, and its connection is closed', () => {
  it.each([
    ['without headers', () => {}, { firstTokenMs: 50 }, 'sent no token within 0.05 s'],
    ['without a token', stream(': keep-alive\n\n', sse({ choices: [] }), false), { firstTokenMs: 50 }, 'sent no token'],
    ['in the middle', stream(piece('one'), '', false), { idleMs: 50 }, 'sent nothing for 0.05 s'],
    ['in all', stream(piece('one'), '', false), { totalMs: 50 }, 'did not finish within 0.05 s'],
  ] satisfies [string, Scripts[number], Partial<UpstreamLimits>, string][])('%s', async (_, script, limits, message) => {
    const server = await upstream(script)
    await expect(answerOf(endpointAt(server.url, limits))).rejects.toThrow(failure('UPSTREAM_FAILED', message))
    expect(server.requests).toHaveLength(1)
    await closed(server)
  })

  it('but not a reader that takes its time', async () => {
    const server = await upstream(streamed('one', ' two'))
    const events = streamAnswer({ endpoint: endpointAt(server.url, { idleMs: 50 }), clock: systemClock, meter }, asked, never)
    const answer = await collectAnswer(events, () => new Promise((resolve) => setTimeout(resolve, 100)))
    expect(answer.text).toBe('one two')
  })

  it('while a connection is being made', async () => {
    // A listener that accepts nothing, once its queue of connections is full.
    const listener = createServer({ pauseOnConnect: true }).listen(0, '127.0.0.1', 1)
    opened.push({ [Symbol.asyncDispose]: async () => void listener.close() })
    // TLS begins with the server's answer to the first message, which never comes.
    await new Promise((resolve) => listener.once('listening', resolve))
    const { port } = listener.address() as { port: number }
    const endpoint = endpointAt(`https://127.0.0.1:${port}/v1`, { connectMs: 50, retries: 0 })
    await expect(answerOf(endpoint)).rejects.toThrow(failure('UPSTREAM_FAILED', 'cannot be reached'))
  })
})

describe('a client that cancels', () => {
  it('closes the connection to the upstream, during the answer and before its first token', async () => {
    for (const script of [stream(piece('one'), '', false), () => {}]) {
      const server = await upstream(script)
      const canceling = new AbortController()
      const answer = answerOf(endpointAt(server.url), {}, canceling.signal)
      const rejected = expect(answer).rejects.toThrow(failure('CANCELED', 'gone'))
      await expect.poll(() => server.requests.length).toBe(1)
      canceling.abort(new BrimError('CANCELED', 'gone'))
      await rejected
      await closed(server)
    }
  })

  it('stops waiting for another attempt', async () => {
    const server = await upstream(failing(503, { 'retry-after': '5' }))
    const canceling = new AbortController()
    const rejected = expect(answerOf(endpointAt(server.url), {}, canceling.signal)).rejects.toThrow(failure('CANCELED', 'gone'))
    await expect.poll(() => server.requests.length).toBe(1)
    canceling.abort(new BrimError('CANCELED', 'gone'))
    await rejected
  })
})

describe('of many requests at once', () => {
  it('as many reach the upstream as the limit allows; the others wait, or are refused', async () => {
    const release: (() => void)[] = []
    const server = await upstream((response) => {
      startStream(response)
      release.push(() => response.end(piece('yes') + finish))
    })
    let timers = 0
    const clock: Clock = {
      nowMs: () => systemClock.nowMs(),
      sleep(ms, signal) {
        timers += 1
        return systemClock.sleep(ms, signal).finally(() => {
          timers -= 1
        })
      },
    }
    const endpoint = endpointAt(server.url, { requests: 2, queue: 1 }, { clock })
    const answers = [answerOf(endpoint), answerOf(endpoint), answerOf(endpoint)]
    await expect(answerOf(endpoint)).rejects.toThrow(failure('QUEUE_FULL', '2 requests are being answered and 1 wait'))
    await expect.poll(() => release.length).toBe(2)
    release.shift()?.()
    await expect.poll(() => server.requests.length).toBe(3)
    await expect.poll(() => release.length).toBe(2)
    for (const end of release.splice(0)) end()
    expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(['yes', 'yes', 'yes'])
    await expect.poll(() => timers).toBe(0)
  })
})

/** A stream of these events, which ends unless `ends` is false. */
function stream(first: string, second = '', ends = true): Scripts[number] {
  return (response) => {
    startStream(response, first, second)
    if (ends) response.end()
  }
}

function broken(...[response]: Parameters<Scripts[number]>): void {
  startStream(response, piece('one'))
  setTimeout(() => response.destroy(), 20)
}

async function endlessError(...[response]: Parameters<Scripts[number]>): Promise<void> {
  response.writeHead(403)
  while (!response.destroyed) {
    response.write('x'.repeat(4_096))
    await new Promise((turn) => setImmediate(turn))
  }
}
