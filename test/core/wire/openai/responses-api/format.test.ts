import fc from 'fast-check'
import { accumulateResponse } from 'openai/lib/responses/ResponseAccumulator'
import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses'
import { describe, expect, it } from 'vitest'
import type { ResponsePiece } from '../../../../../core/wire/openai/response-formats.ts'
import { responsesFormat } from '../../../../../core/wire/openai/responses-api/format.ts'
import type { ResponseEcho, ResponseObject } from '../../../../../core/wire/openai/responses-api/response.ts'

const echo = { metadata: {}, store: true } as unknown as ResponseEcho
const head = { id: 'resp_1', created: 1, model: 'tiny' }
const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
const summary = { usage, brim: { ttftMs: 1 }, cachedTokens: 2 }
const piece = (fields: Partial<ResponsePiece>): ResponsePiece => ({ text: '', offset: 0, tokens: 0, ...fields })

function streamed(pieces: readonly ResponsePiece[], finishReason: 'stop' | 'length') {
  const writer = responsesFormat(echo, () => {}).open(head, false)
  return [
    ...writer.first(0),
    ...pieces.flatMap((each) => writer.text(0, each)),
    ...writer.end(0, finishReason, {}),
    ...writer.last(summary),
  ] as ResponseStreamEvent[]
}

function whole(pieces: readonly ResponsePiece[], finishReason: 'stop' | 'length') {
  const kept: ResponseObject[] = []
  const writer = responsesFormat(echo, (response) => kept.push(response)).open(head, false)
  for (const each of pieces) writer.text(0, each)
  const made = writer.whole([{ text: '', finishReason }], summary)
  expect(kept).toEqual([made])
  return made as ResponseObject
}

/** Pieces of an answer: reasoning, then texts and calls in any order. */
const answers = fc
  .record({
    reasoning: fc.array(fc.string({ minLength: 1, maxLength: 4 }), { maxLength: 3 }),
    parts: fc.array(
      fc.oneof(
        fc.record({ text: fc.string({ maxLength: 4 }) }),
        fc.record({ name: fc.constantFrom('f', 'g'), parts: fc.array(fc.string({ maxLength: 3 }), { maxLength: 3 }) }),
      ),
      { maxLength: 6 },
    ),
  })
  .map(({ reasoning, parts }) => {
    let index = -1
    return [
      ...reasoning.map((text) => piece({ reasoning: text })),
      ...parts.flatMap((part) => {
        if ('text' in part) return [piece(part)]
        index += 1
        return [
          piece({ calls: [{ index, name: part.name, arguments: '' }] }),
          ...part.parts.map((each) => piece({ calls: [{ index, arguments: each }] })),
        ]
      }),
    ]
  })

describe('a response', () => {
  it("as a stream is, for the official client's accumulator, at each moment a response, and at the end the whole one", () => {
    fc.assert(
      fc.property(answers, fc.constantFrom('stop' as const, 'length' as const), (pieces, finishReason) => {
        const events = streamed(pieces, finishReason)
        expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at))
        let snapshot: Response | undefined
        for (const event of events.slice(0, -1)) snapshot = accumulateResponse(event, snapshot)
        const expected = whole(pieces, finishReason)
        // Before the last event has brought the whole response.
        expect(snapshot!.output).toEqual(expected.output)
        expect((events.at(-1) as { response: unknown }).response).toEqual(expected)
        expect(events.at(-1)!.type).toBe(finishReason === 'length' ? 'response.incomplete' : 'response.completed')
        const texts = expected.output.flatMap((item) => (item.type === 'message' ? item.content.map(({ text }) => text) : []))
        expect(texts.join('')).toBe(pieces.map(({ text }) => text).join(''))
        const calls = expected.output.flatMap((item) => (item.type === 'function_call' ? [item] : []))
        expect(calls.map(({ name }) => name)).toEqual(pieces.flatMap(({ calls: each }) => each?.[0]?.name ?? []))
        expect(calls.map(({ arguments: each }) => each).join('')).toBe(
          pieces.flatMap(({ calls: each }) => each?.[0]?.arguments ?? []).join(''),
        )
        expect(new Set(expected.output.map(({ id }) => id)).size).toBe(expected.output.length)
      }),
    )
  })

  it('has reasoning apart from text, and counts its tokens', () => {
    const made = whole(
      [
        piece({ reasoning: 'It ', tokens: 1 }),
        piece({ tokens: 2 }),
        piece({ reasoning: 'is.', tokens: 3 }),
        piece({ text: 'Yes', tokens: 5 }),
      ],
      'stop',
    )
    expect(made).toMatchObject({
      status: 'completed',
      output: [
        { type: 'reasoning', status: 'completed', summary: [], content: [{ type: 'reasoning_text', text: 'It is.' }] },
        { type: 'message', content: [{ type: 'output_text', text: 'Yes', annotations: [] }] },
      ],
      usage: {
        input_tokens: 3,
        input_tokens_details: { cached_tokens: 2 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 3 },
        total_tokens: 8,
      },
      brim: { ttftMs: 1 },
    })
  })

  it('that ends in the middle of an item is incomplete, as is this item', () => {
    const calls = [{ index: 0, name: 'f', arguments: '{"a' }]
    expect(whole([piece({ text: 'Well' }), piece({ calls })], 'length')).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'completed' }, { type: 'function_call', status: 'incomplete', arguments: '{"a' }],
    })
  })

  it('separates what one piece brings: the rest of a call, a text, the next call', () => {
    const calls = [
      { index: 0, arguments: '}' },
      { index: 1, name: 'g', arguments: '{' },
      { index: 1, arguments: '}' },
    ]
    const { output } = whole([piece({ calls: [{ index: 0, name: 'f', arguments: '{' }] }), piece({ text: 'and', calls })], 'stop')
    expect(output).toMatchObject([
      { name: 'f', arguments: '{}' },
      { type: 'message', content: [{ text: 'and' }] },
      { name: 'g', arguments: '{}' },
    ])
  })

  it('gives each text its own log probabilities, those of tokens whose text comes later with that text', () => {
    const token = (text: string) => ({ token: 1, bytes: Buffer.from(text), logprob: -1, top: [] })
    const { output } = whole(
      [piece({ logprobs: [token('a')] }), piece({ text: 'ab', logprobs: [token('b')] }), piece({ logprobs: [token('c')] })],
      'stop',
    )
    expect(output).toMatchObject([{ content: [{ text: 'ab', logprobs: [{ token: 'a' }, { token: 'b' }, { token: 'c' }] }] }])
  })

  it('that fails has the error, and the complete items', () => {
    const writer = responsesFormat(echo, () => expect.unreachable()).open(head, false)
    writer.first(0)
    writer.text(0, piece({ text: 'Well' }))
    expect(writer.failed(new Error('secret'))).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'INTERNAL', message: 'the server failed; its log has the reason' } },
    })
  })
})
