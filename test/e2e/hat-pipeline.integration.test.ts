import { afterAll, beforeAll, expect, it } from 'vitest'
import { seededRandom } from '../../core/kit/base/random.ts'
import { referenceAnswer } from '../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../core/model/engine/sampler.ts'
import { type HatWorld, startHatWorld } from '../support/hat-world.ts'

let world: HatWorld
beforeAll(async () => {
  world = await startHatWorld({ settings: { chunkTokens: 8, pipeline: 2 } })
})
afterAll(() => world[Symbol.asyncDispose]())

it('gives concurrent answers the tokens of the reference with a pipeline of two stages', async () => {
  const random = seededRandom(3)
  const asked = Array.from({ length: 8 }, (_, at) => ({
    prompt: Array.from({ length: 5 + 9 * at }, () => Math.floor(random.next() * world.model.manifest.dims.vocab)),
    sampling: at % 2 === 0 ? greedy : ({ temperature: 0.8, topK: 0, topP: 1, seed: at } satisfies Sampling),
    maxTokens: 24,
  }))
  const answers = await Promise.all(asked.map((request) => world.answer(request)))
  for (const [at, { prompt, sampling, maxTokens }] of asked.entries())
    expect(answers[at]!.tokens).toEqual(await referenceAnswer(world.chain, prompt, sampling, maxTokens, []))
  expect(answers.reduce((sum, { figures }) => sum + figures.drafted, 0)).toBeGreaterThan(0)
  expect(await (await fetch(`${world.bridge.httpUrl}/health`)).json()).toMatchObject({ sessions: 0, pipeline: 2 })
})
