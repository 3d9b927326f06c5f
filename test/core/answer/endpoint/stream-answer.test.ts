import { describe, expect, it } from 'vitest'
import type { AnswerDelta, Endpoint, TextDelta } from '../../../../core/answer/endpoint/endpoint.ts'
import { type EndpointFigures, noFigures } from '../../../../core/answer/endpoint/figures.ts'
import { AnswerMeter } from '../../../../core/answer/endpoint/meter.ts'
import { Prompt } from '../../../../core/answer/endpoint/prompt.ts'
import { type AnswerEvent, streamAnswer } from '../../../../core/answer/endpoint/stream-answer.ts'
import { textModel } from '../../../../core/answer/endpoint/text-model.ts'
import { type Clock, systemClock } from '../../../../core/kit/base/clock.ts'
import { greedy } from '../../../../core/model/engine/sampler.ts'
import { loadTokenizer } from '../../../../core/model/text/tokenizer.ts'
import { fixtureDir } from '../../../oracle/fixtures.ts'
import { shared } from '../../../support/shared.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)
const model = shared(async () => textModel(bundle.manifest, await loadTokenizer(fixtureDir('llama')), undefined))

const figures: EndpointFigures = { ...noFigures, rounds: 3, wideRows: 3 }

/** Yields these deltas, the last with an end; `released` when its generator has ended. */
function scriptedEndpoint(deltas: readonly (readonly number[])[]) {
  const state = { released: false }
  const endpoint: Endpoint = {
    model,
    async *answer() {
      try {
        for (const [at, tokens] of deltas.entries()) {
          const end: AnswerDelta['end'] = at === deltas.length - 1 ? 'length' : undefined
          yield { source: { kind: 'hat', model }, tokens, end, figures: () => figures }
        }
      } finally {
        state.released = true
      }
    },
  }
  return { state, endpoint }
}

interface Asked {
  stop?: string[]
  clock?: Clock
}

const answerOf = (deltas: readonly (readonly number[])[], asked: Asked = {}) => answerFrom(scriptedEndpoint(deltas), asked)

/** An answer of another server. */
function remoteAnswer(deltas: readonly Omit<TextDelta, 'source' | 'end'>[], asked: Asked = {}) {
  const state = { released: false }
  const remote = { name: 'large-model' }
  const endpoint: Endpoint = {
    model: remote,
    async *answer() {
      for (const [at, delta] of deltas.entries())
        yield { ...delta, source: { kind: 'upstream', model: remote }, end: at === deltas.length - 1 ? 'stop' : undefined }
    },
  }
  return answerFrom({ state, endpoint }, asked)
}

async function answerFrom(
  { state, endpoint }: { state: { released: boolean }; endpoint: Endpoint },
  { stop = [], clock = systemClock }: Asked,
) {
  const prompt = new Prompt({ kind: 'ids', tokens: { model, ids: [5, 6, 7] } })
  const meter = new AnswerMeter(clock)
  const events: { event: AnswerEvent; released: boolean }[] = []
  const request = { prompt, sampling: greedy, stop, client: 'app' }
  for await (const event of streamAnswer({ endpoint, clock, meter }, request, new AbortController().signal))
    events.push({ event, released: state.released })
  const end = events.at(-1)!.event
  if (end.kind !== 'end') throw new Error('no end')
  const text = events.map(({ event }) => (event.kind === 'text' ? event.text : '')).join('')
  return { events, end, text, meter }
}

describe('a streamed answer', () => {
  it('counts the tokens up to a stop string in the middle of a delta, and no more', async () => {
    const ids = model.tokenizer.encode('one two three four five six', { addSpecialTokens: false })
    const textOf = (tokens: number) => model.tokenizer.decode(ids.slice(0, tokens))
    const upTo = ids.findIndex((_, at) => textOf(at).includes('three'))
    const { end, text, meter } = await answerOf([ids.slice(0, 1), ids.slice(1)], { stop: ['three'] })
    expect(text).toBe('one two ')
    expect(upTo).toBeLessThan(ids.length)
    expect(end).toMatchObject({ finishReason: 'stop', promptTokens: 3, tokenIds: ids.slice(0, upTo), report: figures })
    expect(meter.totals.tokens).toBe(upTo)
  })

  it('releases its endpoint before the last text is delivered, so that a slow client retains no KV', async () => {
    const { events } = await answerOf([[5], [6, 7], [8, 9]])
    expect(events.map(({ event, released }) => [event.kind, released])).toEqual([
      ['text', false],
      ['text', false],
      ['text', true],
      ['end', true],
    ])
  })

  it('measures the TTFT at the first token that has text', async () => {
    const ids = model.tokenizer.encode('one two three', { addSpecialTokens: false })
    // The first piece is withheld: it may be the beginning of the stop string.
    const withheld = model.tokenizer.detokenizer().push(ids[0]!)
    let nowMs = 0
    const clock = { ...systemClock, nowMs: () => (nowMs += 10) }
    const { events, end } = await answerOf([ids.slice(0, 1), ids.slice(1)], { stop: [`${withheld}!`, 'three'], clock })
    expect(events[0]!.event).toEqual({ kind: 'text', text: '', tokens: 1, tokenIds: [expect.any(Number)] })
    // The clock is read at the meter's start, at the request, and after each delta.
    expect(end.report.ttftMs).toBe(20)
  })

  it('measures one gap per delta and none between its tokens', async () => {
    let nowMs = 0
    const clock = { ...systemClock, nowMs: () => (nowMs += 10) }
    const { end } = await answerOf([[5], [6, 7, 8], [9]], { clock })
    expect(end.report).toMatchObject({ tpotMs: 20 / 4, tbtMs: { p50: 5, p95: 10 } })
  })

  it('of one token has no gaps', async () => {
    const { end } = await answerOf([[5]])
    expect(end).toMatchObject({ finishReason: 'length', report: { tbtMs: { p50: null, p95: null }, tpotMs: null } })
  })

  it('of another server has text, counts and a source, but no token ids', async () => {
    const deltas = [
      { text: 'Hello', tokenCount: 1 },
      { text: ' wor', tokenCount: 2 },
      { text: 'ld', tokenCount: 1, promptTokens: 9 },
    ]
    const { end, text, meter } = await remoteAnswer(deltas)
    expect(text).toBe('Hello world')
    expect(end).toMatchObject({ finishReason: 'stop', promptTokens: 9, tokens: 4, tokenIds: [] })
    const sources = [{ from: 0, tokens: 4, source: 'upstream', model: 'large-model' }]
    expect(end.report).toMatchObject({ mode: 'upstream', sources })
    expect(meter.totals.tokens).toBe(4)
  })

  it('of another server ends at a stop string that spans its pieces, and delivers what is withheld at its end', async () => {
    const pieces = (...texts: string[]) => texts.map((text) => ({ text, tokenCount: 1 }))
    const stopped = await remoteAnswer(pieces('one', ' tw', 'o three', ' four'), { stop: ['two'] })
    expect([stopped.text, stopped.end.finishReason, stopped.end.tokens]).toEqual(['one ', 'stop', 3])
    expect((await remoteAnswer(pieces('one', ' tw'), { stop: ['two'] })).text).toBe('one tw')
  })
})
