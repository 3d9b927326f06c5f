import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../../../../brim.ts'
import { loadTextModel, type TextModel } from '../../../../core/answer/endpoint/text-model.ts'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { openBundle } from '../../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../../core/model/engine/open-model.ts'
import { type Attack, auditPrivacy } from '../../../../core/model/privacy/audit.ts'
import { onWire, type Sending } from '../../../../core/model/privacy/observation.ts'
import { noisy } from '../../../../lab/bench/privacy/disguises.ts'
import { ensureDemoBundle } from '../../../../lab/cluster/demo-bundles.ts'
import { captureIo } from '../../../support/captured-io.ts'
import { tempDir } from '../../../support/temp-dir.ts'
import { tinyBundle } from '../../../support/tiny-bundle.ts'

const questions = [
  'Can you book a table for Eleanora Vandermeer at 7 pm on Thursday?',
  'My number is 555 1234, please send the results of the biopsy to Doctor Marsh.',
]
const training = Array.from({ length: 20 }, (_, at) => `In ${1900 + at} the doctor sent a table to the house by the sea.`)

let folder: string
let model: LoadedModel
let text: TextModel
beforeAll(async () => {
  folder = await ensureDemoBundle()
  model = await openBundle(folder, { parts: 'chain', threads: 1 })
  text = await loadTextModel(folder, model.manifest)
})
afterAll(() => model.release())

const encode = (content: string) => text.tokenizer.encode(content, { addSpecialTokens: false })
const prompt = (content: string) => encode(text.chatTemplate!.render([{ role: 'user', content }]))

async function audited(send: Sending, asked = questions) {
  const found = await auditPrivacy({
    model,
    send,
    prompts: asked.map(prompt),
    training: training.map(encode),
    answerTokens: 12,
    decode: (ids) => text.tokenizer.decode([...ids]),
    random: seededRandom(1),
    now: () => 0,
  })
  return (attack: Attack, on: 'prompt' | 'answer') => found.find((each) => each.attack === attack && each.text === on)!
}

describe('an attacker at the bridge', { timeout: 120_000 }, () => {
  let plain: Awaited<ReturnType<typeof audited>>
  beforeAll(async () => {
    plain = await audited(onWire('fp16'))
  })

  it.each(['fp16', 'int8'] as const)('who has the weights finds every token of prompt and answer (%s)', async (wire) => {
    const of = wire === 'fp16' ? plain : await audited(onWire(wire))
    for (const on of ['prompt', 'answer'] as const) {
      const { recovered, texts, tokens } = of('search', on)
      expect(recovered).toMatchObject({ top1: { mean: 1, low: 1, high: 1 }, rougeL: { mean: 1 } })
      expect([texts, tokens > 10]).toEqual([2, true])
      expect(of('nearest', on).recovered.top1!.mean).toBeLessThan(1)
    }
    expect(of('search', 'prompt').recovered.entities).toMatchObject({ mean: 1 })
    // The template's tokens are not counted.
    expect(of('search', 'prompt').tokens).toBe(questions.reduce((sum, each) => sum + encode(each).length, 0))
    // Sampled answers are not always the likeliest tokens.
    expect(of('head', 'answer').recovered.top1!.mean).toBeGreaterThan(0.2)
    expect(of('head', 'answer').recovered.top1!.mean).toBeLessThan(1)
  })

  it('who has no weights finds only tokens that the training texts have', () => {
    const found = plain('trained', 'prompt').recovered.top1!.mean
    const known = new Set(training.flatMap(encode))
    const asked = questions.flatMap(encode)
    expect(found).toBeGreaterThan(0)
    expect(found).toBeLessThanOrEqual(asked.filter((id) => known.has(id)).length / asked.length + 0.01)
  })

  it('finds little behind noise ten times as large as the states', async () => {
    // One: no candidate is clear, so that all are computed for each token.
    const of = await audited(noisy(10, seededRandom(1)), questions.slice(0, 1))
    expect(of('search', 'prompt').recovered.top1!.mean).toBeLessThan(0.5)
  })
})

describe('brim privacy audit', () => {
  const audit = async (...words: string[]) => {
    const { io, out, err } = captureIo()
    return { code: await run(['privacy', 'audit', ...words], io), out: out(), err: err() }
  }

  it('prints what each attack finds and needs; the same as JSON', async () => {
    using dir = tempDir()
    const prompts = join(dir.path, 'prompts.jsonl')
    writeFileSync(prompts, questions.map((each) => JSON.stringify({ prompt: each })).join('\n'))
    const words = [folder, '--prompts', prompts, '--answer-tokens', '4']
    const shown = await audit(...words)
    expect(shown.code).toBe(0)
    expect(shown.out).toMatch(/^search +prompt +100 % \(100 % to 100 %\).* the weights of the input part$/m)
    expect(shown.out).not.toMatch(/^trained/m)
    // The model itself guesses the next token of each row, which is seldom the row's own.
    const more = ['--train', prompts, '--inverter', folder, '--json']
    const { attacks, split, layers } = JSON.parse((await audit(...words, ...more)).out)
    expect([split, layers]).toEqual([1, 12])
    expect(attacks.map(({ attack }: { attack: string }) => attack)).toContain('trained')
    const inverted = attacks.find(({ attack }: { attack: string }) => attack === 'inverter')
    expect(inverted).toMatchObject({ text: 'prompt', texts: 2, needs: expect.stringContaining('a transformer') })
    expect(inverted.recovered.top1.mean).toBeLessThan(0.3)
    expect(attacks[0]).toMatchObject({ text: 'prompt', texts: 2, recovered: { top1: { mean: expect.any(Number) } } })
  })

  it('says why it audits nothing', async () => {
    using dir = tempDir()
    const prompts = join(dir.path, 'prompts.jsonl')
    writeFileSync(prompts, JSON.stringify({ prompt: 'word '.repeat(3_000) }))
    const whole = await ensureDemoBundle('slm-deep')
    using tiny = await tinyBundle()
    expect(await audit(folder, '--prompts', prompts, '--inverter', tiny.path)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/the inverter is for states of width 64 and 160 tokens; the model has 128 and 4096/),
    })
    expect(await audit(whole, '--prompts', prompts)).toMatchObject({ code: 2, err: expect.stringContaining('is a whole model') })
    expect(await audit(folder, '--prompts', prompts)).toMatchObject({
      code: 2,
      err: expect.stringMatching(/line 1: .* does not fit/),
    })
    expect(await audit(folder, '--prompts', join(dir.path, 'none'))).toMatchObject({
      code: 2,
      err: expect.stringContaining('cannot be read'),
    })
  })
})
