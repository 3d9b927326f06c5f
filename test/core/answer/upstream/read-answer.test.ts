import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TextDelta } from '../../../../core/answer/endpoint/endpoint.ts'
import { UpstreamFailures } from '../../../../core/answer/upstream/failure.ts'
import { type AnswerReading, readAnswer } from '../../../../core/answer/upstream/read-answer.ts'
import { Watchdog } from '../../../../core/answer/upstream/watchdog.ts'
import { ServerCounts } from '../../../../core/policy/upstream/server-counts.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

const limits = { idleMs: 1_000, eventChars: 4_096, answerBytes: 1_000 }
const model = { name: 'large' }

const event = (data: object | string) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const piece = (content: string) => event({ choices: [{ index: 0, delta: { content } }] })
const finish = (finish_reason: string) => event({ choices: [{ index: 0, delta: {}, finish_reason }] })
const usage = event({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } })
const done = event('[DONE]')
/** Of a piece: one for each word, and for blanks alone. */
const fewest = (text: string) => text.trim().split(/\s+/).length
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

async function* packetsOf(text: string, size = Number.POSITIVE_INFINITY): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function read(body: AsyncIterable<Uint8Array>, maxTokens = Number.POSITIVE_INFINITY, reading: Partial<AnswerReading> = {}) {
  const deltas: TextDelta[] = []
  const watchdog = new Watchdog(fakeClock())
  for await (const delta of readAnswer(body, { model, maxTokens, ...reading }, limits, watchdog, new UpstreamFailures('large')))
    deltas.push(delta)
  const text = deltas.map((delta) => delta.text).join('')
  const tokens = deltas.reduce((sum, { tokenCount }) => sum + tokenCount, 0)
  const last = deltas.at(-1)
  return { text, tokens, end: last?.end, promptTokens: last?.promptTokens, deltas }
}

describe('the answer of an upstream', () => {
  it('is the same however its bytes are split into packets', async () => {
    const texts = fc.array(fc.constantFrom('lamp', ' ', '😀', '灯', '\n\n', 'data: x', '"'), { minLength: 1, maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(texts, fc.integer({ min: 1, max: 40 }), fc.constantFrom('\n', '\r\n'), async (pieces, size, newline) => {
        const stream = `: hello\n\n${pieces.map(piece).join('')}${finish('stop')}${usage}${done}`.replaceAll('\n', newline)
        const answer = await read(packetsOf(stream, size))
        expect(answer).toMatchObject({
          text: pieces.join(''),
          tokens: Math.max(5, sum(pieces.map(fewest))),
          end: 'stop',
          promptTokens: 7,
        })
      }),
      { numRuns: 100 },
    )
  })

  it('counts one token for each piece, where the server does not count', async () => {
    const answer = await read(packetsOf(piece('one') + piece(' two') + finish('length') + done))
    expect(answer).toMatchObject({ text: 'one two', tokens: 2, end: 'length', promptTokens: undefined })
  })

  it('has an event once that is sent again with the same id, and repeated text without ids', async () => {
    const again = `id: 1\n${piece('no ')}id: 1\n${piece('no ')}${piece('no ')}${piece('no ')}`
    expect(await read(packetsOf(again + finish('stop') + done))).toMatchObject({ text: 'no no no ', tokens: 3 })
  })

  it('of /v1/completions is read alike', async () => {
    const stream = event({ choices: [{ text: 'one' }] }) + event({ choices: [{ text: ' two', finish_reason: 'stop' }] }) + done
    expect(await read(packetsOf(stream))).toMatchObject({ text: 'one two', tokens: 2, end: 'stop' })
  })

  it('carries log probabilities with the text of their tokens, in the forms of chats and of completions', async () => {
    const scored = (content: string, ...values: number[]) =>
      event({ choices: [{ delta: { content }, logprobs: { content: values.map((logprob) => ({ token: 'x', logprob })) } }] })
    const { deltas } = await read(
      packetsOf(scored('one', -0.5) + scored('', -1) + scored('😀', -2, 0.01) + finish('stop') + done),
    )
    expect(deltas.map(({ logprobs, tokenCount }) => [logprobs, tokenCount])).toEqual([
      [[-0.5], 1],
      // A character of several tokens; rounded above 0 by its server.
      [[-1, -2, 0], 3],
      [undefined, 0],
    ])
    const completion = event({ choices: [{ text: 'one', logprobs: { token_logprobs: [-3], tokens: ['one'] } }] })
    expect((await read(packetsOf(completion + finish('stop') + done))).deltas[0]).toMatchObject({ text: 'one', logprobs: [-3] })
  })

  it('does without log probabilities of another form', async () => {
    for (const logprobs of [
      null,
      [],
      'x',
      { content: null },
      { content: [{ logprob: 'NaN' }] },
      { token_logprobs: [null, -1] },
    ]) {
      const { text, deltas } = await read(packetsOf(event({ choices: [{ text: 'one', logprobs }] }) + finish('stop') + done))
      expect([text, deltas[0]?.logprobs]).toEqual(['one', undefined])
    }
  })

  it('leaves out reasoning', async () => {
    const thinking = event({ choices: [{ delta: { reasoning_content: 'hm', content: null } }] })
    expect(await read(packetsOf(thinking + piece('yes') + finish('stop') + done))).toMatchObject({ text: 'yes', tokens: 1 })
  })

  it('is complete with its finish reason, whatever follows', async () => {
    for (const rest of [done + done, done + piece('more'), piece('more') + done, event('{'), event({ error: 'x' }), ''])
      expect(await read(packetsOf(piece('one') + finish('stop') + rest))).toMatchObject({ text: 'one', end: 'stop' })
    expect(await read(packetsOf(piece('one') + done))).toMatchObject({ text: 'one', end: 'stop' })
  })

  it('ends at the limit of tokens that the server ignores', async () => {
    const endless = (async function* () {
      for (;;) yield Buffer.from(piece('x'))
    })()
    expect(await read(endless, 3)).toMatchObject({ text: 'xxx', tokens: 3, end: 'length', promptTokens: undefined })
  })

  it('that holds more words than it has tokens is cut in the middle of an event', async () => {
    const excesses: string[] = []
    const answer = await read(packetsOf(piece('one two three') + piece(' four five') + finish('stop') + usage + done), 4, {
      onExcess: (message) => excesses.push(message),
    })
    expect(answer).toMatchObject({ text: 'one two three four ', tokens: 4, end: 'length' })
    expect(excesses).toEqual(['the upstream sent more than max_tokens: its answer was cut'])
  })

  it('has as many tokens as its server claims, up to those asked for, and no fewer than its words', async () => {
    const claim = (prompt_tokens: number, completion_tokens: number) => event({ usage: { prompt_tokens, completion_tokens } })
    const stream = (prompt: number, tokens: number) => packetsOf(piece('one two') + finish('stop') + claim(prompt, tokens) + done)
    const excesses: string[] = []
    const reading = { promptTokens: { least: 4, most: 100 }, onExcess: (message: string) => excesses.push(message) }
    expect(await read(stream(40, 9), 10, reading)).toMatchObject({ tokens: 9, promptTokens: 40 })
    expect(await read(stream(40, 0), 10, reading)).toMatchObject({ tokens: 2, promptTokens: 40 })
    expect(excesses).toEqual([])
    expect(await read(stream(2 ** 50, 2 ** 50), 10, reading)).toMatchObject({ tokens: 10, promptTokens: 100 })
    expect(await read(stream(0, 2), 10, reading)).toMatchObject({ promptTokens: 4 })
    // Reasoning may be counted and not sent.
    expect(await read(stream(40, 2 ** 50))).toMatchObject({ tokens: 7 + 65_536 })
    expect(new Set(excesses)).toEqual(new Set(['the upstream claims more tokens than it was asked for']))
  })

  it('has no more of a rule without an end than its tokens can cover', async () => {
    const answer = await read(packetsOf(piece('-'.repeat(1_000)) + finish('stop') + done), 3)
    expect(answer).toMatchObject({ text: '-'.repeat(3 * 256), tokens: 3, end: 'length' })
  })

  it('believes each count of its server by itself, and counts as it has counted before where one is missing', async () => {
    const counts = new ServerCounts()
    const reading = { promptTokens: { least: 1, most: 600 }, counts }
    const words = (n: number) => piece(' word'.repeat(n)) + finish('stop')
    const told = (n: number) => event({ usage: { prompt_tokens: 90, completion_tokens: 2 * n } })
    expect(await read(packetsOf(words(5) + done), 100, reading)).toMatchObject({ tokens: 5, promptTokens: undefined })
    for (const n of [5, 9, 20]) await read(packetsOf(words(n) + told(n) + done), 100, reading)
    expect(await read(packetsOf(words(12) + done), 100, reading)).toMatchObject({ tokens: 24, promptTokens: 90 })
    expect(await read(packetsOf(words(80) + done), 100, reading)).toMatchObject({ tokens: 100 })
    const negative = event({ usage: { prompt_tokens: -7, completion_tokens: 30 } })
    expect(await read(packetsOf(words(12) + negative + done), 100, reading)).toMatchObject({ tokens: 30, promptTokens: 90 })
    // A claim beyond what was asked for teaches nothing.
    const huge = event({ usage: { prompt_tokens: 2 ** 50, completion_tokens: 2 ** 50 } })
    for (let n = 0; n < 20; n++) await read(packetsOf(words(3) + huge + done), 100, reading)
    expect(await read(packetsOf(words(12) + done), 100, reading)).toMatchObject({ tokens: 24, promptTokens: 90 })
  })

  it('never holds half of a character, however its server splits them', async () => {
    const texts = fc.array(fc.string({ unit: fc.constantFrom('a', ' ', '\ud83d', '\ude00', '灯') }), { maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(texts, async (pieces) => {
        const { text, deltas } = await read(packetsOf(`${piece('x')}${pieces.map(piece).join('')}${finish('stop')}${done}`))
        for (const delta of deltas) expect(delta.text).not.toMatch(/\p{Surrogate}/u)
        const whole = `x${pieces.join('')}`.replace(/[\ud800-\udbff]$/, '').replace(/\p{Surrogate}/gu, '\ufffd')
        expect(text).toBe(whole)
      }),
    )
  })

  it.each([
    ['no event', '', 'ended its stream in the middle'],
    ['nothing but an end', done, 'ended its stream in the middle'],
    ['no end', piece('one'), 'ended its stream in the middle'],
    ['an event that is no JSON', event('{"choices": ['), 'none of OpenAI’s API'],
    ['an event of another form', event({ choices: 'x' }), 'none of OpenAI’s API'],
    ['an error', event({ error: { message: 'out of\nmemory', code: 500 } }), 'reports: out of\\u000amemory'],
    ['an answer that it gives up', piece('one') + finish('abort'), 'gave the answer up ("abort")'],
    ['an answer that is too long', piece('x'.repeat(600)) + piece('x'.repeat(600)), 'more than 1000 bytes'],
  ])('fails with %s', async (_, stream, message) => {
    await expect(read(packetsOf(stream))).rejects.toThrow(
      expect.objectContaining({ code: 'UPSTREAM_FAILED', message: expect.stringContaining(message) }),
    )
  })

  it('fails with an event without end', async () => {
    await expect(read(packetsOf(`data: ${'x'.repeat(10_000)}`, 512))).rejects.toThrow('more than 4096 characters')
  })
})
