import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bridgeEndpoint } from '../../../cloud-bridge/llm/endpoint.ts'
import { type Likelihood, likelihoodBy } from '../../../cloud-bridge/pice/likelihood.ts'
import type { Serving } from '../../../cloud-bridge/serving/serving.ts'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { relevanceOf } from '../../../core/policy/pice/relevance.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { servedOf, testServing } from '../../support/serving.ts'

const never = new AbortController().signal
const question = 'Please tell me how to clean a piano with my neighbor in summer.'

let loaded: LoadedModel
let serving: Serving
let likelihood: Likelihood
beforeAll(async () => {
  const folder = await ensureDemoBundle()
  loaded = await openBundle(folder, { parts: 'chain', threads: 1 })
  const { dims } = loaded.manifest
  serving = testServing(servedOf(loaded), { kv: { contextLimit: dims.contextLimit, prefixMs: 60_000 } })
  likelihood = likelihoodBy(bridgeEndpoint(serving, await loadTextModel(folder, loaded.manifest)))!
})
afterAll(async () => {
  await serving.close()
  await loaded.release()
})

const scored = (content: string, text: string) => likelihood([{ role: 'user', content }], text, 'client', never)
const relevance = async (text: string) => relevanceOf((await scored(question, text))!, (await scored('', text))!)

describe('the demonstration LLM tells', () => {
  it.each([
    'If you want to clean a piano, you will have to begin with the dust of the keys, because that is the worst of it.',
    'In summer you should do most of it before the heat, and rest in the shade after that.',
  ])('that a sentence is on the question: %s', async (text) => expect(await relevance(text)).toBe(1))

  it.each([
    'Nothing at all.',
    'Once upon a time there was a king who had three daughters.',
    'I like the sea and the ships on it.',
  ])('that a sentence is not: %s', async (text) => expect(await relevance(text)).toBe(0))

  it('nothing of a text without tokens, and the same of a text each time', async () => {
    expect(await scored(question, '')).toBeUndefined()
    expect(await scored(question, 'Then pull the plug.')).toBe(await scored(question, 'Then pull the plug.'))
  })
})
