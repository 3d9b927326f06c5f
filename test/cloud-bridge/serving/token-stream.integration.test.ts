import { describe, expect, it } from 'vitest'
import { type ServedModel, splitModel, wholeModel } from '../../../cloud-bridge/serving/served-model.ts'
import type { Serving } from '../../../cloud-bridge/serving/serving.ts'
import type { TokenStream, TokenStreamRequest } from '../../../cloud-bridge/serving/token-stream.ts'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import type { Chain } from '../../../core/model/engine/contract.ts'
import { log2Probability } from '../../../core/model/engine/logprobs.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import { type SharedHead, shareHead } from '../../../core/model/engine/shared-head.ts'
import { decodeFirst } from '../../../core/policy/serving/decode-first.ts'
import type { ServingPolicy } from '../../../core/policy/serving/policy.ts'
import { createServingPolicy, servingPolicyNames } from '../../../lab/baselines/serving-policies.ts'
import { smallConfig, someIds, workshop } from '../../core/model/engine/models.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { randomStates } from '../../support/random-states.ts'
import { openStream, servedOf, testServing } from '../../support/serving.ts'
import { shared } from '../../support/shared.ts'

const ordinary = decodeFirst({ promptRows: 32, minPromptRows: 8, maxStepsSkipped: 4, decodingMs: 500 })
const sampled: Sampling = { temperature: 0.8, topK: 0, topP: 0.9, seed: 7 }

const bench = shared(() => workshop(smallConfig))
const split = shared(() => bench.open({ format: 'fp32', split: 1 }))
const whole = shared(() => bench.open({ format: 'fp32' }))
const reference = shared(() => split.chain({ cuts: 'half' }))

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

const request = ({ ids, sampling, maxTokens }: Asked): TokenStreamRequest => ({ ids, answered: [], eos: [], sampling, maxTokens })

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

/** KV of one position of an answer. */
const perPosition = () => servedOf(split).tokens!.bytesPerPosition

/** The ordinary policy, which preempts random answers before about half of its plans. */
function preempting(random: Random, onPreempt: () => void): ServingPolicy {
  return {
    plan(state, nowMs) {
      const plan = ordinary.plan(state, nowMs)
      const preempt = state.waiting.filter(({ residency }) => residency === 'resident' && random.next() < 0.2).map(({ id }) => id)
      if (preempt.length === 0) return plan
      onPreempt()
      return { ...plan, preempt, run: plan.run.filter(({ stream }) => !preempt.includes(stream)), lookAgainAtMs: nowMs }
    },
  }
}

describe('answers of the whole model', () => {
  it.each([1, 16])('are those of the reference with %i at once', async (count) => {
    const questions = asked(count)
    expect(await answerAll(testServing(servedOf(split)), questions)).toEqual(await expected(reference, questions))
  })

  it('begin their next step before their readers get the tokens of the last one', async () => {
    const events: string[] = []
    const model = servedOf(split)
    const serving = testServing({
      ...model,
      step: (items: Parameters<ServedModel['step']>[0]) => {
        events.push('step')
        return model.step(items)
      },
    } satisfies ServedModel)
    const stream = serving.openTokens('client', request(asked(1)[0]!))
    for (let isOver = false; !isOver; events.push('token')) isOver = (await stream.next()).end !== undefined
    expect(events.slice(0, 4)).toEqual(['step', 'step', 'token', 'step'])
    expect(events.filter((event) => event === 'token')).toHaveLength(asked(1)[0]!.maxTokens)
  })

  it('are those of the reference while devices send rows of their own', async () => {
    const questions = asked(8)
    const serving = testServing(servedOf(split))
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
    const serving = testServing(wholeModel(whole.chain({ cuts: 'full' })))
    expect(await answerAll(serving, questions)).toEqual(await expected(whole.chain({ cuts: 'full' }), questions))
  })

  it('are the same where they are preempted at random and computed again', async () => {
    const questions = asked(6)
    let preemptions = 0
    const policy = preempting(seededRandom(3), () => {
      preemptions += 1
    })
    const answers = await answerAll(testServing(servedOf(split), { policy }), questions)
    expect(answers).toEqual(await expected(reference, questions))
    expect(preemptions).toBeGreaterThan(10)
  })

  it.each(servingPolicyNames)('are those of the reference where %s shares out memory for a few of them', async (name) => {
    const questions = asked(10)
    const policy = createServingPolicy(name, { promptRows: 32, minPromptRows: 8 })
    const serving = testServing(servedOf(split), { policy, kv: { budgetBytes: 3 * 128 * perPosition() } })
    expect(await answerAll(serving, questions)).toEqual(await expected(reference, questions))
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('wait for one another where the memory holds only some of them, and never exceed it', async () => {
    const questions = asked(12)
    const budgetBytes = 3 * 128 * perPosition()
    let peakBytes = 0
    const policy: ServingPolicy = {
      plan(state, nowMs) {
        peakBytes = Math.max(peakBytes, state.memory.usedBytes)
        return ordinary.plan(state, nowMs)
      },
    }
    const serving = testServing(servedOf(split), { policy, kv: { budgetBytes } })
    expect(await answerAll(serving, questions)).toEqual(await expected(reference, questions))
    expect(peakBytes).toBeLessThanOrEqual(budgetBytes)
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('end, and free their memory, though no client takes their tokens', async () => {
    const serving = testServing(servedOf(split))
    const [question] = asked(1)
    const stream = serving.openTokens('client a', request(question!))
    await expect.poll(() => serving.metrics.tokens).toBe(question!.ids.length + question!.maxTokens - 1)
    await expect.poll(() => serving.memory.usedBytes).toBe(0)
    expect([await collect(stream)]).toEqual(await expected(reference, [question!]))
  })

  it('end with an end-of-text token', async () => {
    const [question] = asked(1)
    const [answer] = await expected(reference, [question!])
    const eos = [answer![4]!]
    const stream = testServing(servedOf(split)).openTokens('client a', { ...request(question!), eos })
    expect(await collect(stream)).toEqual(answer!.slice(0, answer!.indexOf(eos[0]!) + 1))
  })

  it('continue an answer at any position with the tokens that would have followed', async () => {
    const questions = asked(4)
    const answers = await expected(reference, questions)
    const serving = testServing(servedOf(split))
    for (const [at, { ids, sampling, maxTokens }] of questions.entries()) {
      const answered = answers[at]!.slice(0, 5)
      const rest = { ids: [...ids, ...answered], answered, eos: [], sampling, maxTokens: maxTokens - 5 }
      expect(await collect(serving.openTokens('client a', rest))).toEqual(answers[at]!.slice(5))
    }
  })
})

describe('the tokens of an answer so far', () => {
  /** By the reference. */
  async function scoresOf(chain: Chain, ids: readonly number[], answered: readonly number[]): Promise<number[]> {
    const { vocab } = chain.manifest.dims
    const sequence = chain.createSequence()
    try {
      const all = [...ids, ...answered]
      const logits = await chain.step([{ sequence, ids: all, select: answered.map((_, at) => ids.length - 1 + at) }])
      return answered.map((token, at) => log2Probability(logits.subarray(at * vocab, (at + 1) * vocab), token))
    } finally {
      sequence.release()
    }
  }

  const scoring = (ids: readonly number[], answered: readonly number[]): TokenStreamRequest => ({
    ids: [...ids, ...answered],
    answered,
    eos: [],
    sampling: greedy,
    maxTokens: 3,
    scoresAnswered: true,
  })

  it.each(['split', 'whole'] as const)('are scored where the request asks for it, by a %s model', async (kind) => {
    const [chain, model] =
      kind === 'split' ? [reference, servedOf(split)] : [whole.chain({ cuts: 'full' }), wholeModel(whole.chain({ cuts: 'full' }))]
    const serving = testServing(model, { kv: { prefixMs: 60_000 } })
    // Steps of 32 rows: the answer begins in any of them, and covers up to three; it begins with the prompt, too.
    for (const [prompt, count] of [
      [1, 70],
      [31, 5],
      [32, 40],
      [33, 1],
      [90, 64],
    ] as const) {
      const ids = someIds(split.manifest, prompt, prompt)
      const answered = someIds(split.manifest, count, count + 100)
      const stream = serving.openTokens('client', scoring(ids, answered))
      const { answeredLog2, choices } = await stream.next()
      const wanted = await scoresOf(chain, ids, answered)
      expect(answeredLog2).toHaveLength(count)
      for (const [at, score] of answeredLog2!.entries()) expect(score).toBeCloseTo(wanted[at]!, 3)
      // The tokens that follow are the same as without scores, and carry none.
      const rest: number[] = []
      for (let end: unknown; !end; ) {
        const next = await stream.next()
        expect(next.answeredLog2).toBeUndefined()
        rest.push(...next.choices.map(({ token }) => token))
        end = next.end
      }
      expect([[...choices.map(({ token }) => token), ...rest]]).toEqual(
        await expected(chain, [{ ids: [...ids, ...answered], sampling: greedy, maxTokens: 3 }]),
      )
    }
    await serving.close()
  })

  it('are scored with rows that are cached of the prompt, and none of their own', async () => {
    const serving = testServing(servedOf(split), { kv: { prefixMs: 60_000 } })
    const ids = someIds(split.manifest, 60, 1)
    const answered = someIds(split.manifest, 20, 2)
    const score = async (owner: string) => (await serving.openTokens(owner, scoring(ids, answered)).next()).answeredLog2!
    await collect(serving.openTokens('client', request({ ids, sampling: greedy, maxTokens: 2 })))
    const before = serving.metrics.tokens
    const first = await score('client')
    // All but the last row of the prompt are there.
    expect(serving.metrics.tokens - before).toBeLessThan(60)
    expect(serving.metrics.tokens - before).toBeGreaterThanOrEqual(20)
    // Another client has none of them, and gets the same scores.
    expect(await score('other')).toEqual(first)
    expect(serving.metrics.tokens - before).toBeGreaterThan(20 + 80)
    await serving.close()
  })

  it('are scored again from the beginning where the answer is preempted', async () => {
    let preemptions = 0
    const policy = preempting(seededRandom(5), () => {
      preemptions += 1
    })
    const serving = testServing(servedOf(split), { policy })
    const ids = someIds(split.manifest, 40, 1)
    const answered = someIds(split.manifest, 100, 2)
    const all = await Promise.all([1, 2, 3, 4].map((at) => serving.openTokens(`client ${at}`, scoring(ids, answered)).next()))
    const wanted = await scoresOf(reference, ids, answered)
    for (const { answeredLog2 } of all)
      for (const [at, score] of answeredLog2!.entries()) expect(score).toBeCloseTo(wanted[at]!, 3)
    expect(preemptions).toBeGreaterThan(0)
    await serving.close()
  })
})

describe('an answer that is closed early', () => {
  it('takes part in no step after the running one', async () => {
    const serving = testServing(servedOf(split))
    const stream = serving.openTokens('client a', request(asked(1)[0]!))
    await stream.next()
    const closing = stream.close()
    const { steps } = serving.metrics
    await closing
    expect(serving.memory.usedBytes).toBe(0)
    await serving.openTokens('client b', { ...request(asked(1)[0]!), maxTokens: 1 }).next()
    expect(serving.metrics.steps - steps).toBeLessThanOrEqual(2)
    await expect(stream.next()).rejects.toMatchObject({ code: 'CANCELED' })
  })

  it('rejects those that wait for its tokens, as does the end of serving', async () => {
    const serving = testServing(servedOf(split))
    const [first, second] = ['a', 'b'].map((name) => serving.openTokens(name, { ...request(asked(1)[0]!), maxTokens: 150 }))
    const taken = Promise.allSettled([first!, second!].map(collect))
    await first!.close()
    await serving.close()
    for (const each of await taken) expect(each).toMatchObject({ status: 'rejected', reason: { code: 'CANCELED' } })
    expect(serving.memory.usedBytes).toBe(0)
    await expect(collect(serving.openTokens('c', request(asked(1)[0]!)))).rejects.toMatchObject({ code: 'CANCELED' })
  })
})

describe('an answer whose logits cannot be read', () => {
  it('fails alone', async () => {
    const questions = asked(3)
    const model = servedOf(split)
    let reads = 0
    // One row of the third step has NaN.
    const head: SharedHead = {
      read: (states, look) =>
        shareHead(split.head(), split.manifest.dims.vocab).read(states, (logits, row) =>
          look(++reads === 7 ? logits.map(() => Number.NaN) : logits, row),
        ),
    }
    const serving = testServing({ ...model, step: splitModel(split.part('middle'), { input: split.part('input'), head }).step })
    const streams = questions.map((each, at) => serving.openTokens(`client ${at}`, request(each)))
    const answers = await Promise.allSettled(streams.map(collect))
    const failed = answers.filter(({ status }) => status === 'rejected')
    expect(failed).toMatchObject([{ reason: { code: 'RUNTIME_FAILED' } }])
    const wanted = await expected(reference, questions)
    answers.forEach((answer, at) => {
      if (answer.status === 'fulfilled') expect(answer.value).toEqual(wanted[at])
    })
    expect(serving.memory.usedBytes).toBe(0)
  })
})

describe('the KV that an answer leaves', () => {
  const kv = { prefixMs: 60_000 }

  it('spares the next turn of its client all positions but the new ones', async () => {
    const serving = testServing(servedOf(split), { kv })
    const [first] = asked(1)
    const answer = await collect(serving.openTokens('client a', request(first!)))
    const before = serving.metrics.tokens
    const next = { ids: [...first!.ids, ...answer, ...someIds(split.manifest, 9, 5)], sampling: greedy, maxTokens: 6 }
    const answers = [await collect(serving.openTokens('client a', request(next)))]
    // The last token of the answer was never computed, nor is that of this one.
    expect(serving.metrics.tokens - before).toBe(1 + 9 + 5)
    expect(answers).toEqual(await expected(reference, [next]))
    await serving.close()
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('is of no use to another client', async () => {
    const serving = testServing(servedOf(split), { kv })
    const [question] = asked(1)
    await collect(serving.openTokens('client a', request(question!)))
    const before = serving.metrics.tokens
    await collect(serving.openTokens('client b', request(question!)))
    expect(serving.metrics.tokens - before).toBe(before)
  })

  it('serves several answers that begin alike, as far as each does', async () => {
    const serving = testServing(servedOf(split), { kv })
    const common = someIds(split.manifest, 80, 9)
    const questions = [5, 6, 7].map((seed) => ({
      ids: [...common, ...someIds(split.manifest, 7, seed)],
      sampling: greedy,
      maxTokens: 4,
    }))
    await collect(serving.openTokens('client a', request(questions[0]!)))
    const before = serving.metrics.tokens
    const answers = await Promise.all(questions.slice(1).map((each) => collect(serving.openTokens('client a', request(each)))))
    expect(answers).toEqual(await expected(reference, questions.slice(1)))
    expect(serving.metrics.tokens - before).toBe(2 * (7 + 3))
  })

  it.each(servingPolicyNames)('is computed once for answers that begin at once under %s, for each client', async (name) => {
    const policy = createServingPolicy(name, { promptRows: 32, minPromptRows: 8 })
    const serving = testServing(servedOf(split), { policy })
    const ids = someIds(split.manifest, 100, 3)
    const questions = [1, 2, 3, 4].map((seed) => ({ ids, sampling: { ...sampled, seed }, maxTokens: 5 }))
    const ask = (owner: string) => Promise.all(questions.map((each) => collect(serving.openTokens(owner, request(each)))))
    const [first, second] = await Promise.all([ask('client a'), ask('client b')])
    const wanted = await expected(reference, questions)
    expect([first, second]).toEqual([wanted, wanted])
    // The last id of the prompt has no logits to copy, and the last token becomes no row.
    const least = 2 * (99 + 4 * (1 + 4))
    expect(serving.metrics.tokens).toBeGreaterThanOrEqual(least)
    // The rest of a prompt, below 16 rows, is not worth a wait.
    expect(serving.metrics.tokens).toBeLessThan(least + 2 * 3 * 16)
    expect(serving.memory.usedBytes).toBe(0)
  })

  it('gives its memory up to an answer that needs it', async () => {
    const budgetBytes = 128 * perPosition()
    const serving = testServing(servedOf(split), { kv: { ...kv, budgetBytes } })
    const questions = asked(3)
    const answers: number[][] = []
    for (const [at, each] of questions.entries()) answers.push(await collect(serving.openTokens(`client ${at}`, request(each))))
    expect(answers).toEqual(await expected(reference, questions))
    expect(serving.memory.usedBytes).toBeLessThanOrEqual(budgetBytes)
  })
})

describe('the queue of answers', () => {
  it('refuses one more than its limit, and takes others once those have begun or closed', async () => {
    const serving = testServing(servedOf(split), { maxWaitingAnswers: 2 })
    const open = () => serving.openTokens('client a', request(asked(1)[0]!))
    const [first, second] = [open(), open()]
    expect(open).toThrow(expect.objectContaining({ code: 'QUEUE_FULL', retryAfterMs: 1_000 }))
    await second.close()
    const third = open()
    await Promise.all([collect(first), collect(third)])
    expect(serving.waitingAnswers).toBe(0)
  })
})

describe('the reader of an answer', () => {
  /** The rates of all readers that the policy has seen, oldest first. */
  function watching() {
    const rates: (number | undefined)[] = []
    const policy: ServingPolicy = {
      plan(state, nowMs) {
        for (const { reader } of state.waiting) if (rates.at(-1) !== reader?.tokensPerS) rates.push(reader?.tokensPerS)
        return ordinary.plan(state, nowMs)
      },
    }
    return { rates, policy }
  }

  it('takes tokens at the rate that it states, however it drains them', async () => {
    const { rates, policy } = watching()
    const serving = testServing(servedOf(split), { policy })
    await collect(serving.openTokens('client a', { ...request(asked(1)[0]!), tokensPerS: 20 }))
    expect(rates).toEqual([20])
  })

  it('reads like a person, until it lets tokens wait: then as fast as it takes them', async () => {
    const { rates, policy } = watching()
    const clock = fakeClock()
    const serving = testServing(servedOf(split), { policy, clock })
    const stream = serving.openTokens('client a', { ...request(asked(1)[0]!), maxTokens: 200 })
    // The clock stands still while the model computes: a client that waits for tokens shows no rate.
    for (let token = 0; token < 3; token++) await stream.next()
    expect(rates).toEqual([5])
    const { choices } = await stream.next()
    const { tokens } = serving.metrics
    await expect.poll(() => serving.metrics.tokens).toBeGreaterThan(tokens + 9)
    await clock.advance(100 * choices.length)
    await stream.next()
    await expect.poll(() => rates.at(-1)).toBe(10)
    await stream.close()
  })
})
