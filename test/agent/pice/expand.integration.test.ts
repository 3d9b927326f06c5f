import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobHandler } from '../../../agent/jobs/job-handler.ts'
import { piceExpand } from '../../../agent/pice/expand.ts'
import type { SmallModels } from '../../../agent/pice/small-models.ts'
import { type LocalModel, openLocalModel } from '../../../agent/slm/local-model.ts'
import type { Endpoint } from '../../../core/answer/endpoint/endpoint.ts'
import { cleanExpansion } from '../../../core/answer/sketch/clean-expansion.ts'
import { expandInstruction, type PicePrompts, withInstruction } from '../../../core/answer/sketch/prompts.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { generate } from '../../../core/model/engine/generate.ts'
import { logprobsOf } from '../../../core/model/engine/logprobs.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import type { ChatMessage } from '../../../core/model/text/chat-message.ts'
import { coverage, leastCoverage } from '../../../core/policy/pice/coverage.ts'
import { type ExpandedSentence, Expansion } from '../../../core/wire/protocol/expansion.ts'
import { resultProblem } from '../../../core/wire/protocol/jobs.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { silentLogger } from '../../support/silent-logger.ts'

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

const speed = { loadS: 0, ttftS: 0.01, tpotS: 0.001, parallel: [[16, 8] as const], ability: undefined }
interface Device {
  readonly names?: readonly string[]
  readonly kvBytes?: number
  readonly borrow?: SmallModels['borrow']
}
const recorded: Parameters<SmallModels['record']>[0][] = []

/** A device with models of these names, all of them the same one. */
function deviceWith({ names = ['slm'], kvBytes = 2 ** 28, borrow }: Device): JobHandler {
  const models: SmallModels = {
    list: () => names.map((model) => ({ ...speed, model })),
    current: names[0],
    borrow: borrow ?? (async () => ({ open: { kind: 'bundle', prompts, model: counted }, loadMs: 0, release() {} })),
    record: (run) => void recorded.push(run),
  }
  const options = { jobsWaiting: () => 0, kvBytes: () => kvBytes, clock: systemClock, nextSeed: () => 1, logger: silentLogger() }
  return piceExpand({ models, ...options })
}

interface RunOptions {
  readonly signal?: AbortSignal
  readonly finished?: readonly ExpandedSentence[]
  readonly onSentence?: (sentence: ExpandedSentence) => void
  readonly device?: Device
  readonly events?: ExpandedSentence[]
}

async function run(input: object, options: RunOptions = {}) {
  const { signal = AbortSignal.timeout(60_000), finished = [], onSentence, device = {}, events = [] } = options
  steps = []
  const job = {
    id: 'bridge-1 0-1',
    link: 'mqtt://a',
    progress() {},
    waitedMs: 0,
    finishedSentences: finished,
    sentence(written: ExpandedSentence) {
      events.push(written)
      onSentence?.(written)
    },
  }
  const result = await deviceWith(device)(input, () => {}, signal, job)
  expect(resultProblem('pice.expand', input, result)).toBeUndefined()
  const expansion = Expansion.parse(result)
  expect(events).toEqual(expansion.sentences)
  return expansion
}

/** Lines that the model covers by itself, and others that nobody would write. */
const usualLines = ['summer heat rest shade', 'pull plug not way', 'someone sick clean hands', 'tired go leave tomorrow']

/** What the model alone makes of the line. @param shown the part of the sketch in its prompt */
const alone = async (lines: readonly string[], at: number, shown = lines): Promise<string> =>
  (await writtenAlone(lines, at, shown)).text

/** With the mean log2 p of its tokens, from one step over all of them. */
async function writtenAlone(lines: readonly string[], at: number, shown = lines) {
  const chat = withInstruction(
    messages,
    expandInstruction(prompts, shown, { line: lines[at]!, at, count: lines.length, tokens: 10 }),
  )
  const promptIds = await model.text.prompts.encode({ kind: 'chat', messages: chat }, '', AbortSignal.timeout(30_000))
  let text = ''
  const ids: number[] = []
  for await (const event of generate(model.chain, model.text.tokenizer, {
    promptIds,
    sampling: greedy,
    maxTokens: 46,
    clock: systemClock,
  }))
    if (event.kind === 'token' && !model.text.eos.includes(event.token)) {
      text += event.text
      ids.push(event.token)
    }
  const sequence = model.chain.createSequence()
  const select = ids.map((_, i) => promptIds.length - 1 + i)
  const logits = await model.chain.step([{ sequence, ids: [...promptIds, ...ids.slice(0, -1)], select }])
  sequence.release()
  const { vocab } = model.chain.manifest.dims
  const log2 = ids.map((id, i) => logprobsOf(logits.subarray(i * vocab, (i + 1) * vocab), id, 1).logprob / Math.LN2)
  const meanLog2Probability = log2.reduce((sum, each) => sum + each, 0) / ids.length
  return { text: cleanExpansion(text, lines[at]!).text, meanLog2Probability }
}

describe('pice.expand', () => {
  it('expands each line of a sketch as the model would alone, with the shared prefix computed once, in packed steps', async () => {
    const sketch = [...usualLines, ...linesOf(6)]
    const { sentences, runs } = await run({ sketches: [{ messages, sketch, expectedTokens: 100 }] })
    let covered = 0
    for (const { sentence, text, tokens, meanLog2Probability } of sentences) {
      const { text: own, meanLog2Probability: ownLog2 } = await writtenAlone(sketch, sentence)
      const share = coverage(sketch[sentence]!, own)
      if (share >= leastCoverage) {
        covered += 1
        expect(text).toBe(own)
        expect(meanLog2Probability).toBeCloseTo(ownLog2, 2)
      } else expect(coverage(sketch[sentence]!, text)).toBeGreaterThanOrEqual(share)
      expect(tokens).toBeGreaterThan(0)
      expect(meanLog2Probability).toBeLessThan(0)
    }
    expect(covered).toBeGreaterThan(0)
    const [{ groups, promptTokens, prefilledTokens, tokens }] = runs as [Expansion['runs'][number]]
    expect(groups).toBe(10)
    expect(1 - prefilledTokens / promptTokens).toBeGreaterThan(0.4)
    expect(tokens).toBe(sentences.reduce((sum, sentence) => sum + sentence.tokens, 0))
    // Not one step for each token.
    expect(steps.length).toBeLessThan(tokens / 3)
    expect(recorded.at(-1)).toMatchObject({ model: 'slm', tokens })
  })

  it('packs the lines of several sketches into the same steps', async () => {
    const sketches = [linesOf(3), usualLines, linesOf(5)].map((sketch) => ({ messages, sketch, expectedTokens: 40 }))
    const { sentences } = await run({ sketches })
    expect(Math.max(...steps)).toBe(12)
    for (const { sketch, sentence, text } of sentences) {
      const { sentences: others } = await run({ sketches: [{ ...sketches[sketch]!, sentences: [sentence] }] })
      expect(text).toBe(others[0]!.text)
    }
  })

  it('writes a text with less than half of its key words again, led to them', async () => {
    const sketch = linesOf(8)
    const { sentences } = await run({ sketches: [{ messages, sketch, expectedTokens: 160 }] })
    const led = await Promise.all(
      sentences.map(async ({ sentence, text }) => {
        const line = sketch[sentence]!
        return { before: coverage(line, await alone(sketch, sentence)), after: coverage(line, text) }
      }),
    )
    const poor = led.filter(({ before }) => before < leastCoverage)
    expect(poor.length).toBeGreaterThan(4)
    for (const { before, after } of poor) expect(after).toBeGreaterThanOrEqual(before)
    expect(poor.filter(({ after }) => after >= leastCoverage).length).toBeGreaterThanOrEqual(poor.length / 3)
  })

  it('expands only the lines that are asked for, and repeats those of an earlier attempt', async () => {
    const sketch = linesOf(6)
    const input = { sketches: [{ messages, sketch, sentences: [1, 2, 5], expectedTokens: 60 }] }
    const before = await run(input)
    const finished = before.sentences.filter(({ sentence }) => sentence !== 2)
    const foreign = { ...finished[0]!, sentence: 4 }
    const after = await run(input, { finished: [...finished, foreign, finished[0]!] })
    expect(after.sentences).toEqual([...finished, before.sentences.find(({ sentence }) => sentence === 2)])
    expect(after.runs).toMatchObject([{ groups: 1 }])
    expect((await run(input, { finished: after.sentences })).runs).toEqual([])
    expect(steps).toEqual([])
  })

  it('ends within one step of its cancellation, and keeps what it has reported', async () => {
    const canceled = new AbortController()
    const events: ExpandedSentence[] = []
    let stepsAtCancel: number | undefined
    const running = run(
      { sketches: [{ messages, sketch: linesOf(8), expectedTokens: 300 }] },
      {
        events,
        signal: canceled.signal,
        onSentence() {
          stepsAtCancel ??= steps.length
          canceled.abort()
        },
      },
    )
    await expect(running).rejects.toMatchObject({ code: 'CANCELED' })
    expect(events.length).toBeGreaterThan(0)
    expect(steps.length - stepsAtCancel!).toBeLessThanOrEqual(1)
  })

  it('continues the conversation with the next line where groups are merged', async () => {
    const { sentences, runs } = await run({ sketches: [{ messages, sketch: linesOf(18), expectedTokens: 90 }] })
    expect(runs).toMatchObject([{ groups: 9 }])
    expect(new Set(sentences.map(({ sentence }) => sentence)).size).toBe(18)
    expect(sentences.every(({ text }) => text !== '')).toBe(true)
  })

  it('expands one line after another where memory holds one sequence', async () => {
    const sketch = linesOf(5)
    const { sentences } = await run({ sketches: [{ messages, sketch, expectedTokens: 50 }] }, { device: { kvBytes: 1 } })
    expect(Math.max(...steps)).toBe(1)
    expect(sentences[4]!.text).toBe(await alone(sketch, 4))
  })

  it.each([1, 100])('expands a sketch of %i lines', { timeout: 60_000 }, async (count) => {
    const sketch = linesOf(count)
    const { sentences } = await run({ sketches: [{ messages, sketch, expectedTokens: 2 * count }] })
    expect(sentences).toHaveLength(count)
    expect(sentences.every(({ text }) => text !== '')).toBe(true)
  })

  it('refuses a query that leaves no room for a line, after the sketches beside it', async () => {
    const long = [{ role: 'user', content: 'word '.repeat(3_000) }]
    const events: ExpandedSentence[] = []
    const sketches = [long, messages].map((query) => ({ messages: query, sketch: linesOf(2), expectedTokens: 20 }))
    await expect(run({ sketches }, { events })).rejects.toMatchObject({ code: 'CONTEXT_OVERFLOW' })
    expect(events.map(({ sketch }) => sketch)).toEqual([1, 1])
  })

  describe('with several candidates', () => {
    const input = { sketches: [{ messages, sketch: linesOf(3), expectedTokens: 30, candidates: 3, seed: 7 }] }
    const candidatesOf = ({ sentences }: Expansion, sentence: number) =>
      sentences.filter((written) => written.sentence === sentence).sort((a, b) => a.candidate - b.candidate)

    it('takes samples of one model, which differ, and are the same again with the same seed', async () => {
      const first = await run(input)
      const texts = candidatesOf(first, 1).map(({ text }) => text)
      expect(new Set(texts).size).toBe(3)
      expect(texts[0]).toBe(await alone(linesOf(3), 1))
      expect(candidatesOf(await run(input), 1).map(({ text }) => text)).toEqual(texts)
    })

    it('takes other models first', async () => {
      const expansion = await run(input, { device: { names: ['small', 'large'] } })
      expect(candidatesOf(expansion, 0).map(({ model }) => model)).toEqual(['large', 'small', 'large'])
      expect(expansion.runs.map(({ model, groups }) => [model, groups])).toEqual([
        ['large', 6],
        ['small', 3],
      ])
    })

    it('takes samples instead of a model that cannot be opened', async () => {
      const borrow: SmallModels['borrow'] = async (name) => {
        if (name === 'small') throw new BrimError('OUT_OF_MEMORY', 'too large')
        return { open: { kind: 'bundle', prompts, model: counted }, loadMs: 0, release() {} }
      }
      const expansion = await run(input, { device: { names: ['small', 'large'], borrow } })
      const written = candidatesOf(expansion, 0)
      expect(written.map(({ model }) => model)).toEqual(['large', 'large', 'large'])
      expect(new Set(written.map(({ text }) => text)).size).toBe(3)
    })
  })

  it.each([
    ['that gives log-probabilities', [-Math.LN2, -3 * Math.LN2], -2],
    ['that gives none', undefined, null],
  ])('asks a server %s for each line', async (_, logprobs, meanLog2Probability) => {
    const asked: ChatMessage[] = []
    const endpoint: Endpoint = {
      model: { name: 'server' },
      async *answer({ prompt }) {
        const { messages: chat } = prompt.asText() as { messages: readonly ChatMessage[] }
        asked.push(chat.at(-1)!)
        const source = { kind: 'upstream', model: { name: 'server' } } as const
        yield { source, text: `Written out ${asked.length}.`, tokenCount: 2, ...(logprobs && { logprobs }), end: undefined }
        yield { source, text: '', tokenCount: 0, promptTokens: 20, end: 'stop' }
      },
    }
    const borrow: SmallModels['borrow'] = async () => ({ open: { kind: 'server', prompts, endpoint }, loadMs: 0, release() {} })
    const { sentences, runs } = await run(
      { sketches: [{ messages, sketch: linesOf(3), expectedTokens: 30 }] },
      { device: { borrow } },
    )
    expect(sentences).toHaveLength(3)
    expect(sentences[0]).toMatchObject({ text: 'Written out 1.', tokens: 2, meanLog2Probability })
    expect(runs).toMatchObject([{ groups: 3, promptTokens: 60, prefilledTokens: 60 }])
    expect(asked[2]!.content).toContain(linesOf(3)[2])
  })

  it('tells which sentence its server has cut', async () => {
    const source = { kind: 'upstream', model: { name: 'server' } } as const
    const replies = ['Written to its', 'One line.\nAnd the next', 'Whole.']
    const endpoint: Endpoint = {
      model: { name: 'server' },
      async *answer() {
        const text = replies.shift()!
        yield { source, text, tokenCount: 3, end: text === 'Whole.' ? 'stop' : 'length' }
      },
    }
    const borrow: SmallModels['borrow'] = async () => ({ open: { kind: 'server', prompts, endpoint }, loadMs: 0, release() {} })
    const asked = { messages, sketch: linesOf(3), expectedTokens: 30 }
    const { sentences } = await run({ sketches: [asked] }, { device: { borrow } })
    const ends = sentences.toSorted((a, b) => a.sentence - b.sentence).map(({ text, end }) => [text, end])
    // Of the second, what was cut is not kept.
    expect(ends).toEqual([
      ['Written to its', 'length'],
      ['One line.', 'stop'],
      ['Whole.', 'stop'],
    ])
  })
})
