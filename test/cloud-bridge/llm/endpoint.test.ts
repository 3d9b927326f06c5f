import { expect, it } from 'vitest'
import { bridgeEndpoint } from '../../../cloud-bridge/llm/endpoint.ts'
import type { TokenStreamRequest } from '../../../cloud-bridge/serving/token-stream.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { textModel } from '../../../core/answer/endpoint/text-model.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { loadTokenizer } from '../../../core/model/text/tokenizer.ts'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { shared } from '../../support/shared.ts'
import { tinyBundle } from '../../support/tiny-bundle.ts'

const bundle = shared(tinyBundle)

it('an answer that is canceled before it begins takes no place in the queue', async () => {
  const model = textModel(bundle.manifest, await loadTokenizer(fixtureDir('llama')), undefined)
  let opened = 0
  const openTokens = () => {
    opened += 1
    return { next: () => new Promise<never>(() => {}), close: async () => {} }
  }
  const prompt = new Prompt({ kind: 'ids', tokens: { model, ids: [1, 2] } })
  const request = { prompt, maxTokens: 4, sampling: greedy, stop: [], client: 'c' }
  await expect(bridgeEndpoint({ openTokens }, model).answer(request, AbortSignal.abort()).next()).rejects.toMatchObject({
    code: 'CANCELED',
  })
  expect(opened).toBe(0)
})

it('the scheduler serves an answer by the rate of its reader', async () => {
  const model = textModel(bundle.manifest, await loadTokenizer(fixtureDir('llama')), undefined)
  const rates: (number | undefined)[] = []
  const openTokens = (_owner: string, { tokensPerS }: TokenStreamRequest) => {
    rates.push(tokensPerS)
    return { next: async () => ({ choices: [], end: 'stop' as const }), close: async () => {} }
  }
  const prompt = new Prompt({ kind: 'ids', tokens: { model, ids: [1, 2] } })
  const request = { prompt, maxTokens: 4, sampling: greedy, stop: [], client: 'c', tokensPerS: 7 }
  for await (const _delta of bridgeEndpoint({ openTokens }, model).answer(request, new AbortController().signal));
  expect(rates).toEqual([7])
})
