import { expect, it } from 'vitest'
import { expandOnServer } from '../../../agent/pice/expand-on-server.ts'
import type { WrittenSentence } from '../../../agent/pice/expansion-work.ts'
import { openServerModel } from '../../../agent/slm/server-model.ts'
import { generalPrompts } from '../../../core/answer/sketch/prompts.ts'
import { leftByClients } from '../../../core/answer/upstream/leaving.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { finish, piece, scriptedUpstream, startStream } from '../../support/scripted-upstream.ts'
import { silentLogger } from '../../support/silent-logger.ts'

it('a server that writes more than a line may have is cut off at its length, whether it gives log probabilities or not', async () => {
  const limits = {
    ...{ requests: 2, queue: 8, retries: 0, maxRetryAfterMs: 0, connectMs: 5_000, firstTokenMs: 5_000, idleMs: 5_000 },
    ...{ totalMs: 10_000, eventChars: 2 ** 16, answerBytes: 2 ** 16 },
  }
  await using server = await scriptedUpstream((response) => {
    startStream(response, ...Array<string>(40).fill(piece('word ')), piece('word '.repeat(500)), finish)
    response.end()
  })
  const { endpoint } = openServerModel({
    leavingOf: leftByClients,
    ...{ url: server.url, model: 'small', limits, clock: systemClock, random: seededRandom(1), logger: silentLogger() },
  })
  const written: WrittenSentence[] = []
  const work = {
    sketch: 0,
    query: [{ role: 'user', content: 'Where does the river rise?' }],
    lines: ['in the mountains', 'far away'],
    groups: [{ candidate: 0, sentences: [0, 1], sampling: greedy }],
    lengths: [
      { min: 1, expected: 10, max: 12 },
      { min: 1, expected: 10, max: 100 },
    ],
  }
  const options = {
    maxSequences: 1,
    onSentence: (one: WrittenSentence) => void written.push(one),
    signal: new AbortController().signal,
  }
  await expandOnServer(endpoint, generalPrompts, [work], options)
  expect(written.map(({ tokens, reply }) => [tokens, reply.trim().split(' ').length])).toEqual([
    [12, 12],
    [100, 100],
  ])
  expect(server.requests.map(({ body }) => body.max_tokens)).toEqual([12, 100])
})
