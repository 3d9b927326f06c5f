import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tokenizerFolder } from '../../../core/model/bundle/manifest.ts'
import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import { adapterLookupDrafter } from '../../../core/model/draft/adapter-lookup-drafter.ts'
import type { Drafter } from '../../../core/model/draft/drafter.ts'
import { noDrafter } from '../../../core/model/draft/drafter.ts'
import { lookupDrafter } from '../../../core/model/draft/lookup-drafter.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { loadChatTemplate } from '../../../core/model/text/chat-template.ts'
import { type FilePrompt, readPrompts } from '../../../core/model/text/prompt-file.ts'
import { loadTokenizer } from '../../../core/model/text/tokenizer.ts'
import { medusaDrafter } from '../../../lab/baselines/medusa-drafter.ts'
import { acceptanceBench } from '../../../lab/bench/acceptance/bench.ts'
import { answerGreedily, replay } from '../../../lab/bench/acceptance/replay.ts'
import { type AcceptanceRun, type DrafterKind, drafters } from '../../../lab/bench/acceptance/report.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { buildDrafterBundle } from '../../support/drafter-bundle.ts'
import { type HatWorld, startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const maxTokens = 40
const lines = [
  { prompt: 'The rabbit ran to the river and the rabbit ran to the', task: 'story', id: 'rabbit' },
  { prompt: 'a', task: 'letters', id: 'a' },
  { messages: [{ role: 'user', content: 'Where is the king of the north?' }], task: 'story', id: 'king' },
]

const dir = shared(tempDir)
let bundle: string
let file: string
let world: HatWorld
let prompts: FilePrompt[]
/** Of each prompt. */
let references: number[][]
beforeAll(async () => {
  bundle = await buildDrafterBundle(dir.path)
  file = join(dir.path, 'prompts.jsonl')
  writeFileSync(file, lines.map((line) => JSON.stringify(line)).join('\n'))
  world = await startHatWorld({ bundle, settings: { chunkTokens: 8 } })
  const texts = join(bundle, tokenizerFolder)
  const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(texts), loadChatTemplate(texts)])
  prompts = await readPrompts(file, { tokenizer, chatTemplate, check() {} })
  references = []
  for (const { ids } of prompts)
    references.push(await referenceAnswer(world.chain, ids, greedy, maxTokens, world.model.manifest.tokens.eos))
})
afterAll(() => world[Symbol.asyncDispose]())

const bench = async (argv: readonly string[], signal?: AbortSignal) => {
  const captured = captureIo(signal ? { signal } : {})
  await brim(['bench', 'acceptance', ...argv], captured.io)
  return captured
}
const measure = async (argv: readonly string[]) => {
  const { out } = await bench(['--bundle', bundle, '--prompts', file, '--max-tokens', String(maxTokens), '--json', ...argv])
  return JSON.parse(out()) as {
    conditions: Record<string, unknown>
    summary: Record<string, number | null>
    runs: AcceptanceRun[]
  }
}

describe('brim bench acceptance', () => {
  // A random adapter is never certain: with 0 all drafts have maximum length, with 0.6 minimum length.
  it.each([0, 0.02, 0.6])('drafts and accepts the same tokens as HAT sessions with a bridge (η = %d)', async (threshold) => {
    const { runs } = await measure(['--threshold', String(threshold), '--draft-limit', '4'])
    const adapter = (name: 'adapter' | 'adapter-paper') => adapterDrafter(world.model.part(name), world.head, greedy)
    const sessions: Partial<Record<DrafterKind, () => Drafter>> = {
      adapter: () => adapter('adapter'),
      'adapter-paper': () => adapter('adapter-paper'),
      lookup: lookupDrafter,
      'adapter+lookup': () => adapterLookupDrafter(adapter('adapter'), threshold),
      none: noDrafter,
    }
    const totals: Partial<Record<DrafterKind, number>> = {}
    for (const [drafter, createDrafter] of Object.entries(sessions) as [DrafterKind, () => Drafter][])
      for (const [at, { id, ids }] of prompts.entries()) {
        const { eos } = world.model.manifest.tokens
        const options = { createDrafter, threshold, draftLimit: 4 }
        const { tokens, rounds, figures } = await world.answer({ prompt: [...ids], maxTokens, eos }, options)
        expect(tokens).toEqual(references[at])
        const run = runs.find((one) => one.drafter === drafter && one.id === id)!
        expect(run.rounds.split(' '), `${drafter} on ${id}`).toEqual(
          rounds.slice(1).map(({ drafted, accepted }) => `${drafted}/${accepted}`),
        )
        expect(run).toMatchObject({ drafted: figures.drafted, accepted: figures.accepted, answerTokens: tokens.length })
        totals[drafter] = (totals[drafter] ?? 0) + figures.accepted
      }
    expect(totals.none).toBe(0)
    expect(totals.adapter).toBeGreaterThan(0)
    expect(totals['adapter-paper']).toBeGreaterThan(0)
    expect(totals.lookup).toBeGreaterThan(0)
  })

  it('accepts the paths of the Medusa tree that the answer takes', async () => {
    const { manifest } = world.model
    const { vocab, hidden } = manifest.dims
    const heads = world.model.medusa()
    const { model, chain, head } = world
    const parts = { manifest, input: model.part('input'), middle: model.part('middle'), chain, head }
    const limits = { threshold: 0.6, draftLimit: 8 }
    for (const { ids } of prompts) {
      const answered = await answerGreedily(parts, ids, maxTokens)
      const rounds = await replay(medusaDrafter(heads, vocab), parts, answered, limits)
      const { answer, deep } = answered
      let at = 0
      for (const { accepted, drafted, longest } of rounds) {
        const half = deep.half.slice(at * hidden, (at + 1) * hidden)
        const logits = await heads.guess({ rows: 1, width: hidden, half })
        const rankOf = (head: number, token: number) => {
          const own = logits.subarray(head * vocab, (head + 1) * vocab)
          return own.reduce((rank, logit) => (logit > own[token]! ? rank + 1 : rank), 0)
        }
        const rest = answer.slice(at + 1)
        const isRight = (path: readonly number[]) =>
          path.length <= rest.length && path.every((rank, head) => rankOf(head, rest[head]!) === rank)
        expect(accepted).toBe(Math.max(0, ...heads.tree.filter(isRight).map(({ length }) => length)))
        const deepest = Math.min(4, answered.maxTokens - at - 2)
        expect({ drafted, longest }).toEqual({
          drafted: heads.tree.filter(({ length }) => length <= deepest).length,
          longest: deepest,
        })
        at += accepted + 1
      }
      expect(at).toBeGreaterThanOrEqual(answer.length - 1)
    }
  })

  it('prints one document with the accept length and rounds of every drafter', async () => {
    const { conditions, summary, runs } = await measure([])
    expect(new Set(runs.map(({ drafter }) => drafter))).toEqual(new Set(drafters))
    expect(runs).toHaveLength(drafters.length * lines.length)
    expect(conditions).toMatchObject({ maxTokens, threshold: 0.6, draftLimit: 8, answers: 3, features: true })
    for (const [key, drafter] of [
      ['acceptLengthAdapter', 'adapter'],
      ['acceptLengthAdapterPaper', 'adapter-paper'],
      ['acceptLengthMedusa', 'medusa'],
      ['acceptLengthLookup', 'lookup'],
      ['acceptLengthAdapterLookup', 'adapter+lookup'],
    ] as const) {
      const own = runs.filter((run) => run.drafter === drafter)
      const tokens = own.reduce((sum, { answerTokens }) => sum + answerTokens - 1, 0)
      const rounds = own.reduce((sum, run) => sum + run.rounds.split(' ').length, 0)
      expect(summary[key]).toBeCloseTo(tokens / rounds, 10)
      expect(summary[key]).toBeGreaterThanOrEqual(1)
    }
    const none = runs.filter(({ drafter }) => drafter === 'none')
    expect(
      none.every(
        ({ rounds, answerTokens }) =>
          rounds ===
          Array(answerTokens - 1)
            .fill('0/0')
            .join(' '),
      ),
    ).toBe(true)
  })

  it('omits drafters that the bundle does not have; their figures are null', async () => {
    const plain = await buildTextBundle(dir.path, { adapter: false })
    const { out } = await bench(['--bundle', plain, '--prompts', file, '--max-tokens', '8', '--json'])
    const { summary, runs } = JSON.parse(out())
    expect(summary).toMatchObject({ acceptLengthAdapter: null, acceptLengthAdapterPaper: null, acceptLengthMedusa: null })
    expect(summary.acceptLengthLookup).toBeGreaterThanOrEqual(1)
    expect(new Set(runs.map((run: AcceptanceRun) => run.drafter))).toEqual(new Set(['lookup', 'none']))
  })

  it('prints tables, and writes document, figure and page to --out', async () => {
    const folder = join(dir.path, 'results')
    const { out, err } = await bench(['--bundle', bundle, '--prompts', file, '--quick', '--out', folder])
    expect(out()).toMatch(/drafter +all +without loops +letters +story/)
    expect(out()).toMatch(/none +1\.00/)
    expect(err()).toContain('prompt 1 of 3: rabbit')
    const [json, svg, page] = ['json', 'svg', 'md'].map((ending) => readFileSync(join(folder, `acceptance.${ending}`), 'utf8'))
    expect(JSON.parse(json!)).toMatchObject({ bench: 'acceptance', conditions: { maxTokens: 64 } })
    expect(svg).not.toMatch(/NaN|undefined|Infinity/)
    for (const drafter of drafters.filter((kind) => kind !== 'none')) expect(svg).toContain(`>${drafter}</text>`)
    expect(page).toContain('| acceptLengthAdapter |')
    expect(page).not.toMatch(/undefined|NaN|\[object/)
  })

  it('limits answers to the context', async () => {
    const long = join(dir.path, 'long.jsonl')
    const room = 10
    const { contextLimit } = world.model.manifest.dims
    const texts = join(bundle, tokenizerFolder)
    const [tokenizer, chatTemplate] = await Promise.all([loadTokenizer(texts), loadChatTemplate(texts)])
    const encoded = (words: number) => {
      writeFileSync(long, JSON.stringify({ prompt: 'a '.repeat(words) }))
      return readPrompts(long, { tokenizer, chatTemplate, check() {} })
    }
    let words = 1
    while ((await encoded(words + 1))[0]!.ids.length <= contextLimit - room) words++
    const [prompt] = await encoded(words)
    const { out } = await bench(['--bundle', bundle, '--prompts', long, '--json', '--threshold', '0'])
    const runs = JSON.parse(out()).runs as AcceptanceRun[]
    expect(runs.every(({ promptTokens, answerTokens }) => promptTokens + answerTokens <= contextLimit)).toBe(true)
    expect(runs[0]!.promptTokens).toBe(prompt!.ids.length)
    await encoded(words + 20)
    await expect(bench(['--bundle', bundle, '--prompts', long])).rejects.toMatchObject({
      code: 'CONTEXT_OVERFLOW',
      message: expect.stringContaining('long.jsonl, line 1: '),
    })
  })

  it.each([
    ['--threshold', '2'],
    ['--draft-limit', '0'],
    ['--max-tokens', '1.5'],
  ])('rejects %s %s', async (option, value) => {
    await expect(bench(['--bundle', bundle, '--prompts', file, option, value])).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining(option),
    })
  })

  it.each(['--bundle', '--prompts', '--max-tokens', '--threshold', '--draft-limit'])(
    'requires a value for %s',
    async (option) => {
      await expect(bench([option])).rejects.toThrow(/Not enough arguments/)
    },
  )

  it('escapes task names in its page', async () => {
    const piped = join(dir.path, 'piped.jsonl')
    writeFileSync(piped, '{"prompt": "a", "task": "a|b"}')
    const folder = join(dir.path, 'piped')
    await bench(['--bundle', bundle, '--prompts', piped, '--max-tokens', '2', '--out', folder])
    const page = readFileSync(join(folder, 'acceptance.md'), 'utf8')
    expect(page).toContain('| drafter | all | without loops | a\\|b | drafted | accepted |')
  })

  it('stops when it is interrupted, even during an answer', async () => {
    const stop = new AbortController()
    stop.abort(new Error('interrupted'))
    await expect(bench(['--bundle', bundle, '--prompts', file], stop.signal)).rejects.toThrow('interrupted')

    const later = new AbortController()
    const captured = captureIo({ signal: later.signal })
    const context = { quick: false, io: captured.io, progress: () => setImmediate(() => later.abort(new Error('enough'))) }
    const options = { bundle, prompts: file, maxTokens: 200, threshold: 0.6, draftLimit: 8 }
    await expect(acceptanceBench.run(context, options)).rejects.toThrow('enough')
  })
})
