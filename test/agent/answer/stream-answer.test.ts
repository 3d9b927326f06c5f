import { describe, expect, it } from 'vitest'
import { type AnswerEvent, streamAnswer } from '../../../agent/answer/stream-answer.ts'
import type { HatRound } from '../../../agent/hat/session.ts'
import { HatCounters } from '../../../agent/hat/summary.ts'
import { type Clock, systemClock } from '../../../core/base/clock.ts'
import { greedy } from '../../../core/engine/sampler.ts'
import { readManifest } from '../../../core/model/bundle.ts'
import { loadTokenizer } from '../../../core/text/tokenizer.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const rates = { upBytesPerS: 1e6, downBytesPerS: null, prefillTokensPerS: 100, draftStepMs: 2 }

/** What a session yields for these rounds; `ended` tells whether it has been left. */
function sessionOf(rounds: readonly (readonly number[])[]) {
  const session = { ended: false }
  async function* run(): AsyncGenerator<HatRound, void> {
    const counters = new HatCounters()
    try {
      for (const tokens of rounds) {
        if (counters.tokens === 0) counters.first(0, 0, 1)
        else counters.round(tokens.length, tokens.length - 1, tokens.length - 1, counters.tokens)
        const summary = () =>
          counters.summary({
            wire: 'fp16',
            drafting: null,
            ahead: null,
            reusedTokens: 0,
            bytesUp: 1,
            bytesDown: 2,
            wideRows: 3,
            failovers: 0,
            rates,
          })
        yield { tokens, drafted: tokens.length - 1, accepted: tokens.length - 1, summary }
      }
    } finally {
      session.ended = true
    }
  }
  return { session, run }
}

async function answerOf(
  rounds: readonly (readonly number[])[],
  limits: { stop?: string[]; maxTokens: number },
  clock: Clock = systemClock,
) {
  using bundle = await tinyBundle()
  const manifest = await readManifest(bundle.path)
  const tokenizer = await loadTokenizer(fixtureDir('llama'))
  const { session, run } = sessionOf(rounds)
  const request = {
    promptIds: [5, 6, 7],
    sampling: greedy,
    stop: [],
    stream: true,
    includeUsage: true,
    tokenIds: true,
    client: 'app',
    ...limits,
  }
  const events: { event: AnswerEvent; sessionEnded: boolean }[] = []
  for await (const event of streamAnswer({ manifest, tokenizer, clock, run }, request, 0, new AbortController().signal))
    events.push({ event, sessionEnded: session.ended })
  const end = events.at(-1)!.event
  if (end.kind !== 'end') throw new Error('no end')
  const text = events.map(({ event }) => (event.kind === 'text' ? event.text : '')).join('')
  return { events, end, text, tokenizer }
}

describe('an answer', () => {
  it('that a stop string ends in the middle of a round counts the tokens up to there, and no more', async () => {
    const { tokenizer } = await answerOf([[5]], { maxTokens: 1 })
    const ids = tokenizer.encode('one two three four five six', { addSpecialTokens: false })
    const detokenizer = tokenizer.detokenizer()
    const texts = ids.map((id) => detokenizer.push(id))
    const upTo =
      ids.findIndex((_, at) =>
        texts
          .slice(0, at + 1)
          .join('')
          .includes('three'),
      ) + 1
    const rounds = [ids.slice(0, 1), ids.slice(1)]
    const { end, text } = await answerOf(rounds, { maxTokens: 100, stop: ['three'] })
    expect(text).toBe('one two ')
    expect(upTo).toBeLessThan(ids.length)
    expect(end).toMatchObject({
      finishReason: 'stop',
      usage: { prompt_tokens: 3, completion_tokens: upTo, total_tokens: 3 + upTo },
      report: { tokenIds: ids.slice(0, upTo), rounds: 1, wideRows: 3, rates },
    })
  })

  it('has ended its session before the last piece of it is delivered, so that no reader holds KV', async () => {
    const { events } = await answerOf([[5], [6, 7], [8, 9]], { maxTokens: 5 })
    expect(events.map(({ event, sessionEnded }) => [event.kind, sessionEnded])).toEqual([
      ['text', false],
      ['text', false],
      ['text', true],
      ['end', true],
    ])
  })

  it('counts the time to the first token that has text, as its reader does', async () => {
    const { tokenizer } = await answerOf([[5]], { maxTokens: 1 })
    const ids = tokenizer.encode('one two three', { addSpecialTokens: false })
    // The first piece waits: it might be the beginning of the stop string.
    const waiting = tokenizer.detokenizer().push(ids[0]!)
    const { end } = await answerOf(
      [ids.slice(0, 1), ids.slice(1)],
      { maxTokens: 100, stop: [`${waiting}!`, 'three'] },
      {
        ...systemClock,
        nowMs: () => 70,
      },
    )
    expect(end).toMatchObject({ report: { ttftMs: 70 } })
  })

  it('of one token has no gaps', async () => {
    const { end } = await answerOf([[5]], { maxTokens: 1 })
    expect(end).toMatchObject({ finishReason: 'length', report: { tbtMs: { p50: null, p95: null }, acceptLength: null } })
  })
})
