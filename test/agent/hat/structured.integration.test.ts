import { join } from 'node:path'
import { Ajv } from 'ajv'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type DrafterName, drafterMaker } from '../../../agent/hat/create-drafter.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { compareWithReference, referenceAnswer } from '../../../core/model/engine/reference.ts'
import type { Sampling } from '../../../core/model/engine/sampler.ts'
import type { Grammar } from '../../../core/model/grammar/grammar.ts'
import { createGrammars, type Grammars } from '../../../core/model/grammar/grammars.ts'
import { loadTokenizer } from '../../../core/model/text/tokenizer.ts'
import { randomSchema } from '../../../lab/random-schema.ts'
import { type HatWorld, startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const checkpoint = 'models/demo/llm'
const dir = shared(tempDir)
let world: HatWorld
let grammars: Grammars
const tokenizer = shared(() => loadTokenizer(checkpoint))
let eos: readonly number[]
let prompt: readonly number[]

beforeAll(async () => {
  const { manifest, dir: bundle } = await buildBundle({ checkpoint, format: 'fp32', out: join(dir.path, 'bundle'), split: 1 })
  eos = manifest.tokens.eos
  world = await startHatWorld({ bundle, settings: { draftLimit: 8 } })
  grammars = createGrammars(checkpoint, eos)
  prompt = tokenizer.encode('<|im_start|>user\nMake up an example.<|im_end|>\n<|im_start|>assistant\n')
})
afterAll(() => world?.[Symbol.asyncDispose]())

const textOf = (tokens: readonly number[]) => tokenizer.decode(tokens, { skipSpecialTokens: true })
const ended = (tokens: readonly number[]) => eos.includes(tokens.at(-1)!)

async function answer(grammar: Grammar, sampling: Sampling, { drafter = 'adapter+lookup' as DrafterName, maxTokens = 800 } = {}) {
  const constraint = await grammars.open(grammar)
  const parts = { adapter: world.model.part('adapter'), head: world.head, threshold: 0.6, draftAhead: true }
  try {
    const createDrafter = drafterMaker(drafter, parts)
    const { tokens, figures } = await world.answer({ prompt, maxTokens, sampling, eos, constraint }, { createDrafter })
    const comparison = await compareWithReference(world.chain, prompt, sampling, tokens, constraint)
    return { tokens, figures, comparison }
  } finally {
    constraint.release()
  }
}

it('answers of a model that cannot write JSON match random schemas, and are the reference', async () => {
  const random = seededRandom(3)
  const ajv = new Ajv({ strict: false, validateFormats: false })
  for (let seed = 0; seed < 12; seed++) {
    const schema = randomSchema(random)
    const sampling = { temperature: seed % 4 === 0 ? 0 : 1, topK: 0, topP: 1, seed }
    const { tokens, comparison } = await answer({ kind: 'schema', schema: JSON.stringify(schema), strict: true }, sampling)
    expect(ended(tokens), JSON.stringify(schema)).toBe(true)
    expect(ajv.validate(schema, JSON.parse(textOf(tokens))), `${JSON.stringify(schema)}: ${textOf(tokens)}`).toBe(true)
    expect(comparison).toMatchObject({ identical: true })
  }
})

it('what must come is drafted without the drafter, and always accepted', async () => {
  const regex = { kind: 'regex', pattern: 'The quick brown fox jumps over the lazy dog (once|twice)' } as const
  const free = { temperature: 0, topK: 0, topP: 1, seed: 0 }
  const { tokens, figures } = await answer(regex, free, { drafter: 'none' })
  expect(textOf(tokens)).toMatch(/^The quick brown fox jumps over the lazy dog (once|twice)$/)
  expect(figures.drafted).toBeGreaterThan(0)
  expect(figures.accepted).toBe(figures.drafted)
})

it('an answer without a grammar is as before beside one with a grammar', async () => {
  const sampling = { temperature: 0.8, topK: 0, topP: 1, seed: 4 }
  const expected = await referenceAnswer(world.chain, prompt, sampling, 24, eos)
  const [free] = await Promise.all([
    world.answer({ prompt, maxTokens: 24, sampling, eos }),
    answer({ kind: 'object' }, sampling, { maxTokens: 96 }),
  ])
  expect(free.tokens).toEqual(expected)
})
