import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AnswerRequest } from '../../../../core/answer/endpoint/endpoint.ts'
import { AnswerMeter } from '../../../../core/answer/endpoint/meter.ts'
import { Prompt } from '../../../../core/answer/endpoint/prompt.ts'
import { collectAnswer, streamAnswer } from '../../../../core/answer/endpoint/stream-answer.ts'
import { upstreamEndpoint } from '../../../../core/answer/upstream/endpoint.ts'
import { leftByClients } from '../../../../core/answer/upstream/leaving.ts'
import { systemClock } from '../../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { startLlamaServer } from '../../../support/llama-server.ts'
import { pythonWith } from '../../../support/python-packages.ts'
import { shared } from '../../../support/shared.ts'
import { silentLogger } from '../../../support/silent-logger.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const python = pythonWith('llama-server')
const key = 'a-key-of-the-server'
const limits = {
  ...{ requests: 8, queue: 8, retries: 2, maxRetryAfterMs: 5_000, connectMs: 5_000, firstTokenMs: 20_000, idleMs: 20_000 },
  ...{ totalMs: 30_000, eventChars: 2 ** 20, answerBytes: 2 ** 20 },
}

describe.skipIf(python === undefined)("llama.cpp's server as an upstream", () => {
  const dir = tempDir()
  const server = shared(() => startLlamaServer(python!, dir.path, key))
  let url: string
  beforeAll(async () => {
    url = `${server.url}/v1`
  })
  afterAll(() => dir[Symbol.dispose]())

  const prompt = new Prompt({ kind: 'chat', messages: [{ role: 'user', content: 'Where does the river rise?' }] })
  const sampling = { temperature: 0.7, topP: 0.95, topK: 40, minP: 0.01, presencePenalty: 0.1, frequencyPenalty: 0.1, seed: 3 }
  const meter = new AnswerMeter(systemClock)
  const stream = (request: Partial<AnswerRequest> = {}, signal = new AbortController().signal, apiKey = key) => {
    const endpoint = upstreamEndpoint({
      ...{ url, model: 'tiny', key: () => apiKey, leavingOf: leftByClients, limits, continues: true },
      ...{ clock: systemClock, random: seededRandom(1), logger: silentLogger() },
    })
    const asked = { prompt, maxTokens: 24, ignoreEos: true, sampling, stop: [], client: 'app', ...request }
    return streamAnswer({ endpoint, clock: systemClock, meter }, asked, signal)
  }
  const ask = (...args: Parameters<typeof stream>) => collectAnswer(stream(...args))

  it('answers conversations and texts with its own counts of tokens, the same for the same seed', async () => {
    const chat = await ask()
    expect(chat).toMatchObject({ finishReason: 'length', tokens: 24, tokenIds: [], report: { mode: 'upstream' } })
    expect(chat.promptTokens).toBeGreaterThan(26)
    expect(chat.text.length).toBeGreaterThan(0)
    expect((await ask()).text).toBe(chat.text)
    const text = await ask({ prompt: new Prompt({ kind: 'text', text: 'Once upon a time' }) })
    expect(text).toMatchObject({ finishReason: 'length', tokens: 24 })
  })

  it('ends at a stop string, which is no part of the answer', async () => {
    const { text } = await ask()
    const stop = text[4]!
    expect(await ask({ stop: [stop] })).toMatchObject({ finishReason: 'stop', text: text.slice(0, text.indexOf(stop)) })
  })

  it('answers more requests at once than it has slots', async () => {
    const alone = await ask()
    const answers = await Promise.all(Array.from({ length: 6 }, () => ask()))
    expect(answers.map(({ tokens }) => tokens)).toEqual(answers.map(() => alone.tokens))
  })

  it('gives the log probability of each token, in conversations and texts', async () => {
    const endpoint = upstreamEndpoint({
      ...{ url, model: 'tiny', key: () => key, leavingOf: leftByClients, limits, scored: true },
      ...{ clock: systemClock, random: seededRandom(1), logger: silentLogger() },
    })
    for (const asked of [prompt, new Prompt({ kind: 'text', text: 'Once upon a time' })]) {
      const request = { prompt: asked, maxTokens: 24, ignoreEos: true, sampling, stop: [], client: 'app' }
      const logprobs: number[] = []
      for await (const delta of endpoint.answer(request, new AbortController().signal))
        if ('text' in delta) logprobs.push(...(delta.logprobs ?? []))
      // Bytes at the end that are no whole character have no text.
      expect(logprobs.length).toBeGreaterThan(16)
      expect(logprobs.length).toBeLessThanOrEqual(24)
      expect(Math.max(...logprobs)).toBeLessThanOrEqual(0)
      expect(Math.min(...logprobs)).toBeGreaterThan(-20)
    }
  })

  it('goes on right after the beginning of an answer, in conversations and texts', async () => {
    for (const asked of [prompt, new Prompt({ kind: 'text', text: 'Once upon a time' })]) {
      const whole = await ask({ prompt: asked })
      const rest = await ask({ prompt: asked, answered: { text: '12:34' }, maxTokens: 8 })
      // The tokens of this model are bytes: nothing else, such as the end of a message, comes between.
      expect(rest).toMatchObject({ finishReason: 'length', tokens: 8, promptTokens: whole.promptTokens + 5 })
    }
  })

  it('goes on answering after clients have canceled', async () => {
    for (let i = 0; i < 4; i++) {
      const canceling = new AbortController()
      const events = stream({ maxTokens: 400 }, canceling.signal)
      await events.next()
      canceling.abort(new Error('gone'))
      await expect(collectAnswer(events)).rejects.toThrow('gone')
    }
    expect((await ask()).tokens).toBe(24)
  })

  it('says why it rejects a prompt that its context cannot hold, and a wrong key', async () => {
    const long = new Prompt({ kind: 'text', text: 'far '.repeat(400) })
    await expect(ask({ prompt: long })).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
      message: expect.stringMatching(/rejects the request: .*context/),
    })
    await expect(ask({}, undefined, 'wrong')).rejects.toMatchObject({
      code: 'UPSTREAM_FAILED',
      message: expect.stringContaining('status 401'),
    })
  })
})
