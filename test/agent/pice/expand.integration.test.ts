import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { piceExpand } from '../../../agent/pice/expand.ts'
import type { SmallModels } from '../../../agent/pice/small-models.ts'
import { type LocalModel, openLocalModel } from '../../../agent/slm/local-model.ts'
import { systemClock } from '../../../core/base/clock.ts'
import { generate } from '../../../core/engine/generate.ts'
import { greedy } from '../../../core/engine/sampler.ts'
import { cleanExpansion } from '../../../core/pice/clean-expansion.ts'
import { expandInstruction, type PicePrompts, withInstruction } from '../../../core/pice/prompts.ts'
import { type ExpandedSentence, Expansion } from '../../../core/protocol/expansion.ts'
import { resultProblem } from '../../../core/protocol/jobs.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'

const prompts: PicePrompts = {
  foresight: 'How many tokens?',
  foresightUnit: 'tokens',
  sketch: 'Sketch your answer at level {level}.',
  sketchShares: [0.4],
  expand: 'Sketch of your answer:\n{sketch}\n\nWrite out this line and no other:\n{line}',
  expandNext: 'Write out this line and no other:\n{line}',
}
const messages = [{ role: 'user' as const, content: 'Tell me about a lighthouse and the boy who lives in it.' }]
const words = 'keeper tower lamp storm night boat fish king garden forest wolf house'.split(' ')
const linesOf = (count: number) =>
  Array.from({ length: count }, (_, at) => [1, 5, 7, 3].map((step) => words[(at * step + at + step) % words.length]).join(' '))

let model: LocalModel & { close(): Promise<void> }
let steps: number[] = []
let counted: LocalModel

beforeAll(async () => {
  model = await openLocalModel({ bundle: await ensureDemoBundle('slm-wide'), threads: 1 })
  const { chain } = model
  counted = {
    ...model,
    chain: {
      manifest: chain.manifest,
      createSequence: () => chain.createSequence(),
      step(items) {
        steps.push(items.length)
        return chain.step(items)
      },
    },
  }
})
afterAll(() => model.close())

const models: SmallModels = {
  list: () => [{ model: 'slm', loadS: 0, ttftS: 0.01, tpotS: 0.001, parallel: [[16, 8]], ability: undefined }],
  current: 'slm',
  borrow: async () => ({ open: { kind: 'bundle', prompts, model: counted }, loadMs: 0, release() {} }),
  record() {},
}
const expand = piceExpand({ models, jobsWaiting: () => 0, clock: systemClock, nextSeed: () => 1 })

async function run(input: object, signal = AbortSignal.timeout(20_000), onSentence = (_: ExpandedSentence) => {}) {
  steps = []
  const events: ExpandedSentence[] = []
  const job = {
    link: 'mqtt://a',
    progress() {},
    sentence(finished: ExpandedSentence) {
      events.push(finished)
      onSentence(finished)
    },
  }
  const result = await expand(input, () => {}, signal, job)
  expect(resultProblem('pice.expand', input, result)).toBeUndefined()
  const expansion = Expansion.parse(result)
  expect(events).toEqual(expansion.sentences)
  return expansion
}

/** What the model alone makes of the line. */
async function alone(lines: readonly string[], at: number): Promise<string> {
  const chat = withInstruction(messages, expandInstruction(prompts, lines, lines[at]!))
  const promptIds = await model.text.prompts.encode({ kind: 'chat', messages: chat }, AbortSignal.timeout(5_000))
  let text = ''
  for await (const event of generate(model.chain, model.text.tokenizer, {
    promptIds,
    sampling: greedy,
    maxTokens: 46,
    clock: systemClock,
  }))
    if (event.kind === 'token') text += event.text
  return cleanExpansion(text, lines[at]!)
}

describe('pice.expand', () => {
  it('expands each line of a sketch as the model would alone, with the shared prefix computed once, in packed steps', async () => {
    const sketch = linesOf(10)
    const { sentences, runs } = await run({ sketches: [{ messages, sketch, expectedTokens: 100 }] })
    for (const { sentence, text, tokens, meanLog2Probability } of sentences) {
      expect(text).toBe(await alone(sketch, sentence))
      expect(tokens).toBeGreaterThan(0)
      expect(meanLog2Probability).toBeLessThan(0)
    }
    const [{ groups, promptTokens, prefilledTokens, tokens }] = runs as [Expansion['runs'][number]]
    expect(groups).toBe(10)
    expect(1 - prefilledTokens / promptTokens).toBeGreaterThan(0.4)
    expect(tokens).toBe(sentences.reduce((sum, sentence) => sum + sentence.tokens, 0))
    // Not one step for each token.
    expect(steps.length).toBeLessThan(tokens / 3)
  })
})
