import { describe, expect, it } from 'vitest'
import { singleEndpoint } from '../../../agent/disco/single-endpoint.ts'
import type { AnswerDelta, AnswerRequest, TokenDelta, TokenEndpoint } from '../../../core/answer/endpoint/endpoint.ts'
import type { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import type { TextModel } from '../../../core/answer/endpoint/text-model.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { fakeClock } from '../../support/fake-clock.ts'

const model = { name: 'llm', dims: { contextLimit: 100, vocab: 10 }, eos: [] } as unknown as TextModel
const prompt = { idsFor: async () => [1, 2, 3] } as unknown as Prompt
const request: AnswerRequest = { prompt, sampling: greedy, stop: [], client: 'app' }

/** Three tokens, the first after 200 ms; or a failure in its place. */
function world(failure?: Error) {
  const clock = fakeClock()
  const hat: TokenEndpoint = {
    model,
    async *answer(_, signal): AsyncGenerator<TokenDelta, void> {
      await clock.sleep(200, signal)
      if (failure) throw failure
      for (const token of [7, 8, 9])
        yield { source: { kind: 'hat', model }, tokens: [token], end: token === 9 ? 'length' : undefined }
    },
  }
  const seen: unknown[] = []
  const endpoint = singleEndpoint(hat, { clock, onEnded: (answer) => seen.push(answer) })
  return { clock, endpoint, seen }
}

/** What was begun sleeps. */
const turn = () => new Promise((next) => setImmediate(next))

async function read(deltas: AsyncGenerator<AnswerDelta, void>): Promise<AnswerDelta[]> {
  const all: AnswerDelta[] = []
  for await (const delta of deltas) all.push(delta)
  return all
}

describe('an answer about which nothing is to be decided', () => {
  it('has the figures of HAT, and teaches how long it took', async () => {
    const { clock, endpoint, seen } = world()
    const reading = read(endpoint.answer(request, new AbortController().signal))
    await turn()
    await clock.advance(200)
    const deltas = await reading
    expect(deltas.map((delta) => 'tokens' in delta && delta.tokens)).toEqual([[7], [8], [9]])
    expect(deltas.at(-1)!.disco!()).toMatchObject({
      mode: 'private',
      winner: 'server',
      startMs: { device: null, server: 0 },
      cost: { server: { promptTokens: 3, tokens: 3, dollars: null }, device: { tokens: 0 } },
    })
    expect(seen).toEqual([{ promptTokens: 3, tokens: 3, firstTokenMs: 200, hasFailed: false }])
  })

  it('that its client leaves counts as a start that would have taken longer; one that fails teaches nothing', async () => {
    const left = world()
    const leaving = new AbortController()
    const reading = read(left.endpoint.answer(request, leaving.signal))
    await turn()
    await left.clock.advance(50)
    leaving.abort(new Error('gone'))
    await expect(reading).rejects.toThrow('gone')
    expect(left.seen).toEqual([{ promptTokens: 3, tokens: 0, canceledMs: 50, hasFailed: true }])
    const failing = world(new Error('broken'))
    const failed = read(failing.endpoint.answer(request, new AbortController().signal))
    await turn()
    await Promise.all([expect(failed).rejects.toThrow('broken'), failing.clock.advance(200)])
    expect(failing.seen).toEqual([{ promptTokens: 3, tokens: 0, hasFailed: true }])
  })
})
