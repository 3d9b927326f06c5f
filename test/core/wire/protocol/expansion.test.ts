import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Expansion, sentencesOf } from '../../../../core/wire/protocol/expansion.ts'
import { ExpandInput, JobEvent, JobSubmission, resultProblem } from '../../../../core/wire/protocol/jobs.ts'

const line = fc.string({ minLength: 1, maxLength: 40 }).filter((text) => text.trim() !== '')
const sketched = fc
  .record(
    {
      prompt: fc.string({ minLength: 1, maxLength: 200 }),
      sketch: fc.array(line, { minLength: 1, maxLength: 12 }),
      from: fc.nat({ max: 11 }),
      expectedTokens: fc.integer({ min: 1, max: 1_000_000 }),
      budgetMs: fc.double({ min: 1, max: 1e6, noNaN: true }),
      candidates: fc.integer({ min: 1, max: 8 }),
      seed: fc.integer(),
    },
    { requiredKeys: ['prompt', 'sketch', 'expectedTokens'] },
  )
  .map(({ from, ...fields }) => ({
    ...fields,
    ...(from === undefined ? {} : { sentences: fields.sketch.map((_, at) => at).slice(from % fields.sketch.length) }),
  }))
const input = fc.record({ sketches: fc.array(sketched, { minLength: 1, maxLength: 4 }) })
const good = { prompt: 'What is a lamp?', sketch: ['It gives light.', 'It needs power.'], expectedTokens: 120 }

/** An expansion as a device returns it. */
const expanded = ({ sketches }: ExpandInput): Expansion => ({
  sentences: sketches.flatMap((asked, sketch) =>
    Array.from({ length: asked.candidates }, (_, candidate) =>
      sentencesOf(asked).map((sentence) => ({
        sketch,
        sentence,
        candidate,
        model: `slm-${candidate}`,
        text: `${asked.sketch[sentence]} And more.`,
        tokens: 7,
        meanLog2Probability: candidate % 2 === 0 ? -0.5 : null,
      })),
    ).flat(),
  ),
  runs: [{ model: 'slm-0', groups: 2, parallel: 2, promptTokens: 80, prefilledTokens: 50, tokens: 7, loadMs: 0, tookMs: 12 }],
})

describe('a job that expands sketches', () => {
  it('is parsed without loss for any sketches, and again as it was stored', () => {
    fc.assert(
      fc.property(input, (raw) => {
        const { input: stored } = JobSubmission.parse({ kind: 'pice.expand', input: raw }) as { input: ExpandInput }
        for (const [at, asked] of raw.sketches.entries()) {
          expect(stored.sketches[at]).toMatchObject({ candidates: asked.candidates ?? 1, temperature: 0 })
          expect(stored.sketches[at]!.sketch).toEqual(asked.sketch.map((text) => text.trim()))
          expect(stored.sketches[at]!.sentences).toEqual(asked.sentences)
        }
        expect(ExpandInput.parse(JSON.parse(JSON.stringify(stored)))).toEqual(stored)
      }),
      { seed: 1, numRuns: 300 },
    )
  })

  it.each([
    ['no sketch', { sketch: [] }],
    ['an empty sentence', { sketch: ['One.', '  '] }],
    ['a sentence that is not in the sketch', { sentences: [2] }],
    ['sentences that do not ascend', { sentences: [1, 0] }],
    ['no sentence to expand', { sentences: [] }],
    ['no length', { expectedTokens: undefined }],
    ['two questions', { messages: [{ role: 'user', content: 'b' }] }],
    ['an unknown field', { level: 3 }],
    ['no time', { budgetMs: 0 }],
  ])('is refused with %s', (_, fields) => {
    const submission = (sketch: object) => ({ kind: 'pice.expand', input: { sketches: [sketch] } })
    expect(JobSubmission.safeParse(submission(good)).success).toBe(true)
    expect(JobSubmission.safeParse(submission({ ...good, ...fields })).success).toBe(false)
  })

  it('accepts only results with each candidate of each requested sentence once', () => {
    fc.assert(
      fc.property(input, fc.nat(), fc.nat({ max: 2 }), (raw, at, harm) => {
        const asked = ExpandInput.parse(raw)
        const whole = expanded(asked)
        expect(resultProblem('pice.expand', asked, JSON.parse(JSON.stringify(whole)))).toBeUndefined()
        const bad = structuredClone(whole)
        const { sentences } = bad
        const one = at % sentences.length
        if (harm === 0) {
          sentences.splice(one, 1)
          if (sentences.length === 0) return
        } else if (harm === 1) sentences.push({ ...sentences[one]! })
        else sentences[one] = { ...sentences[one]!, sketch: asked.sketches.length }
        expect(resultProblem('pice.expand', asked, bad)).toMatch(
          harm === 0 ? /1 requested sentences are missing/ : /not requested/,
        )
      }),
      { seed: 1, numRuns: 300 },
    )
  })

  it('rejects any other value as its result', () => {
    const asked = ExpandInput.parse({ sketches: [good] })
    fc.assert(
      fc.property(fc.anything(), (anything) => {
        expect(resultProblem('pice.expand', asked, anything)).toEqual(expect.any(String))
      }),
      { seed: 1, numRuns: 500 },
    )
  })

  it('streams its sentences', () => {
    const event = { v: 1, bridge: 'b', job: '0123abcd-1', attempt: 1, n: 3, at: '2026-01-01T00:00:00.000Z', type: 'sentence' }
    const fields = { sketch: 0, candidate: 0, model: 'slm', tokens: 3, meanLog2Probability: -1 }
    fc.assert(
      fc.property(fc.nat(), fc.string(), (sentence, text) => {
        const piece = { ...event, ...fields, sentence, text }
        expect(JobEvent.parse(JSON.parse(JSON.stringify(piece)))).toEqual(piece)
      }),
      { seed: 1, numRuns: 100 },
    )
    expect(JobEvent.safeParse({ ...event, ...fields, sentence: -1, text: '' }).success).toBe(false)
  })
})
