import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type ServedModel, splitModel, wholeModel } from '../../../cloud-bridge/serving/served-model.ts'
import type { Serving } from '../../../cloud-bridge/serving/serving.ts'
import type { TokenRequest, TokenStream } from '../../../cloud-bridge/serving/token-stream.ts'
import { seededRandom } from '../../../core/base/random.ts'
import type { Chain } from '../../../core/engine/contract.ts'
import type { LoadedModel } from '../../../core/engine/open-model.ts'
import { referenceAnswer } from '../../../core/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/engine/sampler.ts'
import { shareHead } from '../../../core/engine/shared-head.ts'
import { smallConfig, someIds, type Workshop, workshop } from '../../core/engine/models.ts'
import { randomStates } from '../../support/random-states.ts'
import { openStream, testServing } from '../../support/serving.ts'

const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 0.9, seed: 7 }

let bench: Workshop
let split: LoadedModel
let whole: LoadedModel
let reference: Chain
beforeAll(async () => {
  bench = await workshop(smallConfig)
  split = await bench.open({ format: 'fp32', split: 1 })
  whole = await bench.open({ format: 'fp32' })
  reference = split.chain({ cuts: 'half' })
})
afterAll(() => bench[Symbol.asyncDispose]())

const served = (): ServedModel => {
  const head = shareHead(split.head(), split.manifest.dims.vocab)
  return splitModel(split.part('middle'), { input: split.part('input'), head })
}

interface Asked {
  readonly ids: number[]
  readonly sampling: Sampling
  readonly maxTokens: number
}

/** Prompts of many lengths, half of them sampled. */
const asked = (count: number): Asked[] =>
  Array.from({ length: count }, (_, at) => ({
    ids: someIds(split.manifest, 3 + ((at * 17) % 90), at + 1),
    sampling: at % 2 === 0 ? greedy : { ...sampled, seed: at },
    maxTokens: 12 + (at % 5),
  }))

const request = ({ ids, sampling, maxTokens }: Asked): TokenRequest => ({ ids, answered: [], eos: [], sampling, maxTokens })

async function collect(stream: TokenStream): Promise<number[]> {
  const tokens: number[] = []
  for (;;) {
    const { choices, end } = await stream.next()
    tokens.push(...choices.map(({ token }) => token))
    if (end) return tokens
  }
}

const answerAll = (serving: Serving, questions: readonly Asked[]) =>
  Promise.all(questions.map((each, at) => collect(serving.openTokens(`client ${at}`, request(each)))))

async function expected(chain: Chain, questions: readonly Asked[]): Promise<number[][]> {
  const answers: number[][] = []
  for (const { ids, sampling, maxTokens } of questions) answers.push(await referenceAnswer(chain, ids, sampling, maxTokens, []))
  return answers
}

/** A device whose frames keep coming until it is told to stop. */
async function device(serving: Serving, seed: number, isDone: () => boolean): Promise<void> {
  const random = seededRandom(seed)
  const stream = await openStream(serving, `device-${seed}`)
  while (!isDone()) {
    const rows = 1 + Math.floor(random.next() * 6)
    const { length } = stream
    await stream.append({ states: randomStates(rows, split.manifest.dims.hidden, seed + length), select: 'all' })
    stream.truncate(length > 40 ? 8 : length + 1)
  }
  await stream.close()
}

describe('answers of the whole model', () => {
  it.each([1, 16])('are those of the reference with %i at once', async (count) => {
    const questions = asked(count)
    expect(await answerAll(testServing(served()), questions)).toEqual(await expected(reference, questions))
  })

  it('are those of the reference while devices send rows of their own', async () => {
    const questions = asked(8)
    const serving = testServing(served())
    let done = false
    const devices = [1, 2, 3].map((seed) => device(serving, seed, () => done))
    const answers = await answerAll(serving, questions)
    done = true
    await Promise.all(devices)
    expect(answers).toEqual(await expected(reference, questions))
    expect(serving.metrics.batches.slice(9).some((steps) => steps > 0)).toBe(true)
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('come from a bundle without a split, too', async () => {
    const questions = asked(4)
    const serving = testServing(wholeModel(whole.chain({ cuts: 'full' }), whole.manifest.parts.whole!))
    expect(await answerAll(serving, questions)).toEqual(await expected(whole.chain({ cuts: 'full' }), questions))
  })
})
