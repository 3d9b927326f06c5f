import { expect, it } from 'vitest'
import { openServerModel } from '../../../agent/slm/server-model.ts'
import type { TextDelta } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { leftByClients } from '../../../core/answer/upstream/leaving.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { recordingLogger } from '../../support/recording-logger.ts'
import { failing, finish, scriptedUpstream, sse, startStream, streamed } from '../../support/scripted-upstream.ts'

const limits = {
  ...{ requests: 2, queue: 8, retries: 0, maxRetryAfterMs: 0, connectMs: 5_000, firstTokenMs: 5_000, idleMs: 5_000 },
  ...{ totalMs: 10_000, eventChars: 2 ** 16, answerBytes: 2 ** 16 },
}
const reason = JSON.stringify({ error: { message: 'logprobs are not supported' } })

function open(url: string) {
  const { logger, lines } = recordingLogger('warn')
  const model = openServerModel({
    url,
    model: 'small',
    leavingOf: leftByClients,
    limits,
    clock: systemClock,
    random: seededRandom(1),
    logger,
  })
  const prompt = new Prompt({ kind: 'chat', messages: [{ role: 'user', content: 'Where does the river rise?' }] })
  async function ask(): Promise<TextDelta[]> {
    const deltas: TextDelta[] = []
    const request = { prompt, sampling: greedy, stop: [], client: 'jobs' }
    for await (const delta of model.endpoint.answer(request, new AbortController().signal)) deltas.push(delta as TextDelta)
    return deltas
  }
  return { ask, lines }
}

it('asks for log probabilities, and hands them on', async () => {
  const logprobs = { content: [{ token: 'yes', logprob: -0.25 }] }
  await using server = await scriptedUpstream((response) => {
    startStream(response, sse({ choices: [{ delta: { content: 'yes' }, logprobs }] }), finish)
    response.end()
  })
  expect(await open(server.url).ask()).toMatchObject([{ text: 'yes', logprobs: [-0.25] }, { text: '' }])
  expect(server.requests[0]?.body).toMatchObject({ model: 'small', logprobs: true })
})

it('does without them at a server that rejects such requests, and asks it no more', async () => {
  await using server = await scriptedUpstream(failing(400, {}, reason), streamed('yes'))
  const { ask, lines } = open(server.url)
  for (let at = 0; at < 2; at++) expect((await ask())[0]).not.toHaveProperty('logprobs')
  expect(server.requests.map(({ body }) => 'logprobs' in body)).toEqual([true, false, false])
  expect(lines).toMatchObject([{ msg: 'the server of the small model gives no log probabilities' }])
})

it('fails with a request that the server rejects for another reason, and asks for them again', async () => {
  await using server = await scriptedUpstream(failing(400, {}, reason), failing(400, {}, reason), streamed('yes'))
  const { ask } = open(server.url)
  await expect(ask()).rejects.toMatchObject({ code: 'REQUEST_INVALID' })
  await ask()
  expect(server.requests.map(({ body }) => 'logprobs' in body)).toEqual([true, false, true])
})
